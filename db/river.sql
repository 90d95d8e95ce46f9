-- What sqlc must know of River's table. It is never run: River's own migrations make the table.
CREATE TYPE river_job_state AS ENUM ('available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled');

CREATE TABLE river_job (
    id bigint PRIMARY KEY,
    args jsonb NOT NULL,
    attempt smallint NOT NULL,
    attempted_at timestamptz,
    attempted_by text[],
    created_at timestamptz NOT NULL,
    errors jsonb[],
    finalized_at timestamptz,
    kind text NOT NULL,
    max_attempts smallint NOT NULL,
    metadata jsonb NOT NULL,
    priority smallint NOT NULL,
    queue text NOT NULL,
    state river_job_state NOT NULL,
    scheduled_at timestamptz NOT NULL,
    tags text[] NOT NULL,
    unique_key bytea,
    unique_states bit(8)
);
