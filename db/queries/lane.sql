-- name: LaneAdd :exec
-- The caller holds the lanes' locks (LaneLock).
UPDATE lane SET
    open = CASE WHEN lane.limited THEN lane.open + a.open ELSE lane.open END,
    parked = lane.parked + a.parked
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@open::int[]) AS open, unnest(@parked::int[]) AS parked) a
WHERE lane.id = a.id;

-- name: LaneGetByID :one
SELECT * FROM lane WHERE id = @id;

-- name: LaneInsert :one
INSERT INTO lane (name, rate, burst, max_in_flight, learning) VALUES (@name, sqlc.narg('rate'), @burst, sqlc.narg('max_in_flight'), @learning) RETURNING *;

-- name: LaneList :many
SELECT * FROM lane WHERE id > @after ORDER BY id LIMIT @max;

-- name: LaneListIDPromotable :many
-- Lanes that have something behind the gate, are not held, and whose next token is near: what the sweep looks at.
SELECT id FROM lane
WHERE parked > 0 AND held_us <= (extract(epoch FROM clock_timestamp()) * 1e6)::bigint
    AND (period_us = 0 OR tat_us - tau_us <= (extract(epoch FROM clock_timestamp()) * 1e6)::bigint + 2000000)
ORDER BY id LIMIT @max;

-- name: LaneLock :exec
-- In id order, as everywhere: two transactions that lock the same lanes cannot deadlock. What follows in the transaction has a snapshot
-- newer than the locks, so it may read anything and decide by it.
SELECT id FROM lane WHERE id = ANY(@ids::bigint[]) ORDER BY id FOR NO KEY UPDATE;

-- name: LaneLockByDelivery :exec
-- The limited lanes among those touched and those of these deliveries, and whatever is named besides. Lanes without limits keep no accounts
-- and take no lock. By array, so that the key's index is used: the table is nearly empty pages.
SELECT id FROM lane
WHERE id = ANY(ARRAY(SELECT d.lane_id FROM delivery d WHERE d.id = ANY(@delivery_ids::bigint[]) UNION SELECT unnest(@touched::bigint[])))
    AND (limited OR id = ANY(@also::bigint[]))
ORDER BY id FOR NO KEY UPDATE;

-- name: LaneLockByEvent :exec
-- The lanes of an event's deliveries, before those are locked: settlement takes them in this order too.
SELECT id FROM lane WHERE id IN (
    SELECT d.lane_id FROM delivery d JOIN event e ON e.id = d.event_id
    WHERE e.event_id = @event_id::text AND (sqlc.narg('destination_id')::bigint IS NULL OR d.destination_id = sqlc.narg('destination_id')::bigint)
) ORDER BY id FOR NO KEY UPDATE;

-- name: LaneRamp :exec
-- After a pause the burst is not at once available: the first request leaves now, the burst builds up from there.
UPDATE lane SET tat_us = greatest(tat_us, (extract(epoch FROM clock_timestamp()) * 1e6)::bigint + tau_us) WHERE id = @id AND period_us > 0;

-- name: LaneReslotMany :many
-- New send times for requests that are late for theirs; their places in flight are kept. Where nothing has been granted after a lone one
-- (the lane's tat is the one that its own grant left), its token moves along with it and nothing is lost; otherwise each takes a new one.
-- Runs after LaneLock in the same transaction; one row back per request, in order. Times are database microseconds.
WITH t AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint AS now_us),
ask AS (
    SELECT u.lane_id, u.tat_us, row_number() OVER () AS ord
    FROM (SELECT unnest(@ids::bigint[]) AS lane_id, unnest(@tats_us::bigint[]) AS tat_us) u
),
r AS MATERIALIZED (
    SELECT ask.ord, lane.id, lane.period_us, lane.tau_us, t.now_us, row_number() OVER (PARTITION BY lane.id ORDER BY ask.ord) AS rank,
        greatest(t.now_us, CASE WHEN lane.tat_us = ask.tat_us AND count(*) OVER (PARTITION BY lane.id) = 1
            THEN lane.tat_us - lane.period_us ELSE lane.tat_us END) AS base_us
    FROM ask JOIN lane ON lane.id = ask.lane_id CROSS JOIN t
),
taken AS (
    UPDATE lane SET tat_us = n.tat_us
    FROM (SELECT r.id, max(r.base_us + r.rank * r.period_us) AS tat_us FROM r GROUP BY r.id) n
    WHERE lane.id = n.id RETURNING lane.id
)
SELECT greatest(r.now_us, r.base_us + (r.rank - 1) * r.period_us - r.tau_us)::bigint AS slot_us, (r.base_us + r.rank * r.period_us)::bigint AS tat_us
FROM r ORDER BY r.ord;

-- name: LaneRoom :many
-- How many more deliveries each lane's window takes. Read without a lock: fan-out adds under the lock afterwards, then promotes.
SELECT id, limited, (slow_since IS NOT NULL)::bool AS slow,
    CASE WHEN NOT limited THEN 1000000000
         WHEN parked > 0 OR held_us > (extract(epoch FROM clock_timestamp()) * 1e6)::bigint THEN 0
         WHEN period_us > 0 AND tat_us - tau_us > (extract(epoch FROM clock_timestamp()) * 1e6)::bigint + 2000000 THEN 0
         ELSE greatest(0, window_size - (open - in_flight)) END::int AS room
