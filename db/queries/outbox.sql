-- name: OutboxDeleteMany :exec
DELETE FROM outbox WHERE id = ANY(@ids::bigint[]);

-- name: OutboxListRefused :many
SELECT id, event_id, tenant, type, subject, version, length(payload)::int AS bytes, created_at, refused_at, refused_reason
FROM outbox WHERE refused_at IS NOT NULL AND id < @before ORDER BY id DESC LIMIT @max;

-- name: OutboxRefuse :exec
UPDATE outbox SET refused_at = clock_timestamp(), refused_reason = r.reason
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@reasons::text[]) AS reason) r
WHERE outbox.id = r.id;

-- name: OutboxTake :many
-- The oldest page. SKIP LOCKED: a run that overlaps takes other rows or none.
SELECT * FROM outbox WHERE refused_at IS NULL ORDER BY id LIMIT @max FOR UPDATE SKIP LOCKED;
