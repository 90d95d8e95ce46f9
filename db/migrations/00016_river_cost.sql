-- +goose NO TRANSACTION
-- +goose Up

-- Every job is written three times (made, fetched, ended), and each time into every index, since its state is part of one. This one serves
-- River UI's list of kinds only, of which there are two: a sixth of the buffers that a job's row costs.
DROP INDEX CONCURRENTLY IF EXISTS river_job_kind;

-- The sweep analyzes this table whenever half of it is new, which in a burst is every few seconds: 0.1 to 0.7 s with the default of
-- 30,000 sampled rows, most of it for columns of JSON that no plan depends on.
ALTER TABLE river_job
    ALTER COLUMN id SET STATISTICS 10, ALTER COLUMN state SET STATISTICS 10, ALTER COLUMN attempt SET STATISTICS 0,
    ALTER COLUMN max_attempts SET STATISTICS 0, ALTER COLUMN attempted_at SET STATISTICS 10, ALTER COLUMN created_at SET STATISTICS 0,
    ALTER COLUMN finalized_at SET STATISTICS 10, ALTER COLUMN scheduled_at SET STATISTICS 10, ALTER COLUMN priority SET STATISTICS 10,
    ALTER COLUMN args SET STATISTICS 0, ALTER COLUMN attempted_by SET STATISTICS 0, ALTER COLUMN errors SET STATISTICS 0,
    ALTER COLUMN kind SET STATISTICS 10, ALTER COLUMN metadata SET STATISTICS 0, ALTER COLUMN queue SET STATISTICS 10,
    ALTER COLUMN tags SET STATISTICS 0, ALTER COLUMN unique_key SET STATISTICS 0, ALTER COLUMN unique_states SET STATISTICS 0;
ALTER STATISTICS river_job_bitmask_stats SET STATISTICS 10;

-- +goose Down
-- Migrations only go forward.
