-- What the reconciler asks and does. Each look reads one page of a small set, goes on after it the next time, and answers with the ids that
-- seem wrong; what is done about them is decided anew under the locks (MendOwed, MendCancelUnowned).

-- name: MendAtAttention :one
-- Deliveries that wait for their next attempt, along delivery_attention_idx: their job must be able to run.
WITH page AS MATERIALIZED (
    SELECT d.id, d.job_id, d.parked, d.blocked, d.attempts FROM delivery d WHERE d.attention = 'retrying' AND d.id > @after ORDER BY d.id LIMIT @page
)
SELECT count(*)::int AS scanned, coalesce(max(page.id), 0)::bigint AS last, (coalesce(array_agg(page.id) FILTER (
    WHERE j.id IS NULL OR j.state IN ('completed', 'cancelled', 'discarded') OR (j.state = 'pending' AND NOT page.parked AND NOT page.blocked)
), '{}'))::bigint[] AS ids
FROM page LEFT JOIN river_job j ON j.id = page.job_id;

-- name: MendAtBlocked :one
-- Deliveries that wait for an earlier version, along delivery_blocked_idx.
WITH page AS MATERIALIZED (
    SELECT d.id, d.job_id, d.destination_id FROM delivery d
    WHERE d.blocked AND (d.destination_id, d.id) > (@destination_id::bigint, @after::bigint) ORDER BY d.destination_id, d.id LIMIT @page
)
SELECT count(*)::int AS scanned, coalesce((array_agg(page.destination_id ORDER BY page.destination_id DESC, page.id DESC))[1], 0)::bigint AS last_destination_id,
    coalesce((array_agg(page.id ORDER BY page.destination_id DESC, page.id DESC))[1], 0)::bigint AS last,
    (coalesce(array_agg(page.id) FILTER (WHERE j.id IS NULL OR j.state IN ('completed', 'cancelled', 'discarded')), '{}'))::bigint[] AS ids
FROM page LEFT JOIN river_job j ON j.id = page.job_id;

-- name: MendAtEnded :one
-- Jobs of one final state, by the time they ended: their delivery must have moved on. Those completed, which are many, are read once, when all
-- that ended by then has been written.
WITH page AS MATERIALIZED (
    SELECT j.id, j.finalized_at, CASE WHEN j.kind = 'deliver' AND j.args ->> 'delivery_id' ~ '^[0-9]{1,18}$' THEN (j.args ->> 'delivery_id')::bigint END AS delivery_id
    FROM river_job j
    WHERE j.state = @state::river_job_state AND (j.finalized_at, j.id) > (@at::timestamptz, @after::bigint) AND j.finalized_at <= now() - CASE WHEN j.state = 'completed' THEN interval '10 seconds' ELSE interval '0' END
    ORDER BY j.finalized_at, j.id LIMIT @page
)
SELECT count(*)::int AS scanned, coalesce(max(page.finalized_at), 'epoch')::timestamptz AS last_at,
    coalesce((array_agg(page.id ORDER BY page.finalized_at DESC, page.id DESC))[1], 0)::bigint AS last, now()::timestamptz AS now, (coalesce(array_agg(d.id) FILTER (WHERE d.id IS NOT NULL), '{}'))::bigint[] AS ids
FROM page LEFT JOIN delivery d ON d.id = page.delivery_id AND d.job_id = page.id AND d.settled_at IS NULL;

-- name: MendAtLedger :one
-- The ledger itself, whatever is in it: slow, and the last resort for what was done by hand.
WITH page AS MATERIALIZED (
    SELECT d.id, d.job_id, d.parked, d.blocked, d.attempts, d.settled_at FROM delivery d WHERE d.id > @after ORDER BY d.id LIMIT @page
),
owed AS MATERIALIZED (SELECT page.* FROM page WHERE page.settled_at IS NULL)
SELECT (SELECT count(*) FROM page)::int AS scanned, coalesce((SELECT max(page.id) FROM page), 0)::bigint AS last, ARRAY(
    SELECT owed.id FROM owed LEFT JOIN river_job j ON j.id = owed.job_id
    WHERE j.id IS NULL OR j.state IN ('completed', 'cancelled', 'discarded') OR (j.state = 'pending' AND NOT owed.parked AND NOT owed.blocked)
        OR j.args ->> 'delivery_id' IS DISTINCT FROM owed.id::text
        OR EXISTS (SELECT 1 FROM attempt a WHERE a.delivery_id = owed.id AND a.no > owed.attempts AND a.finished_at IS NOT NULL)
)::bigint[] AS ids;

