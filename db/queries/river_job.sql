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
