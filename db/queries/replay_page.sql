-- name: ReplayGet :one
SELECT * FROM replay WHERE id = @id;

-- name: ReplayItemList :many
SELECT i.delivery_id, i.previous_state, i.previous_reason, i.refusal, d.state, d.destination_id, dest.name AS destination_name, e.event_id, e.type
FROM replay_item i
JOIN delivery d ON d.id = i.delivery_id
JOIN destination dest ON dest.id = d.destination_id
JOIN event e ON e.id = d.event_id
WHERE i.replay_id = @replay_id ORDER BY i.delivery_id LIMIT @max;
