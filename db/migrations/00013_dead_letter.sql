-- +goose NO TRANSACTION
-- +goose Up

-- Each statement is its own transaction and can be run again. The only lock on a big table is the triggers', for an instant.

-- The inbox: what was dead-lettered or expired and nobody has resolved yet. The ledger stays the authority. A delivery that ends badly, is
-- owed again or goes leaves its id here, in the transaction that does it, and nothing else: no row that two of them would wait for. The sweep
-- takes the ids a page at a time, looks at the ledger, and keeps the groups.
CREATE TABLE IF NOT EXISTS dead_letter_change (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    delivery_id bigint NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

-- Deliveries that ended badly for the same reason at the same destination.
CREATE TABLE IF NOT EXISTS dead_letter_group (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    destination_id   bigint NOT NULL REFERENCES destination,
    state            text NOT NULL CHECK (state IN ('dead_lettered', 'expired')),
    status           integer NOT NULL,                                       -- of the last answer; 0: there was none
    error_class      text NOT NULL,                                          -- of the last attempt; empty: there was none
    type             text NOT NULL,                                          -- of the event, where the answer is about what was sent; else empty
    reason           text NOT NULL DEFAULT '',                               -- the newest delivery's
    open             integer NOT NULL DEFAULT 0 CHECK (open >= 0),           -- deliveries that wait for somebody, those sent again included
    sending          integer NOT NULL DEFAULT 0 CHECK (sending >= 0 AND sending <= open), -- of those, being sent again
    total            bigint NOT NULL DEFAULT 0,                              -- how often a delivery came in
    first_seen       timestamptz NOT NULL,
    last_seen        timestamptz NOT NULL,
    opened_at        timestamptz,                                            -- since when it is open this time; NULL: it is not
    assignee_id      bigint REFERENCES operator,
    snoozed_until    timestamptz,
    snoozed_open     integer NOT NULL DEFAULT 0,                             -- how many were open then
    resolved_through bigint NOT NULL DEFAULT 0,                              -- deliveries that came in up to this seq are resolved
    resolved_before  bigint NOT NULL DEFAULT 0,                              -- resolved_through before the last time, to take it back
    resolved_at      timestamptz,                                            -- the last time that somebody resolved it whole
    resolved_by      text NOT NULL DEFAULT '',
    resolution       text NOT NULL DEFAULT '',
    UNIQUE (destination_id, state, status, error_class, type)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX IF NOT EXISTS dead_letter_group_seen_idx ON dead_letter_group (last_seen, id);
CREATE INDEX IF NOT EXISTS dead_letter_group_open_idx ON dead_letter_group (last_seen, id) WHERE open > 0;
CREATE INDEX IF NOT EXISTS dead_letter_group_snoozed_idx ON dead_letter_group (snoozed_until) WHERE snoozed_until IS NOT NULL;

-- What is or was in a group. It is open unless it has left by itself, or came in (seq) before the group was last resolved: so that resolving
-- half a million is one row changed. No foreign keys: they would lock, and so rewrite, the ledger's rows.
CREATE SEQUENCE IF NOT EXISTS dead_letter_seq AS bigint;
CREATE TABLE IF NOT EXISTS dead_letter (
    delivery_id bigint PRIMARY KEY,
    group_id    bigint NOT NULL,
    seq         bigint NOT NULL,
    ended_at    timestamptz NOT NULL,                                        -- the delivery's settled_at when it came in
    replay_id   bigint,                                                      -- is being sent again by it
    left_at     timestamptz,
    left_why    text CHECK (left_why IN ('delivered', 'superseded', 'cancelled', 'resolved')),
    CONSTRAINT dead_letter_left_has_a_reason CHECK ((left_at IS NULL) = (left_why IS NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX IF NOT EXISTS dead_letter_group_idx ON dead_letter (group_id, seq);
CREATE INDEX IF NOT EXISTS dead_letter_open_idx ON dead_letter (group_id, seq) WHERE left_at IS NULL;

-- How many came in, by stretches of five minutes, kept for 25 hours.
CREATE TABLE IF NOT EXISTS dead_letter_tally (
    group_id bigint NOT NULL,
    at       timestamptz NOT NULL,
    came     integer NOT NULL,
    PRIMARY KEY (group_id, at)
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS dead_letter_tally_at_idx ON dead_letter_tally (at);

-- What happened to a group, and who did it. Entries with a key add up: what one replay delivered is one entry, however long it takes.
CREATE TABLE IF NOT EXISTS dead_letter_history (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id  bigint NOT NULL REFERENCES dead_letter_group,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at   timestamptz NOT NULL DEFAULT clock_timestamp(),                 -- when it was last added to
    kind      text NOT NULL CHECK (kind IN ('opened', 'reopened', 'assigned', 'unassigned', 'note', 'snoozed', 'woke', 'resolved', 'resolved_some',
                  'taken_back', 'replay', 'delivered', 'failed', 'moved', 'ended', 'removed')),
    actor     text NOT NULL DEFAULT '',                                      -- empty: Weir
    note      text NOT NULL DEFAULT '',
    count     integer NOT NULL DEFAULT 0,                                    -- deliveries
    replay_id bigint,
    key       text NOT NULL DEFAULT ''
) WITH (fillfactor = 80);
CREATE INDEX IF NOT EXISTS dead_letter_history_group_idx ON dead_letter_history (group_id, id);
CREATE UNIQUE INDEX IF NOT EXISTS dead_letter_history_key ON dead_letter_history (group_id, key) WHERE key <> '';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_dead_letter_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = weir, pg_temp
AS $$
BEGIN
    INSERT INTO dead_letter_change (delivery_id) VALUES (OLD.id);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Whoever moves a delivery, none gets past the inbox. For one that is simply delivered the condition is all there is to it.
CREATE OR REPLACE TRIGGER weir_dead_letter AFTER UPDATE OF state ON delivery FOR EACH ROW
    WHEN (NEW.state IS DISTINCT FROM OLD.state AND (NEW.state IN ('dead_lettered', 'expired') OR OLD.state IN ('dead_lettered', 'expired')
        OR (NEW.replay_id IS NOT NULL AND NEW.settled_at IS NOT NULL)))
    EXECUTE FUNCTION note_dead_letter_change();
CREATE OR REPLACE TRIGGER weir_dead_letter_gone AFTER DELETE ON delivery FOR EACH ROW
    WHEN (OLD.state IN ('dead_lettered', 'expired')) EXECUTE FUNCTION note_dead_letter_change();

-- What has ended badly before there was an inbox. Twice does no harm.
INSERT INTO dead_letter_change (delivery_id) SELECT id FROM delivery WHERE attention IN ('dead_lettered', 'expired') ORDER BY id;

-- +goose Down
-- Migrations only go forward.
