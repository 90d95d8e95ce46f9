-- name: HeaderListByDestination :many
SELECT * FROM header WHERE destination_id = @destination_id ORDER BY name LIMIT 100;
