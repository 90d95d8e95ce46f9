-- name: AttemptAdmit :many
-- Asks for permission to send: one row back per job, with a verdict. Those granted have an attempt row and a lease when this commits, a
-- place in flight, and a slot: the database time at which the request may leave.
--
-- Slots are GCRA in closed form by rank within the batch: slot(rank) = max(now, max(tat, now) + (rank-1)*T - tau). Every test is
-- monotone in rank, so those granted are a prefix, and one update of tat and in_flight per lane suffices. Deliveries that turn out
-- settled, expired or paused have no rank: they take no token. A slot within the lead is granted ahead of its time; a slow lane's lead is a
-- quarter of its period, up to 100 ms, so that a busy machine still asks in time. Runs after LaneLockByDelivery in the same transaction.
WITH t AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint AS now_us),
ask AS MATERIALIZED (
    -- Numbered by a window, not by generate_subscripts: for that the planner expects a thousand rows and then reads whole tables.
    SELECT u.delivery_id, u.job_id, u.slow, row_number() OVER () AS ord
    FROM (SELECT unnest(@delivery_ids::bigint[]) AS delivery_id, unnest(@job_ids::bigint[]) AS job_id, unnest(@slow::bool[]) AS slow) u
),
r AS MATERIALIZED (
    SELECT ask.delivery_id, ask.ord, t.now_us, d.event_id, d.destination_id, d.lane_id, d.attempts, d.failures, d.in_window, d.due_at, d.state, d.priority,
        d.replay_id, d.expires_at, dest.version AS destination_version, dest.timeout_ms, dest.ordering,
        lane.limited, lane.period_us, lane.margin_us, lane.tau_us, lane.tat_us, lane.held_us, lane.in_flight, lane.max_in_flight,
        open_attempt.lease_until,
        CASE
            WHEN d.id IS NULL THEN 'missing'
            WHEN d.settled_at IS NOT NULL THEN 'settled'
            WHEN d.job_id IS DISTINCT FROM ask.job_id THEN 'foreign'
            WHEN open_attempt.no IS NOT NULL THEN 'busy'
            WHEN dest.state = 'deleted' THEN 'deleted'
            WHEN d.expires_at <= to_timestamp(t.now_us / 1e6) THEN 'expired'
            WHEN dest.ordering = 'latest' AND d.replay_id IS NULL AND EXISTS (
                SELECT 1 FROM event mine
                JOIN event newer ON newer.subject = mine.subject AND newer.tenant = mine.tenant AND newer.version > mine.version
                JOIN delivery nd ON nd.event_id = newer.id AND nd.destination_id = d.destination_id AND nd.state <> 'cancelled'
                WHERE mine.id = d.event_id AND mine.subject <> ''
            ) THEN 'superseded'
            WHEN dest.state <> 'active' THEN 'paused'
            WHEN dest.ordering = 'serial' AND (d.blocked OR EXISTS (
                -- One of the same subject goes first, because it is older and not over, or because its request is under way.
                SELECT 1 FROM event mine
                JOIN event other ON other.subject = mine.subject AND other.tenant = mine.tenant AND other.id <> mine.id
                JOIN delivery od ON od.event_id = other.id AND od.destination_id = d.destination_id AND od.settled_at IS NULL
                WHERE mine.id = d.event_id AND mine.subject <> '' AND (
                    (coalesce(other.version, -1), other.id) < (coalesce(mine.version, -1), mine.id)
                    OR EXISTS (SELECT 1 FROM attempt oa WHERE oa.delivery_id = od.id AND oa.no = od.attempts + 1)
                )
            )) THEN 'behind'
            WHEN d.due_at > to_timestamp(t.now_us / 1e6) + interval '50 milliseconds' THEN 'early'
            WHEN lane.held_us > t.now_us THEN 'held'
            -- Its receiver turned slow while the job waited among the fast ones: back behind the gate, and through it into the other queue.
            WHEN lane.slow_since IS NOT NULL AND NOT ask.slow THEN 'slow'
            WHEN d.parked OR d.blocked THEN 'full'
            WHEN lane.limited AND NOT d.in_window AND (lane.parked > 0 OR lane.open - lane.in_flight >= lane.window_size) THEN 'full'
            ELSE 'ask'
        END AS verdict
    FROM ask CROSS JOIN t
    LEFT JOIN delivery d ON d.id = ask.delivery_id
    LEFT JOIN destination dest ON dest.id = d.destination_id
    LEFT JOIN lane ON lane.id = d.lane_id
    LEFT JOIN attempt open_attempt ON open_attempt.delivery_id = d.id AND open_attempt.no = d.attempts + 1
),
k AS (
    SELECT r.*, row_number() OVER (PARTITION BY r.lane_id ORDER BY r.priority, r.ord) AS rank FROM r WHERE r.verdict = 'ask'
),
s AS (
    SELECT k.*, CASE WHEN k.period_us = 0 THEN k.now_us
        ELSE greatest(k.now_us, greatest(k.tat_us, k.now_us) + (k.rank - 1) * k.period_us - k.tau_us) END AS slot_us
    FROM k
),
g AS MATERIALIZED (
    SELECT s.*, CASE
            WHEN s.max_in_flight IS NOT NULL AND s.rank > s.max_in_flight - s.in_flight THEN 'cap'
            WHEN s.slot_us > s.now_us + greatest(@lead_us::bigint, least(s.period_us / 4, 100000)) THEN 'rate'
            ELSE 'granted' END AS answer
    FROM s
),
opened AS (
    INSERT INTO attempt (delivery_id, no, lane_id, process, replay_id, started_at, lease_until)
    SELECT g.delivery_id, g.attempts + 1, g.lane_id, @process::text, g.replay_id, to_timestamp(g.slot_us / 1e6),
        to_timestamp(g.slot_us / 1e6) + g.timeout_ms * interval '1 millisecond' + interval '10 seconds'
    FROM g WHERE g.answer = 'granted'
    RETURNING attempt.delivery_id
),
entered AS (
    -- A retry whose job woke from its snooze comes back into the window here.
    UPDATE delivery SET in_window = true
    WHERE delivery.id = ANY(ARRAY(SELECT g.delivery_id FROM g WHERE g.answer = 'granted' AND NOT g.in_window)) RETURNING delivery.id
),
taken AS (
    UPDATE lane SET in_flight = lane.in_flight + n.granted, open = lane.open + n.entered,
        tat_us = CASE WHEN lane.period_us = 0 THEN lane.tat_us ELSE greatest(lane.tat_us, n.now_us) + n.granted * lane.period_us END
    FROM (
        SELECT g.lane_id, g.now_us, count(*)::int AS granted, (count(*) FILTER (WHERE NOT g.in_window))::int AS entered
        FROM g WHERE g.answer = 'granted' AND g.limited GROUP BY g.lane_id, g.now_us
    ) n
    WHERE lane.id = n.lane_id RETURNING lane.id
)
SELECT r.delivery_id::bigint AS delivery_id, coalesce(g.answer, r.verdict)::text AS verdict, r.now_us::bigint AS now_us,
    coalesce(CASE WHEN r.verdict = 'held' THEN r.held_us ELSE g.slot_us END, 0)::bigint AS slot_us,
    coalesce(r.period_us, 0)::bigint AS period_us, coalesce(r.margin_us, 0)::bigint AS margin_us,
    coalesce(greatest(g.tat_us, g.now_us) + g.rank * g.period_us, 0)::bigint AS tat_us, coalesce(g.max_in_flight - g.in_flight - g.rank, 0)::int AS places, coalesce(r.in_window, false)::bool AS in_window, coalesce(r.limited, false)::bool AS limited, coalesce(r.state, '')::text AS state, coalesce(r.priority, 2)::smallint AS priority,
    coalesce(r.ordering = 'serial', false)::bool AS serial,
    coalesce(r.attempts + 1, 0)::int AS no, coalesce(r.failures, 0)::int AS failures,
    coalesce(r.lane_id, 0)::bigint AS lane_id, coalesce(r.destination_id, 0)::bigint AS destination_id,
    coalesce(r.destination_version, 0)::bigint AS destination_version, coalesce(r.replay_id, 0)::bigint AS replay_id,
    coalesce(r.due_at, 'epoch')::timestamptz AS due_at, coalesce(r.expires_at, 'epoch')::timestamptz AS expires_at,
    coalesce(r.lease_until, 'epoch')::timestamptz AS lease_until,
    coalesce(e.event_id, '')::text AS event_id, coalesce(e.type, '')::text AS type, coalesce(e.subject, '')::text AS subject,
    e.version AS version, coalesce(e.occurred_at, 'epoch')::timestamptz AS occurred_at, e.payload AS payload
