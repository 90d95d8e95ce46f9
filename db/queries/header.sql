-- name: HeaderDeleteByDestination :exec
DELETE FROM header WHERE destination_id = @destination_id;

-- name: HeaderDeleteOthers :exec
-- All but those named (in lower case).
DELETE FROM header WHERE destination_id = @destination_id AND lower(name) <> ALL(@keep::text[]);

-- name: HeaderInsert :exec
INSERT INTO header (destination_id, name, sealed) VALUES (@destination_id, @name, @sealed);

-- name: HeaderListByDestination :many
SELECT * FROM header WHERE destination_id = @destination_id ORDER BY name LIMIT 100;

-- name: HeaderListName :many
SELECT destination_id, name FROM header WHERE destination_id = ANY(@destination_ids::bigint[]) ORDER BY destination_id, name LIMIT @max;
