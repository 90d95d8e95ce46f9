-- What the overview's list of what needs attention is made from. Each query is bounded, and none reads the ledger but by the index of what is
-- not well or by a few probes of the gate's.

-- name: AttentionListDestination :many
-- The destinations about which there is anything to say: not active, held, slow, with a line behind the gate, or with failures in the last
-- minutes (since; what they came to is added up here). Those that wait longest by their pace first.
SELECT d.id, d.name, d.state, d.state_reason, d.state_since, d.draining_since, d.ttl_s, d.lane_id, l.name AS lane_name,
    coalesce(least(l.rate, l.learned_rate), 0)::double precision AS pace, l.max_in_flight, l.in_flight,
    (l.parked + greatest(0, l.open - l.in_flight))::int AS waiting,
    (SELECT count(*) FROM destination o WHERE o.lane_id = d.lane_id AND o.deleted_at IS NULL)::int AS sharing,
    to_timestamp(l.held_us / 1e6)::timestamptz AS held_until, (l.held_us > extract(epoch FROM statement_timestamp()) * 1e6)::bool AS held, l.held_reason,
    l.slow_since,
    coalesce(t.arrived, 0)::bigint AS arrived, coalesce(t.requests, 0)::bigint AS requests, coalesce(t.ok, 0)::bigint AS ok,
    coalesce(t.rate_limited, 0)::bigint AS rate_limited, coalesce(t.refused, 0)::bigint AS refused,
    coalesce(t.server_error, 0)::bigint AS server_error, coalesce(t.timeout, 0)::bigint AS timed_out, coalesce(t.network, 0)::bigint AS network,
    coalesce(t.took_us, 0)::bigint AS took_us
FROM destination d
JOIN lane l ON l.id = d.lane_id
LEFT JOIN (
    SELECT m.destination_id, sum(m.arrived) AS arrived, sum(m.requests) AS requests, sum(m.ok) AS ok, sum(m.rate_limited) AS rate_limited,
        sum(m.refused) AS refused, sum(m.server_error) AS server_error, sum(m.timeout) AS timeout, sum(m.network) AS network, sum(m.took_us) AS took_us
    FROM tally m WHERE m.step_s = 60 AND m.at >= @since AND m.destination_id <> 0 GROUP BY m.destination_id
) t ON t.destination_id = d.id
WHERE d.deleted_at IS NULL AND (sqlc.narg('id')::bigint IS NULL OR d.id = sqlc.narg('id')::bigint)
    AND (d.state <> 'active' OR l.held_us > extract(epoch FROM statement_timestamp()) * 1e6 OR l.slow_since IS NOT NULL OR l.parked > 0
        OR coalesce(t.requests - t.ok, 0) > 0)
ORDER BY (d.state = 'disabled') DESC, l.parked / coalesce(least(l.rate, l.learned_rate), 1000) DESC, d.id LIMIT @max;

-- name: AttentionListHead :many
-- Of each of these destinations the first in line behind the gate, of each priority; the oldest of them is about the oldest that waits. A few
-- probes of the gate's index each, however long the line.
SELECT x.id::bigint AS id, min(h.due_at)::timestamptz AS due_at, min(h.expires_at)::timestamptz AS expires_at
FROM (SELECT unnest(@ids::bigint[]) AS id) x
CROSS JOIN (VALUES (1::smallint), (2::smallint), (3::smallint), (4::smallint)) AS p(priority)
CROSS JOIN LATERAL (
    SELECT d.due_at, d.expires_at FROM delivery d
    WHERE d.parked AND d.destination_id = x.id AND d.priority = p.priority ORDER BY d.turn, d.id LIMIT 1
) h
GROUP BY x.id;

-- name: AttentionListDead :many
-- The groups of the inbox that are open and not snoozed, those that grew last first.
SELECT g.destination_id, g.type, g.status, g.error_class, g.open, coalesce(g.opened_at, g.first_seen)::timestamptz AS first_at, g.last_seen
FROM dead_letter_group g
WHERE g.open > 0 AND g.state = 'dead_lettered' AND (g.snoozed_until IS NULL OR g.snoozed_until <= statement_timestamp())
ORDER BY g.last_seen DESC, g.id DESC LIMIT 300;

-- name: AttentionListPassed :many
-- How many of each type got through to a destination among its newest 200 deliveries.
SELECT x.id::bigint AS destination_id, x.type::text AS type, (
    SELECT count(*) FROM (SELECT o.event_id, o.state FROM delivery o WHERE o.destination_id = x.id ORDER BY o.id DESC LIMIT 200) r
    JOIN event e ON e.id = r.event_id WHERE r.state = 'delivered' AND e.type = x.type
)::int AS passed
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@types::text[]) AS type) x;

-- name: AttentionListTally :many
-- What these few destinations' receivers answered: minutes of the last three hours, then hours of the last week, newest first.
SELECT t.destination_id, t.step_s, t.at, t.requests, t.server_error, t.timeout AS timed_out, t.network FROM tally t
WHERE t.destination_id = ANY(@ids::bigint[]) AND t.requests > 0 AND ((t.step_s = 60 AND t.at >= statement_timestamp() - interval '3 hours')
    OR (t.step_s = 3600 AND t.at >= statement_timestamp() - interval '7 days'))
ORDER BY t.destination_id, t.step_s, t.at DESC LIMIT 10000;

-- name: AttentionReady :one
-- Since when the first in each of River's lines could have been taken, and what the last delivery's minute was. Now, and the epoch, where
-- there is none.
SELECT
    coalesce((SELECT min(r.scheduled_at) FROM (VALUES ('deliver'), ('deliver_slow')) AS q(queue) CROSS JOIN generate_series(1, 4) AS p(priority)
        CROSS JOIN LATERAL (
            SELECT j.scheduled_at FROM river_job j
            WHERE j.state = 'available' AND j.queue = q.queue AND j.priority = p.priority ORDER BY j.scheduled_at, j.id LIMIT 1) r), now())::timestamptz AS ready_since,
    coalesce((SELECT t.at FROM tally t WHERE t.destination_id = 0 AND t.step_s = 60 AND t.delivered > 0 ORDER BY t.at DESC LIMIT 1), 'epoch')::timestamptz AS delivered_at;

-- name: AttentionListName :many
SELECT id, name, state, lane_id FROM destination WHERE id = ANY(@ids::bigint[]) AND deleted_at IS NULL ORDER BY id;
