-- name: SessionDelete :exec
DELETE FROM session WHERE token_hash = @token_hash;

-- name: SessionDeleteExpired :exec
DELETE FROM session WHERE token_hash = ANY(ARRAY(SELECT s.token_hash FROM session s WHERE s.expires_at <= now() ORDER BY s.expires_at LIMIT 1000));

-- name: SessionGet :one
SELECT data FROM session WHERE token_hash = @token_hash AND expires_at > now();

-- name: SessionUpsert :exec
INSERT INTO session (token_hash, data, expires_at) VALUES (@token_hash, @data, @expires_at)
ON CONFLICT (token_hash) DO UPDATE SET data = excluded.data, expires_at = excluded.expires_at;
