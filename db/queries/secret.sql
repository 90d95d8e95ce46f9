-- name: SecretDeleteByDestination :exec
DELETE FROM secret WHERE destination_id = @destination_id;

-- name: SecretExpireByDestination :exec
-- A rotation: the older ones still sign for the overlap, and none for longer than it would have anyway.
WITH t AS (SELECT now() + sqlc.arg(overlap_ms)::bigint * interval '1 millisecond' AS at)
UPDATE secret SET expires_at = t.at FROM t
WHERE secret.destination_id = @destination_id AND (secret.expires_at IS NULL OR secret.expires_at > t.at);

-- name: SecretInsert :exec
-- The id is drawn first (SecretNextID), because the sealed value is bound to it.
INSERT INTO secret (id, destination_id, scheme, sealed, hint) VALUES (@id, @destination_id, @scheme, @sealed, @hint);

-- name: SecretListByDestination :many
-- Those that sign now, newest first.
SELECT * FROM secret WHERE destination_id = @destination_id AND (expires_at IS NULL OR expires_at > now()) ORDER BY id DESC LIMIT 10;

-- name: SecretListHint :many
-- What may be shown of those that sign now: never the value.
SELECT id, destination_id, scheme, hint, created_at, expires_at FROM secret
WHERE destination_id = ANY(@destination_ids::bigint[]) AND (expires_at IS NULL OR expires_at > now()) ORDER BY destination_id, id DESC LIMIT @max;

-- name: SecretNextID :one
SELECT nextval(pg_get_serial_sequence('secret', 'id'))::bigint AS id;
