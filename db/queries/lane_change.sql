-- name: LaneChangeInsert :exec
INSERT INTO lane_change (lane_id, kind, rate_before, rate_after, actor, reason)
VALUES (@lane_id, @kind, sqlc.narg('rate_before'), sqlc.narg('rate_after'), @actor, @reason);

-- name: LaneChangeList :many
-- A page of what changed a lane's pace, newest first.
SELECT * FROM lane_change WHERE lane_id = @lane_id AND id < @before ORDER BY id DESC LIMIT @max;

-- name: LaneListIDSlow :many
SELECT id FROM lane WHERE slow_since IS NOT NULL ORDER BY id LIMIT 10000;

-- name: LaneMarkSlow :many
-- Only those not marked yet: of two processes that find it out at once, one writes. Locked in id order, as everywhere.
WITH ask AS (SELECT unnest(@ids::bigint[]) AS id, unnest(@reasons::text[]) AS reason),
l AS MATERIALIZED (
    SELECT lane.id FROM lane WHERE lane.id IN (SELECT ask.id FROM ask) AND lane.slow_since IS NULL ORDER BY lane.id FOR NO KEY UPDATE
),
marked AS (
    UPDATE lane SET slow_since = clock_timestamp() FROM l WHERE lane.id = l.id RETURNING lane.id
)
INSERT INTO lane_change (lane_id, kind, reason)
SELECT marked.id, 'slow', ask.reason FROM marked JOIN ask ON ask.id = marked.id
RETURNING lane_change.lane_id;

-- name: LaneMarkRecovered :many
-- Not within ten seconds of the mark: two processes that see different things must not argue every second.
WITH ask AS (SELECT unnest(@ids::bigint[]) AS id, unnest(@reasons::text[]) AS reason),
l AS MATERIALIZED (
    SELECT lane.id FROM lane
    WHERE lane.id IN (SELECT ask.id FROM ask) AND lane.slow_since < statement_timestamp() - interval '10 seconds'
    ORDER BY lane.id FOR NO KEY UPDATE
),
marked AS (
    UPDATE lane SET slow_since = NULL FROM l WHERE lane.id = l.id RETURNING lane.id
)
INSERT INTO lane_change (lane_id, kind, reason)
SELECT marked.id, 'recovered', ask.reason FROM marked JOIN ask ON ask.id = marked.id
RETURNING lane_change.lane_id;

-- name: LaneMarkRecoveredIdle :many
-- Those to which nothing was sent for five minutes: nobody has evidence against them any more. A lane without limits has no count of what is
-- in flight, but no request lasts more than a minute.
WITH l AS MATERIALIZED (
    SELECT lane.id FROM lane
    WHERE lane.slow_since < statement_timestamp() - interval '5 minutes' AND lane.in_flight = 0
        AND NOT EXISTS (
            SELECT 1 FROM destination d JOIN tally t ON t.destination_id = d.id AND t.step_s = 60
            WHERE d.lane_id = lane.id AND t.at > statement_timestamp() - interval '5 minutes' AND t.requests > 0
        )
    ORDER BY lane.id FOR NO KEY UPDATE
),
marked AS (
    UPDATE lane SET slow_since = NULL FROM l WHERE lane.id = l.id RETURNING lane.id
)
INSERT INTO lane_change (lane_id, kind, reason)
SELECT marked.id, 'recovered', 'nothing was sent to it for 5 minutes' FROM marked
RETURNING lane_change.lane_id;

-- name: LaneChangeDeleteOld :execrows
-- After 30 days; ids rise with time, so the oldest page is enough to look at.
DELETE FROM lane_change WHERE id = ANY(ARRAY(
    SELECT o.id FROM (SELECT c.id, c.at FROM lane_change c ORDER BY c.id LIMIT @max) o WHERE o.at < statement_timestamp() - interval '30 days'
));

-- name: LaneLatencySet :exec
INSERT INTO lane_latency (lane_id, baseline_us, windows)
SELECT unnest(@lane_ids::bigint[]), unnest(@baselines_us::bigint[]), unnest(@windows::int[])
ON CONFLICT (lane_id) DO UPDATE SET baseline_us = excluded.baseline_us, windows = excluded.windows;

