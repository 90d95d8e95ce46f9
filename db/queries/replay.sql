-- name: ReplayInsert :one
INSERT INTO replay (actor, reason) VALUES (@actor, @reason) RETURNING id;

-- name: ReplayItemInsertMany :exec
INSERT INTO replay_item (replay_id, delivery_id, previous_state, previous_reason, refusal)
SELECT @replay_id, unnest(@delivery_ids::bigint[]), unnest(@previous_states::text[]), unnest(@previous_reasons::text[]), unnest(@refusals::text[]);

-- name: ReplayListByDelivery :many
SELECT r.id, r.actor, r.reason, r.created_at, i.previous_state, i.previous_reason, i.refusal
FROM replay_item i JOIN replay r ON r.id = i.replay_id
WHERE i.delivery_id = @delivery_id ORDER BY r.id DESC LIMIT @max;
