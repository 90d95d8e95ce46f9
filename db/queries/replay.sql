-- name: ReplayClock :one
SELECT clock_timestamp()::timestamptz;

-- name: ReplayFinish :execrows
-- Ends a run of which nothing is left to do: all selected, none waiting (unless it was stopped), each that was sent has ended.
UPDATE replay SET finished_at = clock_timestamp(), state = CASE WHEN replay.state = 'stopped' THEN 'stopped' ELSE 'done' END
WHERE replay.id = @id AND replay.finished_at IS NULL
    AND (replay.state = 'stopped' OR (NOT replay.selecting
        AND NOT EXISTS (SELECT 1 FROM replay_item i WHERE i.replay_id = @id AND i.state = 'waiting')))
    AND NOT EXISTS (SELECT 1 FROM replay_item i WHERE i.replay_id = @id AND i.state = 'sent' AND i.outcome IS NULL);

-- name: ReplayGetByKey :one
SELECT * FROM replay WHERE actor = @actor AND key = @key AND key <> '';

-- name: ReplayGetBySelection :one
SELECT * FROM replay WHERE actor = @actor AND selection = @selection AND selection <> '' AND state IN ('running', 'paused');

-- name: ReplayInsert :one
-- No row: the same click has started one (its key is known, or the same selection by the same actor is under way).
INSERT INTO replay (actor, reason, filter, selection, share, key, selecting)
VALUES (@actor, @reason, @filter, @selection, @share, @key, @selecting)
ON CONFLICT DO NOTHING RETURNING id, created_at;

-- name: ReplayListUnfinished :many
SELECT * FROM replay WHERE finished_at IS NULL ORDER BY id LIMIT @max;

-- name: ReplayLock :one
-- One at a time changes a run and its counts. After lanes, before deliveries.
SELECT * FROM replay WHERE id = @id FOR NO KEY UPDATE;

-- name: ReplayLockByDelivery :exec
-- The runs that still wait for the end of one of these deliveries.
SELECT replay.id FROM replay WHERE replay.id IN (
    SELECT i.replay_id FROM replay_item i WHERE i.delivery_id = ANY(@delivery_ids::bigint[]) AND i.state = 'sent' AND i.outcome IS NULL
) ORDER BY replay.id FOR NO KEY UPDATE;

-- name: ReplaySetCursor :exec
UPDATE replay SET selecting = @selecting, cursor_stage = @cursor_stage, cursor_id = @cursor_id, truncated = @truncated WHERE id = @id;

-- name: ReplaySetState :one
UPDATE replay SET state = @state, state_actor = @actor, selecting = selecting AND @state <> 'stopped'
WHERE id = @id AND state = ANY(@from_states::text[]) AND finished_at IS NULL RETURNING id;
