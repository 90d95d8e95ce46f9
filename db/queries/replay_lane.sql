-- name: ReplayDestinationAdd :exec
-- The caller holds the run's lock.
INSERT INTO replay_destination AS p (replay_id, destination_id, lane_id, waiting, sent, refused, restored)
SELECT @replay_id, unnest(@destination_ids::bigint[]), unnest(@lane_ids::bigint[]), unnest(@waiting::int[]), unnest(@sent::int[]), unnest(@refused::int[]),
    unnest(@restored::int[])
ON CONFLICT (replay_id, destination_id, lane_id) DO UPDATE SET
    waiting = p.waiting + excluded.waiting, sent = p.sent + excluded.sent, refused = p.refused + excluded.refused, restored = p.restored + excluded.restored;

-- name: ReplayLaneInsertMany :exec
INSERT INTO replay_lane (replay_id, lane_id) SELECT @replay_id, unnest(@lane_ids::bigint[]) ON CONFLICT DO NOTHING;

-- name: ReplayLaneListIDOutstanding :many
SELECT DISTINCT lane_id FROM replay_item WHERE replay_id = @replay_id AND state = 'sent' AND outcome IS NULL AND lane_id > @after
ORDER BY lane_id LIMIT @max;

-- name: ReplayLaneListStanding :many
-- The lanes on which a run has something to feed, and what decides how much. now_live are the run's deliveries that want a request now;
-- unsettled are those too that wait for a retry.
SELECT rl.lane_id, rl.credit, rl.charged, (rl.retries + o.retries)::bigint AS retries, clock_timestamp()::timestamptz AS at,
    greatest(0, extract(epoch FROM clock_timestamp() - rl.fed_at))::float8 AS elapsed_s,
    lane.window_size, lane.burst, coalesce(least(lane.rate, lane.learned_rate), 0)::float8 AS rate,
    (lane.held_us > (extract(epoch FROM clock_timestamp()) * 1e6)::bigint)::bool AS held, w.waiting, o.now_live, o.unsettled
FROM replay_lane rl
JOIN lane ON lane.id = rl.lane_id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(p.waiting), 0)::int AS waiting FROM replay_destination p JOIN destination t ON t.id = p.destination_id AND t.state = 'active'
    WHERE p.replay_id = rl.replay_id AND p.lane_id = rl.lane_id AND p.waiting > 0
) w
CROSS JOIN LATERAL (
    SELECT (count(*) FILTER (WHERE d.state = 'pending' OR d.in_window OR d.due_at <= statement_timestamp()))::int AS now_live, count(*)::int AS unsettled,
        coalesce(sum(greatest(d.attempts - i.previous_attempts - 1, 0)), 0)::bigint AS retries
    FROM replay_item i JOIN delivery d ON d.id = i.delivery_id
    WHERE i.replay_id = rl.replay_id AND i.lane_id = rl.lane_id AND i.state = 'sent' AND i.outcome IS NULL
) o
WHERE rl.replay_id = @replay_id AND rl.lane_id > @after AND w.waiting > 0
ORDER BY rl.lane_id LIMIT @max;

-- name: ReplayLaneSetCredit :exec
UPDATE replay_lane p SET credit = n.credit, charged = n.charged, fed_at = n.fed_at
FROM (SELECT unnest(@lane_ids::bigint[]) AS lane_id, unnest(@credits::float8[]) AS credit, unnest(@charged::bigint[]) AS charged,
    unnest(@fed_at::timestamptz[]) AS fed_at) n
WHERE p.replay_id = @replay_id AND p.lane_id = n.lane_id;

-- name: ReplayDestinationSum :one
SELECT coalesce(sum(waiting), 0)::int AS waiting, coalesce(sum(sent), 0)::int AS sent, coalesce(sum(refused), 0)::int AS refused,
    coalesce(sum(restored), 0)::int AS restored, coalesce(sum(delivered), 0)::int AS delivered, coalesce(sum(failed), 0)::int AS failed
FROM replay_destination WHERE replay_id = @replay_id;
