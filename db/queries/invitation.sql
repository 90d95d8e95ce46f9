-- name: InvitationDeleteExpired :exec
DELETE FROM invitation WHERE expires_at < now() - interval '30 days';

-- name: InvitationGet :one
SELECT (used_at IS NOT NULL)::bool AS used, (expires_at <= now())::bool AS expired FROM invitation WHERE token_hash = @token_hash;

-- name: InvitationInsert :exec
INSERT INTO invitation (token_hash, expires_at) VALUES (@token_hash, now() + interval '24 hours');

-- name: InvitationUse :execrows
-- The row lock decides between two who follow the same link at once; the first operator made also ends every other link.
UPDATE invitation SET used_at = now()
WHERE token_hash = @token_hash AND used_at IS NULL AND expires_at > now() AND NOT EXISTS (SELECT 1 FROM operator);
