-- name: SavedViewDelete :one
-- One's own, shared or not. A shared one of somebody else is left to them.
DELETE FROM saved_view WHERE id = @id AND operator_id = @operator_id RETURNING name;

-- name: SavedViewInsert :exec
INSERT INTO saved_view (operator_id, shared, name, query) VALUES (@operator_id, @shared, @name, @query)
ON CONFLICT (operator_id, name) DO UPDATE SET shared = excluded.shared, query = excluded.query;

-- name: SavedViewList :many
SELECT v.id, v.shared, v.name, v.query, (v.operator_id = @operator_id)::bool AS own, o.name AS operator_name
FROM saved_view v JOIN operator o ON o.id = v.operator_id
WHERE v.shared OR v.operator_id = @operator_id ORDER BY lower(v.name), v.id LIMIT 100;
