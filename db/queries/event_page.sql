-- Pages of events, newest first. Beside event.sql because they are the reader's side: none of it is on the way of an event.

-- name: EventGetMeta :one
-- Everything but the payload, which may be large.
SELECT id, event_id, tenant, type, subject, version, length(payload)::int AS bytes, occurred_at, expires_at, priority, created_at,
    (fanout_after IS NOT NULL)::bool AS fanning_out
FROM event WHERE event_id = @event_id;

-- name: EventListMeta :many
SELECT id, event_id, tenant, type, subject, version, length(payload)::int AS bytes, occurred_at, expires_at, priority, created_at,
    (fanout_after IS NOT NULL)::bool AS fanning_out
FROM event WHERE id = ANY(@ids::bigint[]) ORDER BY id DESC;

-- name: EventFrom :one
-- The first event from an id on, and when it came: ids rise with time, so a moment is found by halving.
SELECT id, created_at FROM event WHERE id >= @id ORDER BY id LIMIT 1;

-- name: EventLast :one
SELECT coalesce(max(id), 0)::bigint FROM event;

-- name: EventPage :one
-- One stretch of the table, newest first, and what matches in it: a filter that nothing matches reads a bounded number of rows. The two
-- below likewise, each along its own index.
WITH scan AS MATERIALIZED (
    SELECT id, type, tenant, created_at FROM event WHERE id < @before AND id >= @low::bigint ORDER BY id DESC LIMIT @stretch
),
stop AS (SELECT scan.id, scan.created_at FROM scan ORDER BY scan.id LIMIT 1)
SELECT (SELECT count(*) FROM scan)::int AS scanned, coalesce((SELECT stop.id FROM stop), 0)::bigint AS floor,
    coalesce((SELECT stop.created_at FROM stop), 'epoch')::timestamptz AS floor_at, ARRAY(
    SELECT scan.id FROM scan
    WHERE scan.id >= @low::bigint AND scan.id <= @high::bigint
        AND (sqlc.narg('type')::text IS NULL OR scan.type = sqlc.narg('type')
            OR (right(sqlc.narg('type'), 2) = '.*' AND starts_with(scan.type, left(sqlc.narg('type'), -1))))
        AND (sqlc.narg('tenant')::text IS NULL OR scan.tenant = sqlc.narg('tenant'))
    ORDER BY scan.id DESC LIMIT @max
)::bigint[] AS ids;

-- name: EventPageByKey :one
-- Events with exactly this value under one of the labels.
WITH hit AS MATERIALIZED (
    SELECT DISTINCT k.event_id FROM unnest(@labels::text[]) AS l(label) CROSS JOIN LATERAL (
        SELECT o.event_id FROM event_key o WHERE o.label = l.label AND o.value = @value AND o.event_id < @before ORDER BY o.event_id DESC LIMIT @stretch
    ) k ORDER BY k.event_id DESC LIMIT @stretch
),
scan AS MATERIALIZED (
    SELECT e.id, e.type, e.tenant, e.created_at, e.subject FROM hit JOIN event e ON e.id = hit.event_id
),
stop AS (SELECT scan.id, scan.created_at FROM scan ORDER BY scan.id LIMIT 1)
SELECT (SELECT count(*) FROM scan)::int AS scanned, coalesce((SELECT stop.id FROM stop), 0)::bigint AS floor,
    coalesce((SELECT stop.created_at FROM stop), 'epoch')::timestamptz AS floor_at, ARRAY(
    SELECT scan.id FROM scan
    WHERE (sqlc.narg('subject')::text IS NULL OR scan.subject = sqlc.narg('subject'))
        AND scan.id >= @low::bigint AND scan.id <= @high::bigint
        AND (sqlc.narg('type')::text IS NULL OR scan.type = sqlc.narg('type')
            OR (right(sqlc.narg('type'), 2) = '.*' AND starts_with(scan.type, left(sqlc.narg('type'), -1))))
        AND (sqlc.narg('tenant')::text IS NULL OR scan.tenant = sqlc.narg('tenant'))
    ORDER BY scan.id DESC LIMIT @max
)::bigint[] AS ids;

-- name: EventPageBySubject :one
WITH scan AS MATERIALIZED (
    SELECT id, type, tenant, created_at FROM event
    WHERE subject = @subject AND subject <> '' AND id < @before AND id >= @low::bigint ORDER BY id DESC LIMIT @stretch
),
stop AS (SELECT scan.id, scan.created_at FROM scan ORDER BY scan.id LIMIT 1)
SELECT (SELECT count(*) FROM scan)::int AS scanned, coalesce((SELECT stop.id FROM stop), 0)::bigint AS floor,
    coalesce((SELECT stop.created_at FROM stop), 'epoch')::timestamptz AS floor_at, ARRAY(
    SELECT scan.id FROM scan
    WHERE scan.id >= @low::bigint AND scan.id <= @high::bigint
        AND (sqlc.narg('type')::text IS NULL OR scan.type = sqlc.narg('type')
            OR (right(sqlc.narg('type'), 2) = '.*' AND starts_with(scan.type, left(sqlc.narg('type'), -1))))
        AND (sqlc.narg('tenant')::text IS NULL OR scan.tenant = sqlc.narg('tenant'))
    ORDER BY scan.id DESC LIMIT @max
)::bigint[] AS ids;

-- name: EventPayload :one
SELECT payload FROM event WHERE event_id = @event_id;

-- name: EventSettled :one
-- Whether everything that the event is owed to has ended, and nothing more is still being made of it.
SELECT (e.fanout_after IS NULL AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.event_id = e.id AND d.settled_at IS NULL))::bool
FROM event e WHERE e.id = @id;

-- name: EventPayloadHead :one
-- The beginning of a payload, which may be large.
SELECT substring(payload from 1 for @max::int)::bytea AS head, length(payload)::int AS bytes FROM event WHERE event_id = @event_id;

-- name: EventListUnowed :many
-- Destinations to which an event is not owed, with what decides it now: their tenant, and what they subscribe to.
SELECT d.id, d.name, d.tenant, d.created_at, coalesce(s.types, '{}')::text[] AS types, coalesce(s.tenants, '{}')::text[] AS tenants
FROM destination d
LEFT JOIN LATERAL (
    SELECT array_agg(array_to_string(o.types, ', ') ORDER BY o.id) AS types, array_agg(coalesce(o.tenant, '') ORDER BY o.id) AS tenants
    FROM subscription o WHERE o.destination_id = d.id
) s ON true
WHERE d.deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM delivery o WHERE o.event_id = @event_id AND o.destination_id = d.id)
ORDER BY d.name, d.id LIMIT @max;
