-- +goose NO TRANSACTION
-- +goose Up

-- Each statement is its own transaction and can be run again. New columns with constant defaults are written into the catalog only; the check
-- reads the destinations, of which there are few.

-- Deliveries that came to be, so that a change of a limit can be tried on the last day before it is saved.
ALTER TABLE tally ADD COLUMN IF NOT EXISTS arrived bigint NOT NULL DEFAULT 0;

-- Draining: events that come from then on are not owed to it; what it is owed already is delivered. It goes beside the state, since a
-- destination that drains can be paused, or be disabled by a 410, and must not take events again because it is resumed.
ALTER TABLE destination
    ADD COLUMN IF NOT EXISTS draining_since timestamptz,
    ADD COLUMN IF NOT EXISTS draining_reason text NOT NULL DEFAULT '',
    DROP CONSTRAINT IF EXISTS destination_drains_for_its_reason,
    ADD CONSTRAINT destination_drains_for_its_reason CHECK (draining_since IS NOT NULL OR draining_reason = '');

-- What operators leave for whoever comes next.
CREATE TABLE IF NOT EXISTS destination_note (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    destination_id bigint NOT NULL REFERENCES destination,
    author         text NOT NULL CHECK (author <> ''),                        -- the operator's name at that time
    author_id      bigint,
    body           text NOT NULL CHECK (body <> '' AND length(body) <= 4000),
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS destination_note_destination_idx ON destination_note (destination_id, id);

-- Headers of answers that somebody will look at: those to test events, and those that were no success. NULL: not kept.
ALTER TABLE attempt ADD COLUMN IF NOT EXISTS response_headers jsonb;

-- +goose Down
-- Migrations only go forward.
