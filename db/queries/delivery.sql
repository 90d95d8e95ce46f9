-- name: DeliveryBlock :many
-- For destinations that want one subject's versions one after another: of these new deliveries, those with an older one that has not ended
-- wait outside the gate until it has. The caller holds the lanes' locks. Returns what counters and jobs must follow.
WITH late AS MATERIALIZED (
    SELECT d.id, d.job_id, d.lane_id, d.parked, d.in_window FROM delivery d
    JOIN event mine ON mine.id = d.event_id
    WHERE d.id = ANY(@ids::bigint[]) AND EXISTS (
        SELECT 1 FROM event other
        JOIN delivery od ON od.event_id = other.id AND od.destination_id = d.destination_id AND od.settled_at IS NULL
        WHERE other.subject = mine.subject AND other.tenant = mine.tenant AND other.id <> mine.id
            AND (coalesce(other.version, -1), other.id) < (coalesce(mine.version, -1), mine.id)
    )
)
UPDATE delivery SET blocked = true, parked = false, in_window = false
FROM late WHERE delivery.id = late.id
RETURNING late.job_id, late.lane_id, late.parked, late.in_window;

-- name: DeliveryCancelByDestination :many
-- What a deleted destination is still owed ends as cancelled, but for what is in flight, which ends by itself. One page by id: the caller
-- goes on after the last id until nothing comes back, and holds the lane's lock. Returns what counters and jobs must follow.
WITH c AS MATERIALIZED (
    SELECT d.id, d.job_id, d.parked, d.in_window FROM delivery d
    WHERE d.destination_id = @destination_id AND d.id > @after AND d.settled_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.delivery_id = d.id AND a.finished_at IS NULL)
    ORDER BY d.id LIMIT @max
)
UPDATE delivery SET state = 'cancelled', reason = @reason, settled_at = clock_timestamp(), parked = false, in_window = false, blocked = false
FROM c WHERE delivery.id = c.id
RETURNING delivery.id, c.job_id, c.parked, c.in_window;

-- name: DeliveryCountAhead :one
-- How many wait before this one behind the gate; counted up to the limit.
SELECT count(*)::int FROM (
    SELECT 1 FROM delivery WHERE parked AND destination_id = @destination_id AND (priority, turn, id) < (@priority::smallint, @turn::bigint, @id::bigint) LIMIT @max
) x;

-- name: DeliveryExpireParked :many
-- Those that wait behind the gate and are past their time. Returns what the lanes' counters and River's jobs must follow.
UPDATE delivery SET state = 'expired', reason = 'expired while waiting for its turn', settled_at = clock_timestamp(), parked = false
WHERE delivery.id = ANY(ARRAY(
    SELECT d.id FROM delivery d WHERE d.parked AND d.expires_at <= statement_timestamp() AND d.lane_id = ANY(@lane_ids::bigint[])
    ORDER BY d.expires_at LIMIT @max
))
RETURNING delivery.destination_id, delivery.lane_id, delivery.job_id;

-- name: DeliveryInsertMany :exec
INSERT INTO delivery (id, event_id, destination_id, lane_id, job_id, parked, in_window, expires_at, priority, turn)
SELECT unnest(@ids::bigint[]), unnest(@event_ids::bigint[]), unnest(@destination_ids::bigint[]), unnest(@lane_ids::bigint[]),
    unnest(@job_ids::bigint[]), unnest(@parked::bool[]), unnest(@in_window::bool[]), unnest(@expires_at::timestamptz[]),
    unnest(@priorities::smallint[]), unnest(@turns::bigint[]);

-- name: DeliveryListLaneIDExpired :many
SELECT DISTINCT x.lane_id FROM (
    SELECT d.lane_id FROM delivery d WHERE d.parked AND d.expires_at <= statement_timestamp() ORDER BY d.expires_at LIMIT @max
) x ORDER BY x.lane_id;

