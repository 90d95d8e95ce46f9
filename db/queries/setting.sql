-- name: SettingGet :one
SELECT value FROM setting WHERE name = @name;

-- name: SettingInsert :exec
INSERT INTO setting (name, value) VALUES (@name, @value) ON CONFLICT (name) DO NOTHING;
