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
