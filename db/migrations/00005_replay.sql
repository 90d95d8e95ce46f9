-- +goose NO TRANSACTION
-- +goose Up

-- Each statement is its own transaction and can be run again. The tables held an event's deliveries at a time so far: they are small.

-- A replay is a run: it selects page by page, feeds what it selected to the lanes by its share, and ends with a report.
ALTER TABLE replay
    ADD COLUMN IF NOT EXISTS state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'stopped', 'done')),
    ADD COLUMN IF NOT EXISTS state_actor text NOT NULL DEFAULT '',           -- who paused, resumed or stopped it; empty: it is as it began or ended
    ADD COLUMN IF NOT EXISTS filter jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(filter) = 'object'),
    ADD COLUMN IF NOT EXISTS selection text NOT NULL DEFAULT '',             -- the filter's digest; empty: chosen one by one
    ADD COLUMN IF NOT EXISTS share double precision NOT NULL DEFAULT 1 CHECK (share > 0 AND share <= 1),
    ADD COLUMN IF NOT EXISTS key text NOT NULL DEFAULT '' CHECK (length(key) <= 200),
    ADD COLUMN IF NOT EXISTS selecting boolean NOT NULL DEFAULT false,       -- from cursor_stage and cursor_id on there may be more
    ADD COLUMN IF NOT EXISTS cursor_stage integer NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS cursor_id bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS truncated boolean NOT NULL DEFAULT false,       -- more matched than one run takes
    ADD COLUMN IF NOT EXISTS finished_at timestamptz;                        -- NULL: something of it may still happen

-- What happens to one delivery in a run. previous_*: how it was before, so that what was not sent can go back. outcome: how it ended
-- this time; the delivery's own row goes on to its next replay.
ALTER TABLE replay_item
    ADD COLUMN IF NOT EXISTS destination_id bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS lane_id bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS state text NOT NULL DEFAULT 'sent' CHECK (state IN ('waiting', 'sent', 'refused', 'left')),
    ADD COLUMN IF NOT EXISTS sent_at timestamptz,
    ADD COLUMN IF NOT EXISTS previous_settled_at timestamptz,
    ADD COLUMN IF NOT EXISTS previous_expires_at timestamptz,
    ADD COLUMN IF NOT EXISTS previous_failures integer NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS previous_replay_id bigint,
    ADD COLUMN IF NOT EXISTS previous_attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS outcome text CHECK (outcome IN ('delivered', 'expired', 'dead_lettered', 'superseded', 'cancelled', 'removed')),
    ADD COLUMN IF NOT EXISTS outcome_status integer,
    ADD COLUMN IF NOT EXISTS outcome_class text NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS outcome_reason text NOT NULL DEFAULT '';

-- A run's progress per destination: few rows to add up, whatever the run's size.
CREATE TABLE IF NOT EXISTS replay_destination (
    replay_id      bigint NOT NULL REFERENCES replay,
    destination_id bigint NOT NULL,
    lane_id        bigint NOT NULL,
    waiting        integer NOT NULL DEFAULT 0,
    sent           integer NOT NULL DEFAULT 0,
    refused        integer NOT NULL DEFAULT 0,
    restored       integer NOT NULL DEFAULT 0,                               -- fed, and taken back by a stop
    delivered      integer NOT NULL DEFAULT 0,                               -- of those sent
    failed         integer NOT NULL DEFAULT 0,                               -- of those sent: ended otherwise
    PRIMARY KEY (replay_id, destination_id, lane_id)
) WITH (fillfactor = 50);

-- What a run may take of a lane, kept so that a restart goes on where the last process was. credit: requests it may make now, as of
-- fed_at; fractions carry over. retries: those made by deliveries that have ended; charged: how many retries credit has paid for.
CREATE TABLE IF NOT EXISTS replay_lane (
    replay_id bigint NOT NULL REFERENCES replay,
    lane_id   bigint NOT NULL,
    credit    double precision NOT NULL DEFAULT 1,
    fed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    retries   bigint NOT NULL DEFAULT 0,
    charged   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (replay_id, lane_id)
) WITH (fillfactor = 50);

-- A run of a million would lock, and so rewrite, a million rows of the ledger for this check.
ALTER TABLE replay_item DROP CONSTRAINT IF EXISTS replay_item_delivery_id_fkey;

-- What the version before has recorded.
UPDATE replay_item i SET
    destination_id = d.destination_id, lane_id = d.lane_id, state = CASE WHEN i.refusal <> '' THEN 'refused' ELSE 'sent' END,
    outcome = CASE WHEN i.refusal = '' AND d.settled_at IS NOT NULL THEN d.state END
FROM delivery d WHERE d.id = i.delivery_id AND i.destination_id = 0;
INSERT INTO replay_destination (replay_id, destination_id, lane_id, sent, refused, delivered, failed)
SELECT replay_id, destination_id, lane_id, count(*) FILTER (WHERE state = 'sent'), count(*) FILTER (WHERE state = 'refused'),
    count(*) FILTER (WHERE outcome = 'delivered'), count(*) FILTER (WHERE outcome <> 'delivered')
FROM replay_item GROUP BY 1, 2, 3 ON CONFLICT DO NOTHING;

-- Two clicks at once make one run.
CREATE UNIQUE INDEX IF NOT EXISTS replay_key_key ON replay (actor, key) WHERE key <> '';
CREATE UNIQUE INDEX IF NOT EXISTS replay_selection_key ON replay (actor, selection) WHERE selection <> '' AND state IN ('running', 'paused');
CREATE INDEX IF NOT EXISTS replay_unfinished_idx ON replay (id) WHERE finished_at IS NULL;
CREATE INDEX IF NOT EXISTS replay_item_waiting_idx ON replay_item (replay_id, lane_id, destination_id, delivery_id) WHERE state = 'waiting';
CREATE INDEX IF NOT EXISTS replay_item_outstanding_idx ON replay_item (replay_id, lane_id, delivery_id) WHERE state = 'sent' AND outcome IS NULL;
CREATE INDEX IF NOT EXISTS replay_item_bad_idx ON replay_item (replay_id, delivery_id) WHERE state = 'refused' OR outcome <> 'delivered';

-- +goose Down
-- Migrations only go forward.
