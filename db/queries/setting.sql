-- name: SettingGet :one
SELECT value FROM setting WHERE name = @name;

-- name: SettingInsert :exec
INSERT INTO setting (name, value) VALUES (@name, @value) ON CONFLICT (name) DO NOTHING;

-- name: SettingGetServer :one
-- What the database says of itself, and the newest of our migrations that it has.
SELECT current_setting('server_version')::text AS version, pg_database_size(current_database())::bigint AS bytes, now()::timestamptz AS now;

-- name: SettingCountSealed :many
-- How many values are sealed with which key. The key's id stands at the head of each, after its length. Counted up to 10,000 of each kind.
SELECT kind::text AS kind, convert_from(substring(sealed FROM 3 FOR get_byte(sealed, 1)), 'UTF8')::text AS key_id, count(*)::int AS sealed FROM (
    (SELECT 'secret' AS kind, sealed FROM secret LIMIT 10000) UNION ALL (SELECT 'header', sealed FROM header LIMIT 10000)
) s WHERE length(sealed) > 2 GROUP BY 1, 2 ORDER BY 1, 2;
