-- name: LaneSampleAdd :exec
-- Only for lanes that learn; the others need no samples.
INSERT INTO lane_sample AS s (lane_id, at, requests, answers, rate_limited, failed, took_us)
SELECT x.lane_id, date_bin('10 seconds', statement_timestamp(), 'epoch'), x.requests, x.answers, x.rate_limited, x.failed, x.took_us
FROM (
    SELECT unnest(@lane_ids::bigint[]) AS lane_id, unnest(@requests::bigint[]) AS requests, unnest(@answers::bigint[]) AS answers,
        unnest(@rate_limited::bigint[]) AS rate_limited, unnest(@failed::bigint[]) AS failed, unnest(@took_us::bigint[]) AS took_us
) x
JOIN lane ON lane.id = x.lane_id AND lane.learning <> 'off'
ORDER BY x.lane_id
ON CONFLICT (lane_id, at) DO UPDATE SET
    requests = s.requests + excluded.requests, answers = s.answers + excluded.answers, rate_limited = s.rate_limited + excluded.rate_limited,
    failed = s.failed + excluded.failed, took_us = s.took_us + excluded.took_us;

-- name: LaneSampleDeleteBefore :exec
DELETE FROM lane_sample WHERE at < statement_timestamp() - interval '2 hours';

-- name: TallyAdd :exec
-- Adds to the current minute and hour. The order of the rows is the order of their locks: two processes cannot deadlock.
INSERT INTO tally AS t (
    destination_id, step_s, at, requests, ok, rate_limited, refused, server_error, timeout, network, other,
    took_us, slowest_us, wait_us, longest_wait_us, delivered, retried, dead_lettered, expired, superseded, cancelled, arrived
)
SELECT x.destination_id, step.s, date_bin(make_interval(secs => step.s), statement_timestamp(), 'epoch'),
    x.ok + x.rate_limited + x.refused + x.server_error + x.timeout + x.network + x.other,
    x.ok, x.rate_limited, x.refused, x.server_error, x.timeout, x.network, x.other,
    x.took_us, x.slowest_us, x.wait_us, x.longest_wait_us, x.delivered, x.retried, x.dead_lettered, x.expired, x.superseded, x.cancelled, x.arrived
FROM (
    SELECT unnest(@destination_ids::bigint[]) AS destination_id,
        unnest(@ok::bigint[]) AS ok, unnest(@rate_limited::bigint[]) AS rate_limited, unnest(@refused::bigint[]) AS refused,
        unnest(@server_error::bigint[]) AS server_error, unnest(@timeout::bigint[]) AS timeout, unnest(@network::bigint[]) AS network,
        unnest(@other::bigint[]) AS other, unnest(@took_us::bigint[]) AS took_us, unnest(@slowest_us::bigint[]) AS slowest_us,
        unnest(@wait_us::bigint[]) AS wait_us, unnest(@longest_wait_us::bigint[]) AS longest_wait_us,
        unnest(@delivered::bigint[]) AS delivered, unnest(@retried::bigint[]) AS retried, unnest(@dead_lettered::bigint[]) AS dead_lettered,
        unnest(@expired::bigint[]) AS expired, unnest(@superseded::bigint[]) AS superseded, unnest(@cancelled::bigint[]) AS cancelled, unnest(@arrived::bigint[]) AS arrived
) x CROSS JOIN (VALUES (60), (3600)) AS step(s)
ORDER BY x.destination_id, step.s
ON CONFLICT (destination_id, step_s, at) DO UPDATE SET
    requests = t.requests + excluded.requests, ok = t.ok + excluded.ok, rate_limited = t.rate_limited + excluded.rate_limited,
    refused = t.refused + excluded.refused, server_error = t.server_error + excluded.server_error, timeout = t.timeout + excluded.timeout,
    network = t.network + excluded.network, other = t.other + excluded.other, took_us = t.took_us + excluded.took_us,
    slowest_us = greatest(t.slowest_us, excluded.slowest_us), wait_us = t.wait_us + excluded.wait_us,
    longest_wait_us = greatest(t.longest_wait_us, excluded.longest_wait_us), delivered = t.delivered + excluded.delivered,
    retried = t.retried + excluded.retried, dead_lettered = t.dead_lettered + excluded.dead_lettered, expired = t.expired + excluded.expired,
    superseded = t.superseded + excluded.superseded, cancelled = t.cancelled + excluded.cancelled, arrived = t.arrived + excluded.arrived;

