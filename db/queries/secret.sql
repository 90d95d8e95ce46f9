-- name: SecretListByDestination :many
-- Those that sign now, newest first.
SELECT * FROM secret WHERE destination_id = @destination_id AND (expires_at IS NULL OR expires_at > now()) ORDER BY id DESC LIMIT 10;
