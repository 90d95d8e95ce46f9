-- name: SessionDeleteExpired :exec
DELETE FROM session WHERE token_hash = ANY(ARRAY(SELECT s.token_hash FROM session s WHERE s.expires_at <= now() ORDER BY s.expires_at LIMIT 1000));

-- name: SessionGet :one
SELECT data FROM session WHERE token_hash = @token_hash AND expires_at > now() AND revoked_at IS NULL;

-- name: SessionListLive :many
-- The sessions of one operator, or of everybody, the last seen first.
SELECT s.id::bigint AS id, s.token_hash, o.id AS operator_id, o.name AS operator, s.created_at, s.seen_at, s.expires_at, s.address, s.user_agent
FROM session s JOIN operator o ON o.id = s.operator_id
WHERE s.expires_at > now() AND s.revoked_at IS NULL AND (sqlc.narg('operator_id')::bigint IS NULL OR s.operator_id = sqlc.narg('operator_id'))
ORDER BY s.seen_at DESC, s.id LIMIT @max;

-- name: SessionRevoke :one
-- One session, of one operator where that is given. What it held is forgotten; the row stays, see SessionUpsert.
UPDATE session s SET revoked_at = now(), data = ''
FROM operator o
WHERE s.id = @id::bigint AND o.id = s.operator_id AND s.revoked_at IS NULL AND s.expires_at > now()
  AND (sqlc.narg('operator_id')::bigint IS NULL OR s.operator_id = sqlc.narg('operator_id'))
RETURNING o.id AS operator_id, o.name AS operator, s.address, s.user_agent;

-- name: SessionRevokeByOperator :execrows
-- All of an operator's but the one that is kept; '' keeps none.
UPDATE session SET revoked_at = now(), data = ''
WHERE operator_id = @operator_id::bigint AND token_hash <> @kept AND revoked_at IS NULL AND expires_at > now();

-- name: SessionRevokeByToken :exec
UPDATE session SET revoked_at = now(), data = '' WHERE token_hash = @token_hash;

-- name: SessionUpsert :exec
-- A request under way when its session was revoked saves it afterwards: a revoked session stays revoked.
INSERT INTO session AS s (token_hash, data, expires_at, operator_id, address, user_agent)
VALUES (@token_hash, @data, @expires_at, sqlc.narg('operator_id'), @address, @user_agent)
ON CONFLICT (token_hash) DO UPDATE SET data = excluded.data, expires_at = excluded.expires_at, operator_id = excluded.operator_id,
    seen_at = now(), address = excluded.address, user_agent = excluded.user_agent
WHERE s.revoked_at IS NULL;