-- name: TallyDeleteOld :execrows
-- A bounded page of what has had its time: minutes after 48 hours, hours after 30 days.
DELETE FROM tally WHERE ctid = ANY(ARRAY(
    (SELECT m.ctid FROM tally m WHERE m.step_s = 60 AND m.at < statement_timestamp() - interval '48 hours' ORDER BY m.at LIMIT @max)
    UNION ALL
    (SELECT h.ctid FROM tally h WHERE h.step_s = 3600 AND h.at < statement_timestamp() - interval '30 days' ORDER BY h.at LIMIT @max)
));

-- name: TallyListByMinute :many
-- One destination's series, or that of all together (destination 0), oldest first, in bins of bin_s seconds (a multiple of step_s; both 60 for
-- minutes, 60 and 300 for five minutes, 3600 and 3600 for hours). Stretches without any arrival, request or end have no row. At most 3,000 bins;
-- reads one row per minute or hour.
SELECT date_bin(make_interval(secs => @bin_s::int), t.at, 'epoch')::timestamptz AS bin, sum(t.requests)::bigint AS requests, sum(t.ok)::bigint AS ok,
    sum(t.rate_limited)::bigint AS rate_limited, sum(t.refused)::bigint AS refused, sum(t.server_error)::bigint AS server_error,
    sum(t.timeout)::bigint AS timeout, sum(t.network)::bigint AS network, sum(t.other)::bigint AS other, sum(t.took_us)::bigint AS took_us,
    max(t.slowest_us)::bigint AS slowest_us, sum(t.wait_us)::bigint AS wait_us, max(t.longest_wait_us)::bigint AS longest_wait_us,
    sum(t.delivered)::bigint AS delivered, sum(t.retried)::bigint AS retried, sum(t.dead_lettered)::bigint AS dead_lettered,
    sum(t.expired)::bigint AS expired, sum(t.superseded)::bigint AS superseded, sum(t.cancelled)::bigint AS cancelled,
    sum(t.arrived)::bigint AS arrived
FROM tally t
WHERE t.destination_id = @destination_id AND t.step_s = @step_s AND t.at >= @since
GROUP BY 1 ORDER BY 1 LIMIT 3000;

-- name: TallyListByLane :many
-- What came for all destinations of a lane and what their receiver answered, minute by minute, oldest first; at most a day and a bit.
SELECT t.at, sum(t.arrived)::bigint AS arrived, sum(t.requests)::bigint AS requests, sum(t.ok)::bigint AS ok,
    sum(t.rate_limited)::bigint AS rate_limited, sum(t.refused)::bigint AS refused, sum(t.timeout)::bigint AS timed_out,
    sum(t.took_us)::bigint AS took_us, max(t.longest_wait_us)::bigint AS longest_wait_us, sum(t.retried)::bigint AS retried,
    sum(t.delivered)::bigint AS delivered, sum(t.dead_lettered)::bigint AS dead_lettered, sum(t.expired)::bigint AS expired
FROM destination d JOIN tally t ON t.destination_id = d.id
WHERE d.lane_id = @lane_id AND t.step_s = 60 AND t.at >= @since
GROUP BY t.at ORDER BY t.at LIMIT 1500;