-- name: LaneListLearning :many
-- The lanes that learn, a page by id, with what their receivers answered lately: in a window of 30 seconds, or of ten requests at the lane's
-- pace where that is longer (an hour at most), and nothing from before the last change, whose answers were to another pace. Samples are
-- of ten seconds and written up to five seconds late, so a window begins at the first slot that is wholly inside.
SELECT l.id, l.rate::double precision AS rate, l.learned_rate, l.learning, l.burst, l.parked, (l.slow_since IS NOT NULL)::bool AS slow,
    l.window_s::double precision AS window_s, extract(epoch FROM statement_timestamp() - l.changed_at)::double precision AS unchanged_s,
    greatest(0, extract(epoch FROM statement_timestamp() - f.at))::double precision AS seen_s,
    s.requests, s.answers, s.rate_limited, s.failed, s.took_us,
    coalesce(latency.baseline_us, 0)::bigint AS baseline_us, coalesce(latency.windows, 0)::int AS windows,
    EXISTS (SELECT 1 FROM lane_change c WHERE c.lane_id = l.id AND c.kind = 'suggested' AND c.at > l.changed_at
        AND c.at > statement_timestamp() - interval '10 minutes' AND c.rate_after < c.rate_before)::bool AS suggested_less,
    EXISTS (SELECT 1 FROM lane_change c WHERE c.lane_id = l.id AND c.kind = 'suggested' AND c.at > l.changed_at
        AND c.at > statement_timestamp() - interval '10 minutes' AND c.rate_after > c.rate_before)::bool AS suggested_more
FROM (
    SELECT lane.id, lane.rate, lane.learned_rate, lane.learning, lane.burst, lane.parked, lane.slow_since, greatest(30, least(3600, 10 / least(lane.rate, lane.learned_rate))) AS window_s,
        coalesce((SELECT c.at FROM lane_change c WHERE c.lane_id = lane.id AND c.kind IN ('learned', 'policy') ORDER BY c.id DESC LIMIT 1), lane.created_at) AS changed_at
    FROM lane WHERE lane.learning <> 'off' AND lane.rate IS NOT NULL AND lane.id > @after ORDER BY lane.id LIMIT @max
) l
CROSS JOIN LATERAL (
    SELECT date_bin('10 seconds', greatest(l.changed_at + interval '5 seconds', statement_timestamp() - l.window_s * interval '1 second')
        + interval '9999999 microseconds', 'epoch') AS at
) f
CROSS JOIN LATERAL (
    SELECT coalesce(sum(x.requests), 0)::bigint AS requests, coalesce(sum(x.answers), 0)::bigint AS answers,
        coalesce(sum(x.rate_limited), 0)::bigint AS rate_limited, coalesce(sum(x.failed), 0)::bigint AS failed, coalesce(sum(x.took_us), 0)::bigint AS took_us
    FROM lane_sample x WHERE x.lane_id = l.id AND x.at >= f.at
) s
LEFT JOIN lane_latency latency ON latency.lane_id = l.id
ORDER BY l.id;

-- name: LaneGetSuggestion :one
-- What is suggested and not yet decided about: the newest one since the last change, of the last hour.
SELECT c.* FROM lane_change c
WHERE c.lane_id = @lane_id AND c.kind = 'suggested' AND c.at > statement_timestamp() - interval '1 hour'
    AND NOT EXISTS (SELECT 1 FROM lane_change n WHERE n.lane_id = c.lane_id AND n.id > c.id AND n.kind IN ('learned', 'policy'))
ORDER BY c.id DESC LIMIT 1;

-- name: LaneRescale :exec
-- After a change of pace, under the lock that was held since before it: what a lane had left of its allowance, in requests, it has now, no more
-- and no less, so a change grants nobody a burst. A debt of a minute at one a minute is a tenth of a second at ten a second. A hold stays.
UPDATE lane SET tat_us = CASE
        WHEN b.period_us = 0 THEN least(lane.tat_us, b.now_us) -- it had no rate: there is no allowance to keep
        WHEN lane.held_us > b.now_us THEN lane.held_us + lane.tau_us
        ELSE b.now_us + greatest(0, lane.tau_us - ((b.tau_us - greatest(0, lane.tat_us - b.now_us)) * (lane.period_us::double precision / nullif(b.period_us, 0)))::bigint) END
FROM (
    SELECT @tau_before_us::bigint AS tau_us, @period_before_us::bigint AS period_us, (extract(epoch FROM clock_timestamp()) * 1e6)::bigint AS now_us
) b
WHERE lane.id = @id::bigint AND lane.period_us > 0;

-- name: LaneSetLearnedRate :one
-- The caller holds the lane's lock. NULL: the operator's rate.
UPDATE lane SET learned_rate = nullif(@learned_rate::double precision, lane.rate) WHERE id = @id AND learning <> 'off' RETURNING *;
