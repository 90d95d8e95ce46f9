-- +goose NO TRANSACTION
-- +goose Up

-- What receivers answered and what became of deliveries, added up by destination and stretch of time, so that charts and sums read hundreds
-- of rows and not the ledger. Each working process adds up in memory and writes every five seconds; the ledger stays the authority.
-- destination_id 0 is all of them together. step_s 60: minutes, kept for 48 hours; 3600: hours, kept for 30 days; both are written at once.
-- There is no foreign key: its check would lock rows of destination for statistics.
CREATE TABLE IF NOT EXISTS tally (
    destination_id bigint NOT NULL,
    step_s         integer NOT NULL CHECK (step_s IN (60, 3600)),
    at             timestamptz NOT NULL,                                     -- where the minute or hour begins, by the database's clock
    -- Requests, by what came back.
    requests       bigint NOT NULL DEFAULT 0,                                -- the sum of the seven classes
    ok             bigint NOT NULL DEFAULT 0,                                -- counts as delivered
    rate_limited   bigint NOT NULL DEFAULT 0,                                -- 429
    refused        bigint NOT NULL DEFAULT 0,                                -- every other status below 500 that is no success
    server_error   bigint NOT NULL DEFAULT 0,                                -- 5xx
    timeout        bigint NOT NULL DEFAULT 0,                                -- no connection or no status in time
    network        bigint NOT NULL DEFAULT 0,                                -- DNS, connect, TLS, reset
    other          bigint NOT NULL DEFAULT 0,                                -- not an HTTP answer, blocked by the guard, interrupted, never made
    -- Time. Answers are the requests that got a status: ok + rate_limited + refused + server_error.
    took_us        bigint NOT NULL DEFAULT 0,                                -- of all answers together
    slowest_us     bigint NOT NULL DEFAULT 0,                                -- of one answer
    wait_us        bigint NOT NULL DEFAULT 0,                                -- from due to sent, of all requests together
    longest_wait_us bigint NOT NULL DEFAULT 0,
    -- Deliveries, by what a request or a wait came to.
    delivered      bigint NOT NULL DEFAULT 0,
    retried        bigint NOT NULL DEFAULT 0,                                -- requests that another one has to follow
    dead_lettered  bigint NOT NULL DEFAULT 0,
    expired        bigint NOT NULL DEFAULT 0,
    superseded     bigint NOT NULL DEFAULT 0,
    cancelled      bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (destination_id, step_s, at)
) WITH (
    -- Each row is updated a dozen times a minute and more, in no indexed column.
    fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0
);
-- For sums over all destinations, and for pruning.
CREATE INDEX IF NOT EXISTS tally_at_idx ON tally (step_s, at);

-- The same by lane in slots of ten seconds, only for lanes that learn: what they learn from. Unlogged: after a crash of the database there
-- is nothing to learn from for half a minute, and nobody pays for writing it down twice.
CREATE UNLOGGED TABLE IF NOT EXISTS lane_sample (
    lane_id      bigint NOT NULL,
    at           timestamptz NOT NULL,
    requests     bigint NOT NULL DEFAULT 0,
    answers      bigint NOT NULL DEFAULT 0,
    rate_limited bigint NOT NULL DEFAULT 0,
    failed       bigint NOT NULL DEFAULT 0,                                  -- 5xx, timeouts, network
    took_us      bigint NOT NULL DEFAULT 0,                                  -- of all answers together
    PRIMARY KEY (lane_id, at)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02);

-- How long the lane's receiver usually takes: a mean that moves slowly, by which a window's mean is judged.
CREATE TABLE IF NOT EXISTS lane_latency (
    lane_id     bigint PRIMARY KEY REFERENCES lane,
    baseline_us bigint NOT NULL CHECK (baseline_us >= 0),
    windows     integer NOT NULL CHECK (windows > 0)                         -- how many it was made from
) WITH (fillfactor = 50);

-- Lanes marked slow are looked up every second; there are few. A mark changes rarely, so the lane's busy columns keep their cheap updates.
DROP INDEX CONCURRENTLY IF EXISTS lane_slow_idx; -- what a migration that was cut short left
CREATE INDEX CONCURRENTLY lane_slow_idx ON lane (id) WHERE slow_since IS NOT NULL;

-- +goose Down
-- Migrations only go forward.
