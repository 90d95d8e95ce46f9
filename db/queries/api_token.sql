-- name: APITokenListByHash :many
-- By the hash's unique index: nothing secret is compared byte by byte, so the time it takes tells nothing.
SELECT token_hash, id, name, scopes, (expires_at IS NOT NULL AND expires_at <= now())::bool AS expired, (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')::bool AS stale
FROM api_token WHERE token_hash = ANY(@hashes::bytea[]) AND revoked_at IS NULL;

-- name: APITokenInsert :one
INSERT INTO api_token (name, token_hash, hint, scopes, expires_at, created_by)
VALUES (@name, @token_hash, @hint, @scopes::text[], sqlc.narg('expires_at'), @created_by)
RETURNING id, name, hint, scopes, created_at, created_by, last_used_at, expires_at;

-- name: APITokenList :many
-- Never the hash: what is not read cannot be shown.
SELECT id, name, hint, scopes, created_at, created_by, last_used_at, expires_at FROM api_token
WHERE revoked_at IS NULL AND id > @after ORDER BY id LIMIT @max;

-- name: APITokenRevoke :one
UPDATE api_token SET revoked_at = now() WHERE id = @id AND revoked_at IS NULL
RETURNING id, name, hint, scopes, created_at, created_by, last_used_at, expires_at;

-- name: APITokenTouch :exec
-- The condition again: of many requests at once only one writes.
UPDATE api_token SET last_used_at = now() WHERE id = @id AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute');
