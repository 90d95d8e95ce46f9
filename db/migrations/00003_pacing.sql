-- +goose NO TRANSACTION
-- +goose Up

-- Each statement is its own transaction, so that none holds a lock on a big table for longer than an instant. All can be run again.

-- The lane: what an operator adds to the budget, what was learned from the receiver, and the class of its latency. Everything that follows
-- from the rate follows from the lower of the two rates. The table is small; this rewrites it.
ALTER TABLE lane
    ADD COLUMN IF NOT EXISTS serial boolean NOT NULL DEFAULT false,           -- one of its destinations wants each subject's versions one after another
    ADD COLUMN IF NOT EXISTS learning text NOT NULL DEFAULT 'off' CHECK (learning IN ('off', 'suggest', 'on')),
    ADD COLUMN IF NOT EXISTS learned_rate double precision CHECK (learned_rate > 0), -- NULL: the operator's rate, which is the ceiling
    ADD COLUMN IF NOT EXISTS slow_since timestamptz;                          -- set: its receiver is slow, its jobs are on the slow queue
-- A lane that orders keeps accounts even without limits: its lock is what makes "one after another" hold over processes.
-- Dropped and added in one statement: processes of the version before never miss a column.
ALTER TABLE lane
    DROP COLUMN IF EXISTS limited, DROP COLUMN IF EXISTS margin_us, DROP COLUMN IF EXISTS period_us, DROP COLUMN IF EXISTS tau_us,
    DROP COLUMN IF EXISTS window_size,
    ADD COLUMN limited boolean NOT NULL GENERATED ALWAYS AS (rate IS NOT NULL OR max_in_flight IS NOT NULL OR serial) STORED,
    ADD COLUMN margin_us bigint NOT NULL GENERATED ALWAYS AS (CASE
        WHEN rate IS NULL THEN 0
        WHEN (burst - 1) * (1e6 / least(rate, learned_rate)) >= 15000
            THEN least(250000, greatest(15000, 0.5e6 / least(rate, learned_rate), (burst - 1) * (0.25e6 / least(rate, learned_rate))))
        ELSE greatest(15000, 1e4 / least(rate, learned_rate)) END::bigint) STORED,
    ADD COLUMN period_us bigint NOT NULL GENERATED ALWAYS AS (CASE
        WHEN rate IS NULL THEN 0
        WHEN (burst - 1) * (1e6 / least(rate, learned_rate)) >= 15000 THEN ceil(1e6 / least(rate, learned_rate))
        ELSE ceil(1e6 / least(rate, learned_rate) + greatest(15000, 1e4 / least(rate, learned_rate))
            - (burst - 1) * (1e6 / least(rate, learned_rate))) END::bigint) STORED,
    ADD COLUMN tau_us bigint NOT NULL GENERATED ALWAYS AS (CASE
        WHEN rate IS NULL OR (burst - 1) * (1e6 / least(rate, learned_rate)) < 15000 THEN 0
        ELSE floor((burst - 1) * (1e6 / least(rate, learned_rate)) - least(250000,
            greatest(15000, 0.5e6 / least(rate, learned_rate), (burst - 1) * (0.25e6 / least(rate, learned_rate))))) END::bigint) STORED,
    -- How many deliveries may wait in River at once: two seconds' worth, since longer waits are cheaper outside (design: the gate).
    ADD COLUMN window_size integer NOT NULL GENERATED ALWAYS AS (CASE
        WHEN rate IS NULL AND max_in_flight IS NULL THEN 1000
        WHEN rate IS NULL THEN max_in_flight
        ELSE least(greatest(1, least(ceil(2 * least(rate, learned_rate)), 1000000)), coalesce(2 * max_in_flight, 1000000)) END::integer) STORED,
    DROP CONSTRAINT IF EXISTS lane_learns_below_its_rate,
    ADD CONSTRAINT lane_learns_below_its_rate CHECK (learned_rate IS NULL OR (rate IS NOT NULL AND learned_rate <= rate)),
    DROP CONSTRAINT IF EXISTS lane_learns_a_rate,
    ADD CONSTRAINT lane_learns_a_rate CHECK (learning = 'off' OR rate IS NOT NULL);

-- What changed a lane's pace, besides the operator: learned or suggested rates, the move to the slow queue and back.
CREATE TABLE IF NOT EXISTS lane_change (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane_id     bigint NOT NULL REFERENCES lane,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind        text NOT NULL CHECK (kind IN ('learned', 'suggested', 'slow', 'recovered', 'policy')),
    rate_before double precision,
    rate_after  double precision,
    actor       text NOT NULL DEFAULT '',                                     -- who, where somebody did it
    reason      text NOT NULL CHECK (reason <> '')
);
CREATE INDEX IF NOT EXISTS lane_change_lane_idx ON lane_change (lane_id, id);

-- Turns: the gate lets flows take turns (start-time fair queueing). A flow is what one tenant has of one class (0 first tries, 1 retries,
-- 2 replays) and one priority behind one lane's gate; turn is the last one given out. Rows are written under the lane's lock.
CREATE TABLE IF NOT EXISTS lane_flow (
    lane_id  bigint NOT NULL REFERENCES lane,
    priority smallint NOT NULL,
    tenant   text NOT NULL,
    class    smallint NOT NULL CHECK (class IN (0, 1, 2)),
    turn     bigint NOT NULL,
    PRIMARY KEY (lane_id, priority, tenant, class)
) WITH (fillfactor = 50);

-- turn: when it is its flow's turn behind the gate. blocked: an earlier version of its subject has not ended (ordering serial); its job is
-- pending, and it is neither behind the gate nor in the window.
ALTER TABLE delivery
    ADD COLUMN IF NOT EXISTS turn bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS blocked boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT IF EXISTS delivery_blocked_is_outside,
    ADD CONSTRAINT delivery_blocked_is_outside CHECK (NOT blocked OR (settled_at IS NULL AND NOT parked AND NOT in_window)) NOT VALID;
ALTER TABLE delivery VALIDATE CONSTRAINT delivery_blocked_is_outside;

-- The order in which the gate lets through.
DROP INDEX CONCURRENTLY IF EXISTS delivery_gate_idx; -- what a migration that was cut short left
CREATE INDEX CONCURRENTLY delivery_gate_idx ON delivery (destination_id, priority, turn, id) WHERE parked;
DROP INDEX CONCURRENTLY IF EXISTS delivery_parked_idx;
DROP INDEX CONCURRENTLY IF EXISTS delivery_blocked_idx;
CREATE INDEX CONCURRENTLY delivery_blocked_idx ON delivery (id) WHERE blocked;

-- Where a request's time went, in microseconds from its start; NULL: did not happen (a connection that was reused has no DNS, connect, TLS).
ALTER TABLE attempt
    ADD COLUMN IF NOT EXISTS dns_us integer,
    ADD COLUMN IF NOT EXISTS connect_us integer,
    ADD COLUMN IF NOT EXISTS tls_us integer,
    ADD COLUMN IF NOT EXISTS first_byte_us integer;

-- +goose Down
-- Migrations only go forward.
