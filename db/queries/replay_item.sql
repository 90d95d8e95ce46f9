-- name: ReplayItemInsertMany :many
-- Selected, and waiting for their turn. Returns those that are new to the run.
INSERT INTO replay_item (replay_id, delivery_id, destination_id, lane_id, previous_state, state)
SELECT @replay_id, unnest(@delivery_ids::bigint[]), unnest(@destination_ids::bigint[]), unnest(@lane_ids::bigint[]), unnest(@previous_states::text[]), 'waiting'
ON CONFLICT DO NOTHING RETURNING destination_id, lane_id;

-- name: ReplayItemListNext :many
-- The next waiting items of these lanes, each up to its lane's number, but for destinations that are not active; with their deliveries,
-- locked. The caller holds the lanes' locks.
SELECT d.id, d.destination_id, d.lane_id, d.try, d.priority, d.state, d.replay_id, c.previous_state
FROM (
    SELECT x.delivery_id, x.previous_state
    FROM (SELECT unnest(@lane_ids::bigint[]) AS lane_id, unnest(@maxes::int[]) AS most) l
    CROSS JOIN LATERAL (
        SELECT y.delivery_id, y.previous_state
        FROM replay_destination p
        JOIN destination t ON t.id = p.destination_id AND t.state = 'active'
        CROSS JOIN LATERAL (
            SELECT i.delivery_id, i.previous_state FROM replay_item i
            WHERE i.replay_id = @replay_id AND i.lane_id = l.lane_id AND i.destination_id = p.destination_id AND i.state = 'waiting'
            ORDER BY i.delivery_id LIMIT l.most
        ) y
        WHERE p.replay_id = @replay_id AND p.lane_id = l.lane_id AND p.waiting > 0
        ORDER BY y.delivery_id LIMIT l.most
    ) x
) c
JOIN delivery d ON d.id = c.delivery_id
ORDER BY d.id FOR NO KEY UPDATE OF d;

-- name: ReplayItemRefuse :exec
UPDATE replay_item i SET state = 'refused', refusal = r.refusal
FROM (SELECT unnest(@delivery_ids::bigint[]) AS delivery_id, unnest(@refusals::text[]) AS refusal) r
WHERE i.replay_id = @replay_id AND i.delivery_id = r.delivery_id AND i.state = 'waiting';

-- name: ReplayItemRefuseDeleted :execrows
-- A page of the waiting items whose destination was deleted. Returns how many destinations' counts it changed.
WITH x AS MATERIALIZED (
    SELECT i.delivery_id
    FROM replay_destination p
    JOIN destination t ON t.id = p.destination_id AND t.state = 'deleted'
    CROSS JOIN LATERAL (
        SELECT y.delivery_id FROM replay_item y
        WHERE y.replay_id = p.replay_id AND y.lane_id = p.lane_id AND y.destination_id = p.destination_id AND y.state = 'waiting'
        ORDER BY y.delivery_id LIMIT @max
    ) i
    WHERE p.replay_id = @replay_id AND p.waiting > 0
    LIMIT @max
), u AS (
    UPDATE replay_item i SET state = 'refused', refusal = 'its destination was deleted'
    FROM x WHERE i.replay_id = @replay_id AND i.delivery_id = x.delivery_id AND i.state = 'waiting'
    RETURNING i.destination_id, i.lane_id
)
UPDATE replay_destination p SET waiting = p.waiting - n.n, refused = p.refused + n.n
FROM (SELECT u.destination_id, u.lane_id, count(*)::int AS n FROM u GROUP BY 1, 2) n
WHERE p.replay_id = @replay_id AND p.destination_id = n.destination_id AND p.lane_id = n.lane_id;

-- name: ReplayItemRefuseMissing :execrows
-- A page of the waiting items whose deliveries are not on record any more.
WITH x AS MATERIALIZED (
    SELECT i.delivery_id FROM replay_item i
    WHERE i.replay_id = @replay_id AND i.state = 'waiting' AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.id = i.delivery_id)
    LIMIT @max
), u AS (
    UPDATE replay_item i SET state = 'refused', refusal = 'it is not on record any more'
    FROM x WHERE i.replay_id = @replay_id AND i.delivery_id = x.delivery_id AND i.state = 'waiting'
    RETURNING i.destination_id, i.lane_id
)
UPDATE replay_destination p SET waiting = p.waiting - n.n, refused = p.refused + n.n
FROM (SELECT u.destination_id, u.lane_id, count(*)::int AS n FROM u GROUP BY 1, 2) n
WHERE p.replay_id = @replay_id AND p.destination_id = n.destination_id AND p.lane_id = n.lane_id;