FROM r
LEFT JOIN g ON g.ord = r.ord
LEFT JOIN event e ON e.id = r.event_id AND g.answer = 'granted'
ORDER BY r.ord;

-- name: AttemptListByDelivery :many
SELECT * FROM attempt WHERE delivery_id = @delivery_id ORDER BY no DESC LIMIT @max;

-- name: AttemptListExpired :many
-- Attempts whose lease has ended: their process died, or lost the database for longer than a request can take.
SELECT a.delivery_id, a.no, d.job_id, d.try, d.priority, d.failures, d.destination_id, d.lane_id,
    (dest.state = 'deleted')::bool AS destination_deleted, cardinality(dest.retry_schedule_ms)::int AS retries
FROM attempt a
JOIN delivery d ON d.id = a.delivery_id
JOIN destination dest ON dest.id = d.destination_id
WHERE a.finished_at IS NULL AND a.lease_until < statement_timestamp()
ORDER BY a.lease_until LIMIT @max;

-- name: AttemptSettle :many
-- Closes attempts and moves their deliveries on, and moves deliveries on that made no attempt (no = 0: parked, expired, cancelled).
-- The close is the fence: an attempt that somebody else has closed changes nothing further, and its job is not returned. A
-- delivery that was cancelled meanwhile keeps that state; its attempt is still closed and its place in flight freed. With a successor
-- the delivery is parked behind the gate with that (pending) job. Runs after LaneLockByDelivery in the same transaction.
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS at),
s AS MATERIALIZED (
    SELECT unnest(@delivery_ids::bigint[]) AS delivery_id, unnest(@job_ids::bigint[]) AS job_id, unnest(@nos::int[]) AS no,
        unnest(@verdicts::text[]) AS verdict, unnest(@statuses::int[]) AS status, unnest(@error_classes::text[]) AS error_class,
        unnest(@attempt_reasons::text[]) AS attempt_reason, unnest(@took_us::bigint[]) AS took_us, unnest(@retry_afters::text[]) AS retry_after,
        unnest(@excerpts::bytea[]) AS excerpt, unnest(@truncated::bool[]) AS truncated,
        unnest(@states::text[]) AS state, unnest(@charges::int[]) AS charge, unnest(@delays_us::bigint[]) AS delay_us,
        unnest(@reasons::text[]) AS reason, unnest(@successors::bigint[]) AS successor, unnest(@holds_us::bigint[]) AS hold_us,
        unnest(@blocked::bool[]) AS blocked, unnest(@turns::bigint[]) AS turn, unnest(@dns_us::int[]) AS dns_us,
        unnest(@connect_us::int[]) AS connect_us, unnest(@tls_us::int[]) AS tls_us, unnest(@first_byte_us::int[]) AS first_byte_us,
        unnest(@response_headers::text[]) AS response_headers
),
closed AS (
    UPDATE attempt SET finished_at = t.at, verdict = s.verdict, status = nullif(s.status, 0), error_class = s.error_class,
        reason = s.attempt_reason, took_us = s.took_us, retry_after = s.retry_after, excerpt = s.excerpt, truncated = s.truncated,
        dns_us = nullif(s.dns_us, 0), connect_us = nullif(s.connect_us, 0), tls_us = nullif(s.tls_us, 0), first_byte_us = nullif(s.first_byte_us, 0),
        response_headers = nullif(s.response_headers, '')::jsonb
    FROM s CROSS JOIN t
    -- Not "finished_at IS NULL": the planner would go through the index of all open leases for each row, instead of the key.
    WHERE s.no > 0 AND attempt.delivery_id = s.delivery_id AND attempt.no = s.no AND coalesce(attempt.finished_at, 'infinity') = 'infinity'
    RETURNING attempt.delivery_id, attempt.lane_id
),
f AS MATERIALIZED (
    SELECT s.*, d.lane_id, d.in_window AS was_in_window, d.parked AS was_parked, s.successor > 0 AND NOT s.blocked AS parks
    FROM s JOIN delivery d ON d.id = s.delivery_id
    WHERE d.settled_at IS NULL AND d.job_id = s.job_id
        AND (s.no = 0 OR EXISTS (SELECT 1 FROM closed WHERE closed.delivery_id = s.delivery_id))
),
moved AS (
    UPDATE delivery SET
        state = f.state,
        attempts = delivery.attempts + (f.no > 0)::int,
        failures = delivery.failures + f.charge,
        in_window = false,
        parked = f.parks,
        blocked = f.blocked AND f.successor > 0,
        -- A place in the line is given once per try: what comes back behind the gate unsent keeps its own.
        turn = CASE WHEN f.turn > 0 THEN f.turn WHEN f.no > 0 THEN 0 ELSE delivery.turn END,
        job_id = CASE WHEN f.successor > 0 THEN f.successor ELSE delivery.job_id END,
        try = delivery.try + (f.successor > 0)::int,
        due_at = CASE WHEN f.no > 0 OR f.delay_us > 0 THEN least(t.at + f.delay_us * interval '1 microsecond', delivery.expires_at) ELSE delivery.due_at END,
        last_status = CASE WHEN f.no > 0 THEN nullif(f.status, 0) ELSE delivery.last_status END,
        last_error_class = CASE WHEN f.no > 0 THEN f.error_class ELSE delivery.last_error_class END,
        reason = f.reason,
        settled_at = CASE WHEN f.state IN ('pending', 'retrying') THEN NULL ELSE t.at END
    FROM f CROSS JOIN t
    WHERE delivery.id = f.delivery_id
    RETURNING delivery.id
),
counts AS (
    SELECT x.lane_id, sum(x.closed)::int AS closed, sum(x.left_window)::int AS left_window, sum(x.parked)::int AS parked, max(x.hold_us) AS hold_us
    FROM (
        SELECT closed.lane_id, 1 AS closed, 0 AS left_window, 0 AS parked, 0::bigint AS hold_us FROM closed
        UNION ALL
        SELECT f.lane_id, 0, f.was_in_window::int, f.parks::int - f.was_parked::int, f.hold_us FROM f
    ) x GROUP BY x.lane_id
),
accounted AS (
    UPDATE lane SET
        in_flight = CASE WHEN lane.limited THEN greatest(0, lane.in_flight - c.closed) ELSE 0 END,
        open = CASE WHEN lane.limited THEN greatest(0, lane.open - c.left_window) ELSE 0 END,
        parked = greatest(0, lane.parked + c.parked),
        held_us = CASE WHEN c.hold_us > 0 THEN greatest(lane.held_us, (extract(epoch FROM t.at) * 1e6)::bigint + c.hold_us) ELSE lane.held_us END,
        held_reason = CASE WHEN c.hold_us > 0 THEN 'the receiver asked to wait (429 or 503)' ELSE lane.held_reason END,
        -- After a hold the rate ramps: the first request leaves when it ends, and the burst builds up from there.
        tat_us = CASE WHEN c.hold_us > 0 AND lane.period_us > 0
            THEN greatest(lane.tat_us, (extract(epoch FROM t.at) * 1e6)::bigint + c.hold_us + lane.tau_us) ELSE lane.tat_us END
    FROM counts c CROSS JOIN t
    WHERE lane.id = c.lane_id AND (lane.limited OR c.parked <> 0 OR c.hold_us > 0)
    RETURNING lane.id
)
SELECT f.job_id::bigint AS job_id FROM f;
