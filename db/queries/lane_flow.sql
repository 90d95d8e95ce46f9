-- name: LaneFlowNext :many
-- The next turn of each flow, in the order given: one after the flow's last, but never behind the turn that the gate is at, which is that of
-- the first in line (or, with nothing in line, the last one given out). So a flow that was idle does not make up for it, and one that sends
-- a thousand at once takes turns with the others. Paused destinations' work is in line only as long as there is no other.
SELECT k.ord::int AS ord, greatest(coalesce(f.turn, 0) + 1, coalesce(head.active, head.turn, last.turn, 0))::bigint AS turn
FROM (
    SELECT u.lane_id, u.priority, u.tenant, u.class, row_number() OVER () AS ord FROM (
        SELECT unnest(@lane_ids::bigint[]) AS lane_id, unnest(@priorities::smallint[]) AS priority, unnest(@tenants::text[]) AS tenant,
            unnest(@classes::smallint[]) AS class
    ) u
) k
LEFT JOIN lane_flow f ON f.lane_id = k.lane_id AND f.priority = k.priority AND f.tenant = k.tenant AND f.class = k.class
LEFT JOIN LATERAL (
    SELECT min(x.turn) FILTER (WHERE t.state = 'active') AS active, min(x.turn) AS turn FROM destination t CROSS JOIN LATERAL (
        SELECT d.turn FROM delivery d WHERE d.parked AND d.destination_id = t.id AND d.priority = k.priority ORDER BY d.turn, d.id LIMIT 1
    ) x
    WHERE t.lane_id = k.lane_id
) head ON true
LEFT JOIN LATERAL (SELECT max(o.turn) AS turn FROM lane_flow o WHERE o.lane_id = k.lane_id AND o.priority = k.priority) last ON true
ORDER BY k.ord;

-- name: LaneFlowPrune :exec
-- Flows that have nothing to say: their lane has nothing behind the gate. The highest turn of each lane and priority stays, so that turns go on.
DELETE FROM lane_flow f USING lane
WHERE lane.id = f.lane_id AND lane.parked = 0
    AND f.turn < (SELECT max(o.turn) FROM lane_flow o WHERE o.lane_id = f.lane_id AND o.priority = f.priority);

-- name: LaneFlowSet :exec
-- The caller holds the lanes' locks. Turns never go back, whoever read them when.
INSERT INTO lane_flow (lane_id, priority, tenant, class, turn)
SELECT unnest(@lane_ids::bigint[]), unnest(@priorities::smallint[]), unnest(@tenants::text[]), unnest(@classes::smallint[]), unnest(@turns::bigint[])
ON CONFLICT (lane_id, priority, tenant, class) DO UPDATE SET turn = greatest(lane_flow.turn, excluded.turn);
