-- name: DestinationDisable :exec
-- By a receiver that answered 410: it stays, with what it is still owed, until somebody mends or deletes it.
UPDATE destination SET state = 'disabled', state_reason = @reason, state_since = now(), updated_at = now(), version = version + 1
WHERE id = ANY(@ids::bigint[]) AND state IN ('active', 'paused');

-- name: DestinationGetSending :one
-- What a sender needs of a destination besides its secrets and headers.
SELECT id, version, name, url, timeout_ms, retry_schedule_ms, retry_jitter, responses FROM destination WHERE id = @id;