FROM lane WHERE id = ANY(@ids::bigint[]);

-- name: LanePromote :one
-- The gate: lets parked deliveries of these lanes into River, by priority and then by turn, as far as each window has room. Room below a
-- quarter of the window is left to grow, so that promotions are few and large. Arrays, not joins, in the updates: a LIMIT that is an
-- expression makes the planner expect a tenth of the backlog and hash whole tables. One notification per queue, only where a window had
-- run nearly empty: NOTIFY takes a lock at commit, and a full window needs no waking. The caller holds the lanes' locks.
WITH l AS MATERIALIZED (
    SELECT lane.id, lane.open - lane.in_flight AS waiting, lane.slow_since IS NOT NULL AS slow,
        CASE WHEN lane.limited THEN lane.window_size - (lane.open - lane.in_flight) ELSE lane.window_size END AS room
    FROM lane
    WHERE lane.id = ANY(@ids::bigint[]) AND lane.parked > 0
        AND lane.held_us <= (extract(epoch FROM clock_timestamp()) * 1e6)::bigint
        -- Not before the next token is as near as a worker may wait (2 s): it would be parked again at once, and again.
        AND (lane.period_us = 0 OR lane.tat_us - lane.tau_us <= (extract(epoch FROM clock_timestamp()) * 1e6)::bigint + 2000000)
        AND (NOT lane.limited OR lane.window_size - (lane.open - lane.in_flight) >= greatest(1, lane.window_size / 4))
),
p AS MATERIALIZED (
    SELECT c.id, c.job_id, l.id AS lane_id, l.slow
    FROM l CROSS JOIN LATERAL (
        SELECT x.id, x.job_id FROM destination t CROSS JOIN LATERAL (
            SELECT d.id, d.job_id, d.priority, d.turn FROM delivery d
            WHERE d.parked AND d.destination_id = t.id AND d.due_at <= statement_timestamp()
            ORDER BY d.priority, d.turn, d.id LIMIT l.room
        ) x
        WHERE t.lane_id = l.id AND t.state = 'active'
        ORDER BY x.priority, x.turn, x.id LIMIT l.room
    ) c
),
moved AS (
    UPDATE delivery SET parked = false, in_window = true WHERE delivery.id = ANY(ARRAY(SELECT p.id FROM p)) RETURNING delivery.lane_id
),
woken AS (
    UPDATE river_job SET state = 'available', scheduled_at = now(),
        queue = CASE WHEN river_job.id = ANY(ARRAY(SELECT p.job_id FROM p WHERE p.slow)) THEN 'deliver_slow' ELSE 'deliver' END
    WHERE river_job.id = ANY(ARRAY(SELECT p.job_id FROM p)) AND river_job.state = 'pending' RETURNING river_job.id
),
counted AS (
    UPDATE lane SET parked = greatest(0, lane.parked - m.n), open = CASE WHEN lane.limited THEN lane.open + m.n ELSE lane.open END
    FROM (SELECT moved.lane_id, count(*)::int AS n FROM moved GROUP BY moved.lane_id) m
    WHERE lane.id = m.lane_id RETURNING lane.id
)
SELECT (SELECT count(*) FROM woken)::int AS promoted, (SELECT count(*) FROM counted)::int AS lanes,
    (SELECT count(pg_notify(current_schema() || '.river_insert', n.payload)) FROM (
        SELECT DISTINCT CASE WHEN l.slow THEN '{"queue":"deliver_slow"}' ELSE '{"queue":"deliver"}' END AS payload
        FROM l WHERE l.waiting <= 2 AND EXISTS (SELECT 1 FROM p WHERE p.lane_id = l.id)
    ) n)::int AS notified;

-- name: LaneListFree :many
-- How many places in flight these lanes have free. Read without a lock, to see whether asking is worth it.
SELECT id, greatest(0, coalesce(max_in_flight - in_flight, 1))::int AS free FROM lane WHERE id = ANY(@ids::bigint[]);

-- name: LaneSetSerial :one
-- A lane orders as long as one of its destinations does. Returns whether it is limited now. The caller holds the lane's lock.
UPDATE lane SET serial = EXISTS (SELECT 1 FROM destination t WHERE t.lane_id = lane.id AND t.ordering = 'serial' AND t.deleted_at IS NULL)
WHERE lane.id = @id RETURNING lane.limited;

-- name: LaneUpdatePolicy :one
UPDATE lane SET
    name = coalesce(sqlc.narg('name'), name), rate = sqlc.narg('rate'), burst = @burst, max_in_flight = sqlc.narg('max_in_flight'), learning = @learning,
    -- What was learned was learned below the old ceiling.
    learned_rate = CASE WHEN rate IS NOT DISTINCT FROM sqlc.narg('rate') AND learning = @learning THEN learned_rate END, updated_at = now()
WHERE id = @id RETURNING *;
