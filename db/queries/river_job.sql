-- name: RiverJobCancelWaiting :exec
-- What River's own cancel does to a job that does not run, for many at once.
UPDATE river_job SET state = 'cancelled', finalized_at = now()
WHERE id = ANY(@ids::bigint[]) AND state IN ('pending', 'available', 'scheduled', 'retryable');