-- name: DeliveryMatch :many
-- Which destinations each event is owed to, from where its fan-out stands. Paused and disabled destinations are owed theirs, too:
-- nothing is dropped, it waits. One that drains is owed what came before it began to, and test events. Patterns: exact, '*', and 'shipment.*' for everything below.
SELECT e.id AS event_id, d.id AS destination_id, d.lane_id, (d.state = 'active')::bool AS active, (d.ordering = 'latest')::bool AS latest,
    (d.ordering = 'serial' AND e.subject <> '')::bool AS serial, e.tenant,
    coalesce(e.expires_at, e.created_at + d.ttl_s * interval '1 second')::timestamptz AS expires_at, e.priority
FROM event e
JOIN destination d ON d.deleted_at IS NULL AND d.id > coalesce(e.fanout_after, 0)
WHERE e.id = ANY(@event_ids::bigint[])
    AND CASE WHEN e.only_destination_id IS NOT NULL THEN d.id = e.only_destination_id
        ELSE (d.draining_since IS NULL OR e.created_at < d.draining_since) AND (d.tenant IS NULL OR d.tenant = e.tenant) AND EXISTS (
            SELECT 1 FROM subscription s
            WHERE s.destination_id = d.id AND (s.tenant IS NULL OR s.tenant = e.tenant)
                AND ('*' = ANY(s.types) OR e.type = ANY(s.types)
                    OR EXISTS (SELECT 1 FROM unnest(s.types) AS p(pattern) WHERE right(p.pattern, 2) = '.*' AND starts_with(e.type, left(p.pattern, -1))))
        ) END
ORDER BY e.id, d.id LIMIT @max;

-- name: DeliveryNextID :one
SELECT nextval('delivery_id_seq')::bigint;

-- name: DeliveryRelease :many
-- Lets through to the gate whatever waits for nothing any more: of the subjects of these deliveries (which have just changed), the oldest one
-- that has not ended, unless a request of that subject is under way. The caller holds the lanes' locks. One row per delivery released.
WITH subject AS MATERIALIZED (
    SELECT DISTINCT d.destination_id, e.tenant, e.subject FROM delivery d JOIN event e ON e.id = d.event_id
    WHERE d.id = ANY(@ids::bigint[]) AND e.subject <> ''
),
first AS MATERIALIZED (
    SELECT x.id, x.blocked FROM subject s CROSS JOIN LATERAL (
        SELECT d.id, d.blocked FROM event e
        JOIN delivery d ON d.event_id = e.id AND d.destination_id = s.destination_id AND d.settled_at IS NULL
        WHERE e.subject = s.subject AND e.tenant = s.tenant
        ORDER BY coalesce(e.version, -1), e.id LIMIT 1
    ) x
    WHERE x.blocked AND NOT EXISTS (
        SELECT 1 FROM event e
        JOIN delivery d ON d.event_id = e.id AND d.destination_id = s.destination_id AND d.settled_at IS NULL
        JOIN attempt a ON a.delivery_id = d.id AND a.no = d.attempts + 1
        WHERE e.subject = s.subject AND e.tenant = s.tenant
    )
),
released AS (
    UPDATE delivery SET blocked = false, parked = true
    WHERE delivery.id = ANY(ARRAY(SELECT first.id FROM first)) AND delivery.blocked RETURNING delivery.id, delivery.lane_id
),
counted AS (
    UPDATE lane SET parked = lane.parked + n.n
    FROM (SELECT released.lane_id, count(*)::int AS n FROM released GROUP BY released.lane_id) n
    WHERE lane.id = n.lane_id RETURNING lane.id
)
SELECT released.id FROM released JOIN counted ON counted.id = released.lane_id;

-- name: DeliveryListBlocked :many
-- A page of those that wait for an older one, by id, with what is needed to see whether they still have to.
SELECT d.id, d.lane_id FROM delivery d WHERE d.blocked AND d.id > @after ORDER BY d.id LIMIT @max;

