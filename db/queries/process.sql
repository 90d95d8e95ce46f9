-- name: ProcessBeat :exec
INSERT INTO process (id, roles) VALUES (@id, @roles::text[])
ON CONFLICT (id) DO UPDATE SET beat_at = now(), stopped_at = NULL;

-- name: ProcessCountDead :one
-- Processes that stopped beating without saying goodbye, in the last hour.
SELECT count(*)::int FROM process WHERE stopped_at IS NULL AND beat_at <= now() - interval '15 seconds';

-- name: ProcessDeleteBefore :exec
DELETE FROM process WHERE beat_at < now() - interval '1 hour';

-- name: ProcessList :many
SELECT *, (stopped_at IS NULL AND beat_at > now() - interval '15 seconds')::bool AS alive FROM process ORDER BY started_at DESC LIMIT 100;

-- name: ProcessStop :exec
UPDATE process SET stopped_at = now() WHERE id = @id;
