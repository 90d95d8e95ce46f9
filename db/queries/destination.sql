-- name: DestinationBumpVersion :exec
UPDATE destination SET version = version + 1, updated_at = now() WHERE id = @id;

-- name: DestinationDelete :one
-- The row stays for the history; its name is free again, its secrets go (SecretDeleteByDestination, HeaderDeleteByDestination).
UPDATE destination SET state = 'deleted', state_reason = @reason, state_since = now(), deleted_at = now(), updated_at = now(), version = version + 1
WHERE id = @id AND state <> 'deleted' RETURNING lane_id;

-- name: DestinationDisable :many
-- By a receiver that answered 410, or by hand: it stays, with what it is still owed, until somebody mends or deletes it. Returns those that
-- were not disabled before, and what they were.
WITH was AS MATERIALIZED (
    SELECT id, state FROM destination WHERE id = ANY(@ids::bigint[]) AND state IN ('active', 'paused') ORDER BY id FOR NO KEY UPDATE
)
UPDATE destination SET state = 'disabled', state_reason = @reason, state_since = now(), updated_at = now(), version = version + 1
FROM was WHERE destination.id = was.id
RETURNING destination.id, destination.name, was.state AS state_before;

-- name: DestinationDrain :one
-- Events that come from now on are not owed to it.
UPDATE destination SET draining_since = now(), draining_reason = @reason, updated_at = now(), version = version + 1
WHERE id = @id AND deleted_at IS NULL AND draining_since IS NULL RETURNING id;

-- name: DestinationGetByID :one
SELECT * FROM destination WHERE id = @id AND deleted_at IS NULL;

-- name: DestinationGetLane :one
SELECT lane_id FROM destination WHERE id = @id;

-- name: DestinationGetSending :one
-- What a sender needs of a destination besides its secrets and headers.
SELECT id, version, name, url, timeout_ms, retry_schedule_ms, retry_jitter, responses FROM destination WHERE id = @id;

-- name: DestinationInsert :one
INSERT INTO destination (name, url, tenant, lane_id, timeout_ms, ttl_s, ordering, retry_schedule_ms, retry_jitter, responses)
VALUES (@name, @url, sqlc.narg('tenant'), @lane_id, @timeout_ms, @ttl_s, @ordering, @retry_schedule_ms, @retry_jitter, @responses)
RETURNING *;

-- name: DestinationList :many
-- The search is a plain substring of name or URL; strpos, so that no character of it is a pattern.
SELECT * FROM destination
WHERE deleted_at IS NULL AND id > @after
    AND (@search::text = '' OR strpos(lower(name), lower(@search::text)) > 0 OR strpos(lower(url), lower(@search::text)) > 0)
ORDER BY id LIMIT @max;

-- name: DestinationListByLane :many
SELECT * FROM destination WHERE lane_id = @lane_id AND deleted_at IS NULL ORDER BY id LIMIT @max;

-- name: DestinationListLane :many
SELECT * FROM lane WHERE id = ANY(@lane_ids::bigint[]) LIMIT 1000;

-- name: DestinationListWaiting :many
-- How many wait behind the gate: the lane's own counter where it has no other destination, else counted up to the limit.
SELECT t.id, CASE WHEN l.parked = 0 THEN 0
    WHEN NOT EXISTS (SELECT 1 FROM destination o WHERE o.lane_id = l.id AND o.id <> t.id) THEN l.parked
    ELSE (SELECT count(*) FROM (SELECT 1 FROM delivery d WHERE d.parked AND d.destination_id = t.id LIMIT @max) x)::int END::int AS waiting
FROM destination t JOIN lane l ON l.id = t.lane_id
WHERE t.id = ANY(@ids::bigint[]) LIMIT 1000;

-- name: DestinationListUnfinishedDelete :many
-- Deleted destinations that may still be owed something: the process that deleted one died half way, a fan-out was under way, or a
-- request that was in flight came back to be tried again.
SELECT t.id, t.lane_id FROM destination t
WHERE t.state = 'deleted' AND (t.deleted_at > now() - interval '5 minutes'
    OR EXISTS (SELECT 1 FROM delivery d WHERE d.parked AND d.destination_id = t.id))
ORDER BY t.id LIMIT @max;

-- name: DestinationLock :one
-- Changes to one destination take turns; a deleted one is not found.
SELECT * FROM destination WHERE id = @id AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: DestinationLockForTest :one
SELECT id, name, state, lane_id FROM destination WHERE id = @id FOR KEY SHARE;

-- name: DestinationPause :one
UPDATE destination SET state = 'paused', state_reason = @reason, state_since = now(), updated_at = now(), version = version + 1
WHERE id = @id AND state = 'active' RETURNING lane_id;

-- name: DestinationResume :one
UPDATE destination SET state = 'active', state_reason = '', state_since = now(), updated_at = now(), version = version + 1
WHERE id = @id AND state IN ('paused', 'disabled') RETURNING lane_id;

-- name: DestinationUndrain :one
UPDATE destination SET draining_since = NULL, draining_reason = '', updated_at = now(), version = version + 1
WHERE id = @id AND deleted_at IS NULL AND draining_since IS NOT NULL RETURNING id;

-- name: DestinationUpdate :one
-- The version rises with every change, that of a secret or a header included: senders load the destination again.
UPDATE destination SET
    name = @name, url = @url, tenant = sqlc.narg('tenant'), timeout_ms = @timeout_ms, ttl_s = @ttl_s, ordering = @ordering,
    retry_schedule_ms = @retry_schedule_ms, retry_jitter = @retry_jitter, responses = @responses, version = version + 1, updated_at = now()
WHERE id = @id AND deleted_at IS NULL RETURNING *;