-- name: ReplayItemRestore :many
-- What a stopped run has fed and nobody has sent yet goes back to what it was. Where a lane keeps no accounts, one that is out of the gate
-- may be on its way: it is left to go. The caller holds the lanes' locks. Returns what counters and jobs must follow.
WITH x AS MATERIALIZED (
    SELECT i.delivery_id, i.destination_id, i.lane_id, i.previous_state, i.previous_reason, i.previous_settled_at, i.previous_expires_at,
        i.previous_failures, i.previous_replay_id, d.job_id, d.parked, d.in_window
    FROM replay_item i
    JOIN delivery d ON d.id = i.delivery_id
    JOIN lane ON lane.id = d.lane_id
    WHERE i.replay_id = @replay_id AND i.lane_id = ANY(@lane_ids::bigint[]) AND i.state = 'sent' AND i.outcome IS NULL
        AND d.replay_id = i.replay_id AND d.state = 'pending' AND d.attempts = i.previous_attempts
        AND (d.parked OR d.blocked OR (d.in_window AND lane.limited)) AND i.previous_settled_at IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.delivery_id = d.id AND a.no = d.attempts + 1)
    ORDER BY i.delivery_id LIMIT @max
    FOR NO KEY UPDATE OF d
), back AS (
    UPDATE delivery SET state = x.previous_state, reason = x.previous_reason, settled_at = x.previous_settled_at, expires_at = x.previous_expires_at,
        failures = x.previous_failures, replay_id = x.previous_replay_id, parked = false, in_window = false, blocked = false
    FROM x WHERE delivery.id = x.delivery_id RETURNING delivery.id
), u AS (
    UPDATE replay_item i SET state = 'left', sent_at = NULL FROM x WHERE i.replay_id = @replay_id AND i.delivery_id = x.delivery_id RETURNING i.delivery_id
)
SELECT x.delivery_id, x.destination_id, x.lane_id, x.job_id, x.parked, x.in_window FROM x;

-- name: ReplayItemSend :exec
-- Just before their deliveries are reopened: how those were.
UPDATE replay_item i SET state = 'sent', sent_at = clock_timestamp(), previous_state = d.state, previous_reason = d.reason,
    previous_settled_at = d.settled_at, previous_expires_at = d.expires_at, previous_failures = d.failures, previous_replay_id = d.replay_id,
    previous_attempts = d.attempts
FROM delivery d
WHERE i.replay_id = @replay_id AND i.delivery_id = ANY(@delivery_ids::bigint[]) AND d.id = i.delivery_id;

-- name: ReplayItemSettle :one
-- Writes down how a page of a run's deliveries ended. The caller holds the run's lock.
WITH x AS MATERIALIZED (
    SELECT i.delivery_id, coalesce(d.state, 'removed') AS outcome, (d.attempts > i.previous_attempts) AS tried,
        greatest(coalesce(d.attempts - i.previous_attempts - 1, 0), 0) AS retries, d.last_status, d.last_error_class, d.reason
    FROM replay_item i LEFT JOIN delivery d ON d.id = i.delivery_id
    WHERE i.replay_id = @replay_id AND i.state = 'sent' AND i.outcome IS NULL AND (d.id IS NULL OR d.settled_at IS NOT NULL)
    LIMIT @max
), u AS (
    UPDATE replay_item i SET outcome = x.outcome, outcome_status = CASE WHEN x.tried THEN x.last_status END,
        outcome_class = CASE WHEN x.tried THEN x.last_error_class ELSE '' END, outcome_reason = coalesce(x.reason, '')
    FROM x WHERE i.replay_id = @replay_id AND i.delivery_id = x.delivery_id
    RETURNING i.destination_id, i.lane_id, i.outcome, x.retries
), c AS (
    UPDATE replay_destination p SET delivered = p.delivered + n.delivered, failed = p.failed + n.failed
    FROM (SELECT u.destination_id, u.lane_id, count(*) FILTER (WHERE u.outcome = 'delivered')::int AS delivered,
        count(*) FILTER (WHERE u.outcome <> 'delivered')::int AS failed FROM u GROUP BY 1, 2) n
    WHERE p.replay_id = @replay_id AND p.destination_id = n.destination_id AND p.lane_id = n.lane_id RETURNING 1
), l AS (
    UPDATE replay_lane p SET retries = p.retries + n.retries
    FROM (SELECT u.lane_id, sum(u.retries)::bigint AS retries FROM u GROUP BY 1) n
    WHERE p.replay_id = @replay_id AND p.lane_id = n.lane_id AND n.retries > 0 RETURNING 1
)
SELECT count(*)::int FROM u;

-- name: ReplayItemSettleByDelivery :exec
-- The same for deliveries that are about to be reopened, in whatever run they ended. The caller holds those runs' locks.
WITH u AS (
    UPDATE replay_item i SET outcome = d.state, outcome_status = CASE WHEN d.attempts > i.previous_attempts THEN d.last_status END,
        outcome_class = CASE WHEN d.attempts > i.previous_attempts THEN d.last_error_class ELSE '' END, outcome_reason = d.reason
    FROM delivery d
    WHERE i.delivery_id = ANY(@delivery_ids::bigint[]) AND i.state = 'sent' AND i.outcome IS NULL AND d.id = i.delivery_id AND d.settled_at IS NOT NULL
    RETURNING i.replay_id, i.destination_id, i.lane_id, i.outcome, greatest(d.attempts - i.previous_attempts - 1, 0) AS retries
), c AS (
    UPDATE replay_destination p SET delivered = p.delivered + n.delivered, failed = p.failed + n.failed
    FROM (SELECT u.replay_id, u.destination_id, u.lane_id, count(*) FILTER (WHERE u.outcome = 'delivered')::int AS delivered,
        count(*) FILTER (WHERE u.outcome <> 'delivered')::int AS failed FROM u GROUP BY 1, 2, 3) n
    WHERE p.replay_id = n.replay_id AND p.destination_id = n.destination_id AND p.lane_id = n.lane_id RETURNING 1
)
UPDATE replay_lane p SET retries = p.retries + n.retries
FROM (SELECT u.replay_id, u.lane_id, sum(u.retries)::bigint AS retries FROM u GROUP BY 1, 2) n
WHERE p.replay_id = n.replay_id AND p.lane_id = n.lane_id AND n.retries > 0;
