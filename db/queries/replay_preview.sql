-- name: DestinationListForReplay :many
SELECT d.id, d.name, d.state, d.lane_id, coalesce(least(lane.rate, lane.learned_rate), 0)::float8 AS rate, lane.window_size
FROM destination d JOIN lane ON lane.id = d.lane_id WHERE d.id = ANY(@ids::bigint[]);
