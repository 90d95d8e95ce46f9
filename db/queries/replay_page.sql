-- name: ReplayGet :one
SELECT * FROM replay WHERE id = @id;

-- name: ReplayItemList :many
-- In order of the deliveries' ids, from after on; bad: only those refused, or ended otherwise than delivered.
SELECT i.delivery_id, i.previous_state, i.previous_reason, i.refusal, i.state AS item_state, i.sent_at, i.outcome, i.outcome_status, i.outcome_reason,
    d.state, d.destination_id, dest.name AS destination_name, e.event_id, e.type, length(e.payload)::int AS bytes
FROM replay_item i
JOIN delivery d ON d.id = i.delivery_id
JOIN destination dest ON dest.id = d.destination_id
JOIN event e ON e.id = d.event_id
WHERE i.replay_id = @replay_id AND i.delivery_id > @after ORDER BY i.delivery_id LIMIT @max;

-- name: ReplayItemListBad :many
-- The same of those refused, or ended otherwise than delivered.
SELECT i.delivery_id, i.previous_state, i.previous_reason, i.refusal, i.state AS item_state, i.sent_at, i.outcome, i.outcome_status, i.outcome_reason,
    d.state, d.destination_id, dest.name AS destination_name, e.event_id, e.type, length(e.payload)::int AS bytes
FROM replay_item i
JOIN delivery d ON d.id = i.delivery_id
JOIN destination dest ON dest.id = d.destination_id
JOIN event e ON e.id = d.event_id
WHERE i.replay_id = @replay_id AND i.delivery_id > @after AND (i.state = 'refused' OR i.outcome <> 'delivered')
ORDER BY i.delivery_id LIMIT @max;

-- name: ReplayListPage :many
SELECT r.*, c.waiting, c.sent, c.refused, c.restored, c.delivered, c.failed
FROM replay r CROSS JOIN LATERAL (
    SELECT coalesce(sum(p.waiting), 0)::int AS waiting, coalesce(sum(p.sent), 0)::int AS sent, coalesce(sum(p.refused), 0)::int AS refused,
        coalesce(sum(p.restored), 0)::int AS restored, coalesce(sum(p.delivered), 0)::int AS delivered, coalesce(sum(p.failed), 0)::int AS failed
    FROM replay_destination p WHERE p.replay_id = r.id
) c
WHERE r.id < @before ORDER BY r.id DESC LIMIT @max;

-- name: ReplayDestinationList :many
-- A run's destinations, those of the most deliveries first.
SELECT p.destination_id, p.lane_id, dest.name, dest.state, dest.state_reason, (lane.held_us > (extract(epoch FROM clock_timestamp()) * 1e6)::bigint)::bool AS held,
    to_timestamp(lane.held_us / 1e6)::timestamptz AS held_until, coalesce(least(lane.rate, lane.learned_rate), 0)::float8 AS rate, lane.window_size,
    p.waiting, p.sent, p.refused, p.restored, p.delivered, p.failed
FROM replay_destination p
JOIN destination dest ON dest.id = p.destination_id
JOIN lane ON lane.id = p.lane_id
WHERE p.replay_id = @replay_id
ORDER BY p.waiting + p.sent + p.refused + p.restored DESC, p.destination_id LIMIT @max;

-- name: ReplayOutcomeList :many
-- Why deliveries of a run failed again or were refused, most frequent first, of the first so many.
SELECT x.kind, x.status, x.class, count(*)::int AS n, min(x.delivery_id)::bigint AS example, min(x.why)::text AS why
FROM (
    SELECT CASE WHEN i.state = 'refused' THEN 'refused' ELSE i.outcome END::text AS kind, coalesce(i.outcome_status, 0)::int AS status,
        CASE WHEN i.state = 'refused' THEN i.refusal ELSE i.outcome_class END::text AS class, i.delivery_id,
        CASE WHEN i.state = 'refused' THEN i.refusal ELSE i.outcome_reason END AS why
    FROM replay_item i
    WHERE i.replay_id = @replay_id AND (i.state = 'refused' OR i.outcome <> 'delivered')
    ORDER BY i.delivery_id LIMIT @depth
) x GROUP BY 1, 2, 3 ORDER BY n DESC, kind, status, class LIMIT @max;

-- name: ReplayListByDelivery :many
SELECT r.id, r.actor, r.reason, r.created_at, i.previous_state, i.previous_reason, i.refusal, i.state AS item_state
FROM replay_item i JOIN replay r ON r.id = i.replay_id
WHERE i.delivery_id = @delivery_id ORDER BY r.id DESC LIMIT @max;
