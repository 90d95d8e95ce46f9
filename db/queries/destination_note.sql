-- name: DestinationNoteDelete :one
DELETE FROM destination_note WHERE id = @id AND destination_id = @destination_id RETURNING author, author_id, body;

-- name: DestinationNoteInsert :exec
INSERT INTO destination_note (destination_id, author, author_id, body) VALUES (@destination_id, @author, sqlc.narg('author_id'), @body);

-- name: DestinationNoteList :many
-- The newest first.
SELECT * FROM destination_note WHERE destination_id = @destination_id ORDER BY id DESC LIMIT @max;
