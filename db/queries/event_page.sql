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

-- name: EventPage :one
-- One stretch of the table, newest first, and what matches in it: a filter that nothing matches reads a bounded number of rows.
WITH scan AS MATERIALIZED (
    SELECT id, type, tenant FROM event WHERE id < @before ORDER BY id DESC LIMIT @stretch
)
SELECT (SELECT count(*) FROM scan)::int AS scanned, coalesce((SELECT min(scan.id) FROM scan), 0)::bigint AS floor, ARRAY(
    SELECT scan.id FROM scan
    WHERE (sqlc.narg('type')::text IS NULL OR scan.type = sqlc.narg('type')) AND (sqlc.narg('tenant')::text IS NULL OR scan.tenant = sqlc.narg('tenant'))
    ORDER BY scan.id DESC LIMIT @max
)::bigint[] AS ids;

-- name: EventPageBySubject :one
WITH scan AS MATERIALIZED (
    SELECT id, type, tenant FROM event WHERE subject = @subject AND subject <> '' AND id < @before ORDER BY id DESC LIMIT @stretch
)
SELECT (SELECT count(*) FROM scan)::int AS scanned, coalesce((SELECT min(scan.id) FROM scan), 0)::bigint AS floor, ARRAY(
    SELECT scan.id FROM scan
    WHERE (sqlc.narg('type')::text IS NULL OR scan.type = sqlc.narg('type')) AND (sqlc.narg('tenant')::text IS NULL OR scan.tenant = sqlc.narg('tenant'))
    ORDER BY scan.id DESC LIMIT @max
)::bigint[] AS ids;

-- name: EventPayload :one
SELECT payload FROM event WHERE event_id = @event_id;

-- name: EventSettled :one
-- Whether everything that the event is owed to has ended, and nothing more is still being made of it.
SELECT (e.fanout_after IS NULL AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.event_id = e.id AND d.settled_at IS NULL))::bool
FROM event e WHERE e.id = @id;
