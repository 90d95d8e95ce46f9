-- name: RiverJobCancelOrphan :execrows
-- Discovery runs of processes that no longer beat: while one counts as running, its source would not be read. A run that is alive after
-- all finds at its end that its job is not running, and commits nothing.
UPDATE river_job j SET state = 'cancelled', finalized_at = now()
WHERE j.state = 'running' AND j.kind = 'discover' AND j.attempted_at < now() - interval '5 seconds'
    AND NOT EXISTS (
        SELECT 1 FROM process p
        WHERE p.id = j.attempted_by[array_upper(j.attempted_by, 1)] AND p.stopped_at IS NULL AND p.beat_at > now() - interval '15 seconds'
    );

-- name: RiverJobCancelWaiting :exec
-- What River's own cancel does to a job that does not run, for many at once.
UPDATE river_job SET state = 'cancelled', finalized_at = now()
WHERE id = ANY(@ids::bigint[]) AND state IN ('pending', 'available', 'scheduled', 'retryable');

-- name: RiverJobMoveToSlow :execrows
-- What waits for a worker and belongs to lanes that were just marked slow, a page at a time: it waits on the slow queue instead. What is
-- behind the gate gets its queue when it is let through, and a snoozed job is placed anew when it wakes.
UPDATE river_job SET queue = 'deliver_slow' WHERE river_job.id = ANY(ARRAY(
    SELECT j.id FROM river_job j JOIN delivery d ON d.id = (j.args ->> 'delivery_id')::bigint
    WHERE j.state = 'available' AND j.queue = 'deliver' AND j.kind = 'deliver' AND d.lane_id = ANY(@lane_ids::bigint[])
    ORDER BY j.id LIMIT @max FOR UPDATE OF j SKIP LOCKED
)) AND river_job.state = 'available';

-- name: RiverJobPark :exec
-- Takes back jobs that this transaction made available, or that nobody has fetched: they wait for the gate.
UPDATE river_job SET state = 'pending' WHERE id = ANY(@ids::bigint[]) AND state = 'available';