-- name: DeliveryUnblock :many
-- Of these, those that nothing orders any more (their destination's ordering was changed) or whose time is over go to the gate, where they
-- are sent or expire. The caller holds the lanes' locks.
WITH free AS MATERIALIZED (
    UPDATE delivery SET blocked = false, parked = true FROM destination t
    WHERE delivery.id = ANY(@ids::bigint[]) AND delivery.blocked AND t.id = delivery.destination_id
        AND (t.ordering <> 'serial' OR delivery.expires_at <= statement_timestamp())
    RETURNING delivery.id, delivery.lane_id
),
counted AS (
    UPDATE lane SET parked = lane.parked + n.n
    FROM (SELECT free.lane_id, count(*)::int AS n FROM free GROUP BY free.lane_id) n
    WHERE lane.id = n.lane_id RETURNING lane.id
)
SELECT free.id FROM free JOIN counted ON counted.id = free.lane_id;

-- name: DeliveryListTenant :many
-- Whose flow each belongs to, and whether it has a turn yet.
SELECT d.id, e.tenant, (d.turn = 0)::bool AS unplaced FROM delivery d JOIN event e ON e.id = d.event_id WHERE d.id = ANY(@ids::bigint[]);

-- name: DeliveryReopen :exec
-- A replay: owed again with a fresh budget and a fresh time to live, under the same event id. The attempts so far stay.
UPDATE delivery SET
    state = 'pending', parked = true, in_window = false, job_id = r.job_id, try = delivery.try + 1, failures = 0, due_at = clock_timestamp(),
    expires_at = clock_timestamp() + destination.ttl_s * interval '1 second', replay_id = @replay_id, reason = '', settled_at = NULL, turn = r.turn
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@job_ids::bigint[]) AS job_id, unnest(@turns::bigint[]) AS turn) r, destination
WHERE delivery.id = r.id AND destination.id = delivery.destination_id;

-- name: DeliveryReplayCandidates :many
-- What a selection means, one row per delivery, locked so that two replays cannot both reopen it.
SELECT d.id, d.destination_id, d.lane_id, d.try, d.priority, d.state, d.reason, d.due_at, e.event_id, e.type, length(e.payload)::int AS bytes,
    dest.name AS destination_name, dest.state AS destination_state
FROM delivery d
JOIN event e ON e.id = d.event_id
JOIN destination dest ON dest.id = d.destination_id
WHERE e.event_id = @event_id::text AND (sqlc.narg('destination_id')::bigint IS NULL OR d.destination_id = sqlc.narg('destination_id')::bigint)
ORDER BY d.id LIMIT @max
FOR NO KEY UPDATE OF d;

-- name: DeliverySupersede :many
-- For destinations that want only the latest: of the subjects that these new deliveries are about, every version that is not the newest
-- and still waits ends as superseded. What is in flight ends by itself, what an operator replayed is left alone. The caller holds the
-- lanes' locks. Returns what counters and jobs must follow.
WITH subject AS MATERIALIZED (
    SELECT DISTINCT d.destination_id, e.tenant, e.subject
    FROM delivery d
    JOIN destination t ON t.id = d.destination_id AND t.ordering = 'latest'
    JOIN event e ON e.id = d.event_id
    WHERE d.id = ANY(@ids::bigint[]) AND e.subject <> '' AND e.version IS NOT NULL
),
known AS MATERIALIZED (
    SELECT d.id, d.job_id, d.lane_id, d.parked, d.in_window, d.settled_at, d.replay_id, e.version,
        max(e.version) OVER (PARTITION BY d.destination_id, e.tenant, e.subject) AS newest
    FROM subject s
    JOIN event e ON e.subject = s.subject AND e.tenant = s.tenant AND e.version IS NOT NULL
    JOIN delivery d ON d.event_id = e.id AND d.destination_id = s.destination_id AND d.state <> 'cancelled'
)
UPDATE delivery SET state = 'superseded', reason = 'version ' || known.newest || ' came while version ' || known.version || ' waited',
    settled_at = clock_timestamp(), parked = false, in_window = false, blocked = false
FROM known
WHERE delivery.id = known.id AND known.version < known.newest AND known.settled_at IS NULL AND known.replay_id IS NULL
    AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.delivery_id = known.id AND a.no = delivery.attempts + 1)
RETURNING delivery.destination_id, known.job_id, known.lane_id, known.parked, known.in_window;
