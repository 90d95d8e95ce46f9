-- What /metrics asks. Each reads a bounded number of index entries, whatever the tables have grown to.

-- name: MetricAttention :many
-- How many are not well, counted up to a limit.
SELECT s.state::text AS state, (SELECT count(*) FROM (SELECT 1 FROM delivery d WHERE d.attention = s.state LIMIT @max) x)::int AS n
FROM unnest(ARRAY['retrying', 'dead_lettered', 'expired']) AS s(state);

-- name: MetricOldestWaiting :one
-- The age in seconds of what is due and not moving: behind the gate of an active destination, or in River without a worker.
SELECT coalesce(extract(epoch FROM clock_timestamp() - least(
    (SELECT min(x.due_at) FROM (SELECT id FROM destination WHERE state = 'active' ORDER BY id LIMIT 1000) t
        CROSS JOIN LATERAL (SELECT d.due_at FROM delivery d WHERE d.parked AND d.destination_id = t.id ORDER BY d.due_at, d.id LIMIT 1) x),
    (SELECT min(y.scheduled_at) FROM unnest(ARRAY['deliver', 'deliver_slow']) AS q(name) CROSS JOIN generate_series(1, 4) AS p(n)
        CROSS JOIN LATERAL (
            SELECT j.scheduled_at FROM river_job j WHERE j.state = 'available' AND j.queue = q.name AND j.priority = p.n
            ORDER BY j.scheduled_at, j.id LIMIT 1) y),
    clock_timestamp())), 0)::double precision AS seconds;

-- name: MetricParked :many
-- The lane's own counter where it has one destination; else counted up to a limit.
SELECT t.id, CASE WHEN l.parked = 0 THEN 0
    WHEN NOT EXISTS (SELECT 1 FROM destination o WHERE o.lane_id = l.id AND o.id <> t.id) THEN l.parked
    ELSE (SELECT count(*) FROM (SELECT 1 FROM delivery d WHERE d.parked AND d.destination_id = t.id LIMIT @max) x)::int END::int AS parked
FROM destination t JOIN lane l ON l.id = t.lane_id
WHERE t.deleted_at IS NULL ORDER BY l.parked DESC, t.id LIMIT 200;
