-- name: InvitationDeleteExpired :exec
DELETE FROM invitation WHERE expires_at < now() - interval '30 days';

-- name: InvitationGet :one
-- What a link is good for. first: it makes the first administrator.
SELECT i.role, i.note, coalesce(i.invited_by, '')::text AS invited_by, (i.invited_by IS NULL)::bool AS first, coalesce(o.name, '')::text AS operator,
    (i.used_at IS NOT NULL)::bool AS used, (i.expires_at <= now())::bool AS expired, (i.revoked_at IS NOT NULL)::bool AS revoked
FROM invitation i LEFT JOIN operator o ON o.id = i.operator_id
WHERE i.token_hash = @token_hash;

-- name: InvitationInsert :one
INSERT INTO invitation (token_hash, expires_at, role, invited_by, note, operator_id)
SELECT @token_hash, now() + p.hours * interval '1 hour', @role, sqlc.narg('invited_by'), @note, sqlc.narg('operator_id')::bigint
FROM (SELECT @hours::int AS hours) p
RETURNING id::bigint AS id, expires_at;

-- name: InvitationListOpen :many
SELECT i.id::bigint AS id, i.role, i.note, coalesce(i.invited_by, '')::text AS invited_by, coalesce(o.name, '')::text AS operator, i.created_at, i.expires_at
FROM invitation i LEFT JOIN operator o ON o.id = i.operator_id
WHERE i.used_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > now() ORDER BY i.id DESC LIMIT @max;

-- name: InvitationRevoke :one
UPDATE invitation SET revoked_at = now()
WHERE id = @id::bigint AND used_at IS NULL AND revoked_at IS NULL AND expires_at > now()
RETURNING id::bigint AS id, role, note;

-- name: InvitationRevokeByOperator :exec
-- Links to choose a new password with, of somebody who gets another one, or may not sign in any more.
UPDATE invitation SET revoked_at = now() WHERE operator_id = @operator_id::bigint AND used_at IS NULL AND revoked_at IS NULL;

-- name: InvitationUse :one
-- The row lock decides between two who follow the same link at once; the first operator made also ends every other link to make one.
UPDATE invitation SET used_at = now()
WHERE token_hash = @token_hash AND used_at IS NULL AND revoked_at IS NULL AND expires_at > now()
  AND (invited_by IS NOT NULL OR NOT EXISTS (SELECT 1 FROM operator))
RETURNING id::bigint AS id, role, note, coalesce(invited_by, '')::text AS invited_by, operator_id;
