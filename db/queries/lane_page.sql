-- Queries of the lanes' pages. Lanes of which no destination is left are not listed; there are as many lanes as destinations at most.

-- name: LanePageListByName :many
-- A page of lanes by name, of those whose name has the text in it (empty: all), after the one named.
SELECT sqlc.embed(lane), (SELECT count(*) FROM destination d WHERE d.lane_id = lane.id AND d.deleted_at IS NULL)::int AS sharing
FROM lane
WHERE (@text::text = '' OR strpos(lower(lane.name), lower(@text::text)) > 0) AND (lane.name, lane.id) > (@after_name::text, @after::bigint)
    AND EXISTS (SELECT 1 FROM destination d WHERE d.lane_id = lane.id AND d.deleted_at IS NULL)
ORDER BY lane.name, lane.id LIMIT @max;

-- name: LanePageListByWaiting :many
-- The same, by how many wait, the most first; after one with so many.
SELECT sqlc.embed(lane), (SELECT count(*) FROM destination d WHERE d.lane_id = lane.id AND d.deleted_at IS NULL)::int AS sharing
FROM lane
WHERE (@text::text = '' OR strpos(lower(lane.name), lower(@text::text)) > 0)
    AND (lane.parked + greatest(0, lane.open - lane.in_flight) < @waiting::int
        OR (lane.parked + greatest(0, lane.open - lane.in_flight) = @waiting::int AND lane.id > @after::bigint))
    AND EXISTS (SELECT 1 FROM destination d WHERE d.lane_id = lane.id AND d.deleted_at IS NULL)
ORDER BY lane.parked + greatest(0, lane.open - lane.in_flight) DESC, lane.id LIMIT @max;

-- name: LanePageListDestination :many
-- Who shares a lane, by name.
SELECT d.id, d.name, d.state, d.state_since, d.state_reason, d.draining_since, d.ttl_s
FROM destination d WHERE d.lane_id = @lane_id AND d.deleted_at IS NULL ORDER BY d.name LIMIT @max;

-- name: LanePageListTally :many
-- TallyListByMinute of all destinations of a lane together: reads one row per destination and minute or hour.
SELECT date_bin(make_interval(secs => @bin_s::int), t.at, 'epoch')::timestamptz AS bin, sum(t.requests)::bigint AS requests, sum(t.ok)::bigint AS ok,
    sum(t.rate_limited)::bigint AS rate_limited, sum(t.refused)::bigint AS refused, sum(t.server_error)::bigint AS server_error,
    sum(t.timeout)::bigint AS timeout, sum(t.network)::bigint AS network, sum(t.other)::bigint AS other, sum(t.took_us)::bigint AS took_us,
    max(t.slowest_us)::bigint AS slowest_us, sum(t.wait_us)::bigint AS wait_us, max(t.longest_wait_us)::bigint AS longest_wait_us,
    sum(t.delivered)::bigint AS delivered, sum(t.retried)::bigint AS retried, sum(t.dead_lettered)::bigint AS dead_lettered,
    sum(t.expired)::bigint AS expired, sum(t.superseded)::bigint AS superseded, sum(t.cancelled)::bigint AS cancelled,
    sum(t.arrived)::bigint AS arrived
FROM destination d JOIN tally t ON t.destination_id = d.id
WHERE d.lane_id = @lane_id AND t.step_s = @step_s AND t.at >= @since
GROUP BY 1 ORDER BY 1 LIMIT 3000;