-- name: MendAtParked :one
-- Deliveries behind the gate, along delivery_gate_idx.
WITH page AS MATERIALIZED (
    SELECT d.id, d.job_id, d.destination_id, d.priority, d.turn FROM delivery d
    WHERE d.parked AND (d.destination_id, d.priority, d.turn, d.id) > (@destination_id::bigint, @priority::smallint, @turn::bigint, @after::bigint)
    ORDER BY d.destination_id, d.priority, d.turn, d.id LIMIT @page
),
last AS (
    SELECT page.* FROM page ORDER BY page.destination_id DESC, page.priority DESC, page.turn DESC, page.id DESC LIMIT 1
)
SELECT (SELECT count(*) FROM page)::int AS scanned, coalesce((SELECT last.destination_id FROM last), 0)::bigint AS last_destination_id,
    coalesce((SELECT last.priority FROM last), 0)::smallint AS last_priority, coalesce((SELECT last.turn FROM last), 0)::bigint AS last_turn,
    coalesce((SELECT last.id FROM last), 0)::bigint AS last, ARRAY(
        SELECT page.id FROM page LEFT JOIN river_job j ON j.id = page.job_id WHERE j.id IS NULL OR j.state IN ('completed', 'cancelled', 'discarded')
    )::bigint[] AS ids;

-- name: MendAtPending :one
-- Jobs that River leaves alone, along the index it fetches by: each must have a delivery that waits with it. job_ids have none; the
-- deliveries of ids do not know that their job sleeps.
WITH page AS MATERIALIZED (
    SELECT j.id, j.queue, j.priority, j.scheduled_at,
        CASE WHEN j.kind = 'deliver' AND j.args ->> 'delivery_id' ~ '^[0-9]{1,18}$' THEN (j.args ->> 'delivery_id')::bigint END AS delivery_id, j.kind
    FROM river_job j
    WHERE j.state = 'pending' AND (j.queue, j.priority, j.scheduled_at, j.id) > (@queue::text, @priority::smallint, @scheduled_at::timestamptz, @after::bigint)
    ORDER BY j.queue, j.priority, j.scheduled_at, j.id LIMIT @page
),
last AS (
    SELECT page.* FROM page ORDER BY page.queue DESC, page.priority DESC, page.scheduled_at DESC, page.id DESC LIMIT 1
),
pair AS MATERIALIZED (
    SELECT page.id AS job_id, d.id, d.parked, d.blocked FROM page LEFT JOIN delivery d ON d.id = page.delivery_id AND d.job_id = page.id AND d.settled_at IS NULL
    WHERE page.kind = 'deliver'
)
SELECT (SELECT count(*) FROM page)::int AS scanned, coalesce((SELECT last.queue FROM last), '')::text AS last_queue,
    coalesce((SELECT last.priority FROM last), 0)::smallint AS last_priority,
    coalesce((SELECT last.scheduled_at FROM last), 'epoch')::timestamptz AS last_scheduled_at, coalesce((SELECT last.id FROM last), 0)::bigint AS last,
    ARRAY(SELECT pair.id FROM pair WHERE NOT pair.parked AND NOT pair.blocked)::bigint[] AS ids,
    ARRAY(SELECT pair.job_id FROM pair WHERE pair.id IS NULL)::bigint[] AS job_ids;

-- name: MendAtProcess :many
-- Deliveries whose job runs in a process that no longer beats, and which had not begun a request (the lease covers those that had).
SELECT d.id
FROM river_job j
JOIN delivery d ON d.id = CASE WHEN j.args ->> 'delivery_id' ~ '^[0-9]{1,18}$' THEN (j.args ->> 'delivery_id')::bigint END AND d.job_id = j.id
WHERE j.state = 'running' AND j.kind = 'deliver' AND j.attempted_at < now() - interval '5 seconds' AND d.settled_at IS NULL
    AND NOT EXISTS (
        SELECT 1 FROM process p
        WHERE p.id = j.attempted_by[array_upper(j.attempted_by, 1)] AND p.stopped_at IS NULL AND p.beat_at > now() - interval '15 seconds'
    )
    AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.delivery_id = d.id AND a.finished_at IS NULL)
ORDER BY d.id LIMIT @max;

-- name: MendCancelUnowned :many
-- What River's own cancel does, to jobs that wait for nobody.
UPDATE river_job SET state = 'cancelled', finalized_at = now()
WHERE river_job.id = ANY(@ids::bigint[]) AND river_job.state = 'pending' AND river_job.kind = 'deliver'
    AND NOT EXISTS (
        SELECT 1 FROM delivery d WHERE d.job_id = river_job.id AND d.settled_at IS NULL
            AND d.id = CASE WHEN river_job.args ->> 'delivery_id' ~ '^[0-9]{1,18}$' THEN (river_job.args ->> 'delivery_id')::bigint END
    )
RETURNING river_job.id, coalesce(CASE WHEN river_job.args ->> 'delivery_id' ~ '^[0-9]{1,18}$' THEN (river_job.args ->> 'delivery_id')::bigint END, 0)::bigint AS delivery_id;

