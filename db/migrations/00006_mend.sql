-- +goose NO TRANSACTION
-- +goose Up

-- Each statement is its own transaction and can be run again.

-- What the reconciler put right between the ledger, the lanes' counters and River's jobs: one row for each thing, one sentence for people.
-- Written in the transaction that mends. Kept for 30 days. No foreign keys: what it names may be gone, that can be the very fault.
CREATE TABLE IF NOT EXISTS mend (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    what        text NOT NULL CHECK (what <> ''),
    delivery_id bigint,
    lane_id     bigint,
    job_id      bigint,
    sentence    text NOT NULL CHECK (sentence <> '')
);
CREATE INDEX IF NOT EXISTS mend_at_idx ON mend (at);
CREATE INDEX IF NOT EXISTS mend_delivery_idx ON mend (delivery_id, id) WHERE delivery_id IS NOT NULL;

-- How often each was ever done: a counter must not fall when rows are pruned.
CREATE TABLE IF NOT EXISTS mend_total (
    what  text PRIMARY KEY,
    total bigint NOT NULL
);

-- Jobs that were deleted while they could still have been owed: a deleted row leaves no other trace, and no index finds the delivery (one
-- that did would be written to for every delivery). A job id of 0 says that the whole table was emptied.
CREATE TABLE IF NOT EXISTS job_gone (
    job_id      bigint PRIMARY KEY,
    delivery_id bigint NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_job_gone() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = weir, pg_temp
AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        INSERT INTO job_gone (job_id, delivery_id) VALUES (0, 0) ON CONFLICT DO NOTHING;
    ELSE
        INSERT INTO job_gone (job_id, delivery_id) VALUES (OLD.id, (OLD.args ->> 'delivery_id')::bigint) ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- River's own cleaner deletes what ended long ago (15 minutes at least): the condition lets that pass without a call.
CREATE OR REPLACE TRIGGER weir_job_gone AFTER DELETE ON river_job FOR EACH ROW
    WHEN (OLD.kind = 'deliver' AND (OLD.finalized_at IS NULL OR OLD.finalized_at > now() - interval '10 minutes')
        AND OLD.args ->> 'delivery_id' ~ '^[0-9]{1,18}$')
    EXECUTE FUNCTION note_job_gone();
CREATE OR REPLACE TRIGGER weir_job_gone_all AFTER TRUNCATE ON river_job EXECUTE FUNCTION note_job_gone();

-- +goose Down
-- Migrations only go forward.
