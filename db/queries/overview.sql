-- Queries of the admin panel's pages. Each is bounded: counts stop at a limit, lists have one.

-- name: OverviewCount :one
-- What waits is counted where it waits, among River's jobs; the rest from the index of what is not well.
SELECT
    ((SELECT count(*) FROM (SELECT 1 FROM river_job j WHERE j.state = 'available' AND j.queue IN ('deliver', 'deliver_slow') LIMIT @max) a)
    + (SELECT count(*) FROM (SELECT 1 FROM river_job j WHERE j.state = 'pending' AND j.queue IN ('deliver', 'deliver_slow') LIMIT @max) a)
    + (SELECT count(*) FROM (SELECT 1 FROM river_job j WHERE j.state = 'scheduled' AND j.queue IN ('deliver', 'deliver_slow') LIMIT @max) a))::int AS waiting,
    (SELECT count(*) FROM (SELECT 1 FROM attempt a WHERE a.finished_at IS NULL LIMIT @max) b)::int AS in_flight,
    (SELECT count(*) FROM (SELECT 1 FROM delivery d WHERE d.attention = 'retrying' LIMIT @max) c)::int AS retrying,
    (SELECT count(*) FROM (SELECT 1 FROM delivery d WHERE d.attention = 'dead_lettered' LIMIT @max) c)::int AS dead_lettered,
    (SELECT count(*) FROM (SELECT 1 FROM delivery d WHERE d.attention = 'expired' LIMIT @max) c)::int AS expired,
    (SELECT count(*) FROM (SELECT 1 FROM outbox o WHERE o.refused_at IS NULL LIMIT @max) o)::int AS outbox_waiting,
    (SELECT count(*) FROM (SELECT 1 FROM outbox o WHERE o.refused_at IS NOT NULL LIMIT @max) o)::int AS outbox_refused,
    (SELECT count(*) FROM process p WHERE p.stopped_at IS NULL AND p.beat_at > now() - interval '15 seconds' AND 'work' = ANY(p.roles))::int AS workers,
    (SELECT count(*) FROM process p WHERE p.stopped_at IS NULL AND p.beat_at > now() - interval '15 seconds' AND 'discover' = ANY(p.roles))::int AS discoverers,
    EXISTS (SELECT 1 FROM destination d WHERE d.deleted_at IS NULL)::bool AS has_destination,
    EXISTS (SELECT 1 FROM event)::bool AS has_event,
    now()::timestamptz AS now;

-- name: OverviewListDestination :many
-- Destinations with their live state, by name. The last outcome is looked for where it must be: among the newest deliveries, and among
-- those just before the oldest one that is still parked.
SELECT d.id, d.name, d.url, d.state, d.state_reason, d.state_since, d.draining_since, d.tenant, d.ordering, d.lane_id,
    lane.rate, lane.burst, lane.max_in_flight, lane.held_reason,
    to_timestamp(lane.held_us / 1e6)::timestamptz AS held_until, (lane.held_us > extract(epoch FROM clock_timestamp()) * 1e6)::bool AS held,
    (SELECT count(*) FROM destination o WHERE o.lane_id = d.lane_id AND o.deleted_at IS NULL)::int AS sharing,
    coalesce(flying.n, 0)::int AS in_flight,
    CASE WHEN lane.parked = 0 THEN 0
        WHEN NOT EXISTS (SELECT 1 FROM destination o WHERE o.lane_id = d.lane_id AND o.id <> d.id) THEN lane.parked
        ELSE (SELECT count(*) FROM (SELECT 1 FROM delivery o WHERE o.parked AND o.destination_id = d.id LIMIT @max) x)::int END::int AS waiting,
    -- The first in line of each priority: a few probes, however long the line.
    coalesce((SELECT min(h.due_at) FROM (VALUES (1::smallint), (2::smallint), (3::smallint), (4::smallint)) AS p(priority) CROSS JOIN LATERAL (
        SELECT o.due_at FROM delivery o WHERE o.parked AND o.destination_id = d.id AND o.priority = p.priority ORDER BY o.turn, o.id LIMIT 1) h
        WHERE lane.parked > 0), 'epoch')::timestamptz AS oldest_due,
    coalesce(dead.n, 0)::int AS dead_lettered,
    coalesce(last.delivery_id, 0)::bigint AS last_delivery_id, last.verdict AS last_verdict, last.status AS last_status,
    coalesce(last.error_class, '')::text AS last_error_class, coalesce(last.reason, '')::text AS last_reason, last.finished_at AS last_at