-- name: MendCloseOrphan :many
-- Requests that no delivery is left to answer for, once their lease has run out.
UPDATE attempt SET finished_at = clock_timestamp(), verdict = 'retry', error_class = 'interrupted', reason = 'its delivery is gone from the ledger; outcome unknown'
FROM (
    SELECT o.delivery_id, o.no FROM attempt o
    WHERE o.finished_at IS NULL AND o.lease_until < now() AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.id = o.delivery_id)
    ORDER BY o.lease_until LIMIT @max
) x
WHERE attempt.delivery_id = x.delivery_id AND attempt.no = x.no
RETURNING attempt.delivery_id, attempt.lane_id;

-- name: MendCount :one
-- Counted up to a limit.
SELECT count(*)::int FROM (SELECT 1 FROM mend WHERE at > now() - interval '24 hours' LIMIT @max) x;

-- name: MendDeleteBefore :execrows
DELETE FROM mend WHERE id = ANY(ARRAY(SELECT m.id FROM mend m WHERE m.at < now() - interval '30 days' ORDER BY m.at LIMIT @max));

-- name: MendDeliver :exec
-- What was delivered and not written down as such.
UPDATE delivery SET state = 'delivered', settled_at = clock_timestamp(), parked = false, in_window = false, blocked = false, reason = '',
    attempts = greatest(delivery.attempts, m.last_no)
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@last_nos::int[]) AS last_no) m
WHERE delivery.id = m.id;

-- name: MendGiveJob :exec
-- A new job, which waits behind the gate, or still for its turn. The caller holds the locks and moves the lanes' counters.
UPDATE delivery SET job_id = m.job_id, try = delivery.try + 1, attempts = greatest(delivery.attempts, m.last_no), parked = NOT delivery.blocked, in_window = false
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@job_ids::bigint[]) AS job_id, unnest(@last_nos::int[]) AS last_no) m
WHERE delivery.id = m.id;

-- name: MendGoneDelete :exec
-- Forgets deleted jobs that nothing waits for any more.
DELETE FROM job_gone WHERE job_gone.job_id = ANY(@job_ids::bigint[])
    AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.id = job_gone.delivery_id AND d.job_id = job_gone.job_id AND d.settled_at IS NULL);

-- name: MendGoneList :many
SELECT job_id, delivery_id FROM job_gone ORDER BY at, job_id LIMIT @max;

-- name: MendInsertMany :exec
WITH m AS MATERIALIZED (
    SELECT unnest(@whats::text[]) AS what, unnest(@delivery_ids::bigint[]) AS delivery_id, unnest(@lane_ids::bigint[]) AS lane_id,
        unnest(@job_ids::bigint[]) AS job_id, unnest(@sentences::text[]) AS sentence
),
counted AS (
    INSERT INTO mend_total (what, total) SELECT m.what, count(*) FROM m GROUP BY m.what ORDER BY m.what
    ON CONFLICT (what) DO UPDATE SET total = mend_total.total + excluded.total RETURNING mend_total.what
)
INSERT INTO mend (what, delivery_id, lane_id, job_id, sentence)
SELECT m.what, nullif(m.delivery_id, 0), nullif(m.lane_id, 0), nullif(m.job_id, 0), m.sentence FROM m;

-- name: MendLaneAdd :exec
-- As LaneAdd, but where the counters themselves are wrong, they must not keep a mend from committing.
UPDATE lane SET
    open = CASE WHEN lane.limited THEN greatest(0, lane.open + a.open) ELSE lane.open END,
    parked = greatest(0, lane.parked + a.parked)
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@open::int[]) AS open, unnest(@parked::int[]) AS parked) a
WHERE lane.id = a.id;