-- name: TallySum :one
-- One destination's sums, or those of all together (destination 0). Zeros where nothing happened.
SELECT coalesce(sum(t.requests), 0)::bigint AS requests, coalesce(sum(t.ok), 0)::bigint AS ok,
    coalesce(sum(t.rate_limited), 0)::bigint AS rate_limited, coalesce(sum(t.refused), 0)::bigint AS refused,
    coalesce(sum(t.server_error), 0)::bigint AS server_error, coalesce(sum(t.timeout), 0)::bigint AS timeout,
    coalesce(sum(t.network), 0)::bigint AS network, coalesce(sum(t.other), 0)::bigint AS other, coalesce(sum(t.took_us), 0)::bigint AS took_us,
    coalesce(max(t.slowest_us), 0)::bigint AS slowest_us, coalesce(sum(t.wait_us), 0)::bigint AS wait_us,
    coalesce(max(t.longest_wait_us), 0)::bigint AS longest_wait_us, coalesce(sum(t.delivered), 0)::bigint AS delivered,
    coalesce(sum(t.retried), 0)::bigint AS retried, coalesce(sum(t.dead_lettered), 0)::bigint AS dead_lettered,
    coalesce(sum(t.expired), 0)::bigint AS expired, coalesce(sum(t.superseded), 0)::bigint AS superseded,
    coalesce(sum(t.cancelled), 0)::bigint AS cancelled, coalesce(sum(t.arrived), 0)::bigint AS arrived
FROM tally t WHERE t.destination_id = @destination_id AND t.step_s = @step_s AND t.at >= @since;

-- name: TallySumByDestination :many
-- Every destination's sums, the busiest first. Choose the step by the stretch (jobs.TallyStep): a thousand destinations have 1.4 million
-- minutes in a day, and 24,000 hours.
SELECT t.destination_id, sum(t.requests)::bigint AS requests, sum(t.ok)::bigint AS ok,
    sum(t.rate_limited)::bigint AS rate_limited, sum(t.refused)::bigint AS refused, sum(t.server_error)::bigint AS server_error,
    sum(t.timeout)::bigint AS timeout, sum(t.network)::bigint AS network, sum(t.other)::bigint AS other, sum(t.took_us)::bigint AS took_us,
    max(t.slowest_us)::bigint AS slowest_us, sum(t.wait_us)::bigint AS wait_us, max(t.longest_wait_us)::bigint AS longest_wait_us,
    sum(t.delivered)::bigint AS delivered, sum(t.retried)::bigint AS retried, sum(t.dead_lettered)::bigint AS dead_lettered,
    sum(t.expired)::bigint AS expired, sum(t.superseded)::bigint AS superseded, sum(t.cancelled)::bigint AS cancelled,
    sum(t.arrived)::bigint AS arrived
FROM tally t
WHERE t.step_s = @step_s AND t.at >= @since AND t.destination_id <> 0
GROUP BY t.destination_id ORDER BY 2 DESC, 1 LIMIT @max;

-- name: TallyListWorst :many
-- The destinations whose requests failed most often, then the busiest. Choose the step by the stretch (jobs.TallyStep).
SELECT x.*, d.name, (d.deleted_at IS NOT NULL)::bool AS deleted FROM (
    SELECT t.destination_id, sum(t.requests)::bigint AS requests, sum(t.ok)::bigint AS ok, sum(t.rate_limited)::bigint AS rate_limited,
        sum(t.refused)::bigint AS refused, sum(t.server_error)::bigint AS server_error, sum(t.timeout)::bigint AS timed_out,
        sum(t.network + t.other)::bigint AS network, sum(t.took_us)::bigint AS took_us, sum(t.wait_us)::bigint AS wait_us
    FROM tally t WHERE t.step_s = @step_s AND t.at >= @since AND t.destination_id <> 0 AND t.requests > 0
    GROUP BY t.destination_id ORDER BY sum(t.requests) - sum(t.ok) DESC, 2 DESC, 1 LIMIT @max
) x JOIN destination d ON d.id = x.destination_id
ORDER BY x.requests - x.ok DESC, x.requests DESC, x.destination_id;
