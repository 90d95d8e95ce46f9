-- name: SubscriptionDeleteByDestination :exec
DELETE FROM subscription WHERE destination_id = @destination_id;

-- name: SubscriptionInsert :exec
INSERT INTO subscription (destination_id, types, tenant) VALUES (@destination_id, @types::text[], sqlc.narg('tenant'));

-- name: SubscriptionListByDestination :many
SELECT * FROM subscription WHERE destination_id = ANY(@destination_ids::bigint[]) ORDER BY destination_id, id LIMIT @max;