FROM destination d
JOIN lane ON lane.id = d.lane_id
LEFT JOIN (
    SELECT o.destination_id, count(*) AS n
    FROM (SELECT a.delivery_id FROM attempt a WHERE a.finished_at IS NULL LIMIT 10000) f JOIN delivery o ON o.id = f.delivery_id
    GROUP BY o.destination_id
) flying ON flying.destination_id = d.id
LEFT JOIN (
    SELECT r.destination_id, count(*) AS n
    FROM (SELECT o.destination_id FROM delivery o WHERE o.attention = 'dead_lettered' ORDER BY o.id DESC LIMIT 1000) r
    GROUP BY r.destination_id
) dead ON dead.destination_id = d.id
LEFT JOIN LATERAL (
    SELECT a.delivery_id, a.verdict, a.status, a.error_class, a.reason, a.finished_at
    FROM (
        (SELECT o.id, o.attempts FROM delivery o WHERE o.destination_id = d.id ORDER BY o.id DESC LIMIT 20)
        UNION
        (SELECT o.id, o.attempts FROM delivery o WHERE o.destination_id = d.id AND o.id <= (
            SELECT q.id FROM delivery q WHERE q.parked AND q.destination_id = d.id ORDER BY q.priority, q.turn, q.id LIMIT 1) ORDER BY o.id DESC LIMIT 20)
    ) o
    JOIN attempt a ON a.delivery_id = o.id AND a.no = o.attempts AND a.finished_at IS NOT NULL
    WHERE o.attempts > 0
    ORDER BY a.finished_at DESC LIMIT 1
) last ON true
WHERE d.deleted_at IS NULL AND (sqlc.narg('ids')::bigint[] IS NULL OR d.id = ANY(sqlc.narg('ids')::bigint[])) AND d.name > @after_name::text
ORDER BY d.name LIMIT @page;

-- name: OverviewListDestinationName :many
-- For the filter of the deliveries.
SELECT id, name, deleted_at FROM destination ORDER BY (deleted_at IS NOT NULL), name LIMIT @max;

-- name: OverviewOldestDue :one
-- Since when the oldest delivery should have left, of active destinations: behind the gate, in River, or taken by a worker that does not
-- come back with it. Now where nothing waits.
SELECT coalesce(min(x.at), now())::timestamptz AS oldest FROM (
    SELECT h.due_at AS at FROM destination d JOIN lane ON lane.id = d.lane_id
    CROSS JOIN (VALUES (1::smallint), (2::smallint), (3::smallint), (4::smallint)) AS p(priority) CROSS JOIN LATERAL (
        -- The first in line; the gate's index has no other order.
        SELECT o.due_at FROM delivery o WHERE o.parked AND o.destination_id = d.id AND o.priority = p.priority ORDER BY o.turn, o.id LIMIT 1) h
    WHERE d.state = 'active' AND lane.parked > 0 AND lane.held_us <= extract(epoch FROM clock_timestamp()) * 1e6
    UNION ALL
    -- One look at the index River fetches by, for each queue and priority.
    SELECT r.scheduled_at FROM unnest(ARRAY['deliver', 'deliver_slow']) AS q(queue) CROSS JOIN generate_series(1, 4) AS p(priority)
    CROSS JOIN LATERAL (
        SELECT j.scheduled_at FROM river_job j
        WHERE j.state = 'available' AND j.queue = q.queue AND j.priority = p.priority ORDER BY j.scheduled_at, j.id LIMIT 1) r
    UNION ALL
    (SELECT j.attempted_at FROM river_job j
        WHERE j.state = 'running' AND j.queue IN ('deliver', 'deliver_slow') AND j.attempted_at < now() - interval '2 minutes' LIMIT 100)
) x;