-- name: MendLaneCount :many
-- The lanes whose counters differ from the rows that they stand for, all seen at one instant. What is in a window has a job that can run or
-- an open attempt: that is where it is looked for, since no index has it.
WITH mine AS MATERIALIZED (
    SELECT l.id, l.limited, l.open, l.in_flight, l.parked FROM lane l WHERE l.id = ANY(@ids::bigint[])
),
flying AS MATERIALIZED (
    SELECT a.delivery_id, a.lane_id FROM attempt a WHERE a.finished_at IS NULL
),
inside AS MATERIALIZED (
    SELECT DISTINCT x.delivery_id FROM (
        SELECT CASE WHEN j.args ->> 'delivery_id' ~ '^[0-9]{1,18}$' THEN (j.args ->> 'delivery_id')::bigint END AS delivery_id
        FROM river_job j WHERE j.state IN ('available', 'running', 'retryable', 'scheduled') AND j.queue IN ('deliver', 'deliver_slow')
        UNION ALL SELECT flying.delivery_id FROM flying
    ) x WHERE x.delivery_id IS NOT NULL
),
opened AS MATERIALIZED (
    SELECT d.lane_id, count(*)::int AS n FROM inside JOIN delivery d ON d.id = inside.delivery_id
    WHERE d.in_window AND d.lane_id = ANY(@ids::bigint[]) GROUP BY d.lane_id
),
truth AS (
    SELECT mine.id, mine.open AS was_open, mine.in_flight AS was_in_flight, mine.parked AS was_parked,
        CASE WHEN mine.limited THEN coalesce((SELECT opened.n FROM opened WHERE opened.lane_id = mine.id), 0) ELSE 0 END AS open,
        CASE WHEN mine.limited THEN (SELECT count(*) FROM flying WHERE flying.lane_id = mine.id) ELSE 0 END AS in_flight,
        (SELECT count(*) FROM destination t CROSS JOIN LATERAL (SELECT 1 FROM delivery d WHERE d.parked AND d.destination_id = t.id) p WHERE t.lane_id = mine.id) AS parked
    FROM mine
)
SELECT truth.id, truth.was_open::int AS was_open, truth.was_in_flight::int AS was_in_flight, truth.was_parked::int AS was_parked,
    truth.open::int AS open, truth.in_flight::int AS in_flight, truth.parked::int AS parked
FROM truth
WHERE truth.was_parked <> truth.parked OR truth.was_open <> truth.open OR truth.was_in_flight <> truth.in_flight
ORDER BY truth.id;

-- name: MendLaneSet :exec
-- The caller holds the locks and has counted under them.
UPDATE lane SET open = m.open, in_flight = m.in_flight, parked = m.parked
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@open::int[]) AS open, unnest(@in_flight::int[]) AS in_flight, unnest(@parked::int[]) AS parked) m
WHERE lane.id = m.id;

-- name: MendLaneSize :many
-- The next lanes to count, with how much there is to count.
SELECT id, parked FROM lane WHERE id > @after ORDER BY id LIMIT @max;

-- name: MendList :many
SELECT * FROM mend WHERE id < @before ORDER BY id DESC LIMIT @max;

-- name: MendListByDelivery :many
SELECT * FROM mend WHERE delivery_id = @delivery_id::bigint ORDER BY id DESC LIMIT @max;

-- name: MendListLaneID :many
SELECT DISTINCT lane_id FROM delivery WHERE id = ANY(@ids::bigint[]) ORDER BY lane_id;

-- name: MendLiveCount :one
-- How many jobs could run, counted up to a limit.
SELECT count(*)::int FROM (
    SELECT 1 FROM river_job j WHERE j.state IN ('available', 'running', 'retryable', 'scheduled') AND j.queue IN ('deliver', 'deliver_slow') LIMIT @max
) x;

-- name: MendLock :exec
SELECT id FROM delivery WHERE id = ANY(@ids::bigint[]) ORDER BY id FOR NO KEY UPDATE;

-- name: MendOwed :many
-- Which of these deliveries are owed and have no job that could move them, nor a request under way; and why. The caller holds their locks:
-- what is read here belongs together. An attempt with a number beyond the ledger's count was not written down in the delivery.
SELECT d.id, d.job_id, d.try, d.lane_id, d.priority, d.parked, d.in_window, d.blocked, coalesce(j.state::text, 'gone')::text AS job_state,
    coalesce(ahead.last_no, 0)::int AS last_no, coalesce(ahead.delivered, false)::bool AS delivered,
    (j.args ->> 'delivery_id' IS DISTINCT FROM d.id::text)::bool AS foreign_job
FROM delivery d
LEFT JOIN river_job j ON j.id = d.job_id
LEFT JOIN LATERAL (
    SELECT max(a.no) AS last_no, bool_or(a.verdict = 'delivered') AS delivered
    FROM attempt a WHERE a.delivery_id = d.id AND a.no > d.attempts AND a.finished_at IS NOT NULL
) ahead ON true
WHERE d.id = ANY(@ids::bigint[]) AND d.lane_id = ANY(@lane_ids::bigint[]) AND d.settled_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.delivery_id = d.id AND a.finished_at IS NULL)
    AND (j.id IS NULL OR j.state IN ('completed', 'cancelled', 'discarded') OR (j.state = 'pending' AND NOT d.parked AND NOT d.blocked)
        OR j.args ->> 'delivery_id' IS DISTINCT FROM d.id::text OR ahead.last_no IS NOT NULL
        OR (j.state = 'running' AND j.attempted_at < now() - interval '5 seconds' AND NOT EXISTS (
            SELECT 1 FROM process p
            WHERE p.id = j.attempted_by[array_upper(j.attempted_by, 1)] AND p.stopped_at IS NULL AND p.beat_at > now() - interval '15 seconds')))
ORDER BY d.id;

-- name: MendTotalList :many
SELECT * FROM mend_total ORDER BY what;
