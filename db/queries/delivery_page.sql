-- Pages of the ledger, for readers; none of it is on the way of a delivery. Each walks along one index, newest first: it reads a stretch
-- of bounded length and returns what matches in it, where the stretch ended and when that was, so a filter that nothing matches costs a
-- bounded time, and the reader goes on from there. What comes before the filter is materialized: else the planner may choose another walk.

-- name: DeliveryListView :many
-- Deliveries with what says where they stand: destination, lane and the open attempt. For one page of ids.
SELECT d.id, d.destination_id, d.lane_id, d.state, d.parked, d.blocked, d.priority, d.turn, d.attempts, d.due_at, d.expires_at, d.replay_id, d.last_status, d.last_error_class,
    d.reason, d.created_at, d.settled_at, e.event_id AS event_key, e.type, e.subject, e.tenant, length(e.payload)::int AS bytes,
    dest.name AS destination_name, dest.state AS destination_state, dest.state_reason AS destination_reason,
    lane.rate, lane.max_in_flight, lane.held_us, lane.in_flight AS lane_in_flight, lane.parked AS lane_parked,
    a.started_at AS request_started_at, a.lease_until AS request_lease_until
FROM delivery d
JOIN event e ON e.id = d.event_id
JOIN destination dest ON dest.id = d.destination_id
JOIN lane ON lane.id = d.lane_id
LEFT JOIN attempt a ON a.delivery_id = d.id AND a.no = d.attempts + 1 AND a.finished_at IS NULL
WHERE d.id = ANY(@ids::bigint[]) ORDER BY d.id DESC;

-- name: DeliveryPage :one
-- Along the primary key.
WITH scan AS MATERIALIZED (
    SELECT d.id, d.event_id, d.destination_id, d.lane_id, d.state, d.last_status, d.last_error_class, d.created_at FROM delivery d
    WHERE d.id < @before ORDER BY d.id DESC LIMIT @stretch
),
hit AS MATERIALIZED (
    SELECT scan.id, scan.event_id, scan.destination_id FROM scan
    WHERE (sqlc.narg('state')::text IS NULL OR scan.state = sqlc.narg('state'))
        AND (sqlc.narg('destination_id')::bigint IS NULL OR scan.destination_id = sqlc.narg('destination_id'))
        AND (sqlc.narg('lane_id')::bigint IS NULL OR scan.lane_id = sqlc.narg('lane_id'))
        AND scan.event_id >= @low_event::bigint AND scan.event_id <= @high_event::bigint
        AND (@status_low::int = 0 OR coalesce(scan.last_status, -1) BETWEEN @status_low AND @status_high::int)
        AND (sqlc.narg('error_class')::text IS NULL OR scan.last_error_class = sqlc.narg('error_class'))
        AND ((sqlc.narg('type')::text IS NULL AND sqlc.narg('tenant')::text IS NULL) OR EXISTS (
            SELECT 1 FROM event e WHERE e.id = scan.event_id
                AND (sqlc.narg('type') IS NULL OR e.type = sqlc.narg('type')
                    OR (right(sqlc.narg('type'), 2) = '.*' AND starts_with(e.type, left(sqlc.narg('type'), -1))))
                AND (sqlc.narg('tenant') IS NULL OR e.tenant = sqlc.narg('tenant'))))
    ORDER BY scan.id DESC LIMIT @max
),
stop AS (SELECT scan.id, scan.created_at FROM scan ORDER BY scan.id LIMIT 1)
SELECT (SELECT count(*) FROM scan)::int AS scanned,
    coalesce((SELECT stop.id FROM stop), 0)::bigint AS floor, 0::bigint AS floor_destination,
    coalesce((SELECT stop.created_at FROM stop), 'epoch')::timestamptz AS floor_at,
    ARRAY(SELECT hit.id FROM hit ORDER BY hit.id DESC)::bigint[] AS ids,
    ARRAY(SELECT hit.event_id FROM hit ORDER BY hit.id DESC)::bigint[] AS event_ids,
    ARRAY(SELECT hit.destination_id FROM hit ORDER BY hit.id DESC)::bigint[] AS destination_ids;

-- name: DeliveryPageByAttention :one
-- Along delivery_attention_idx: whatever is neither waiting for its first request nor delivered.
WITH scan AS MATERIALIZED (
    SELECT d.id, d.event_id, d.destination_id, d.lane_id, d.state, d.last_status, d.last_error_class, d.created_at FROM delivery d
    WHERE d.attention = @attention::text AND d.id < @before ORDER BY d.id DESC LIMIT @stretch
),
hit AS MATERIALIZED (
    SELECT scan.id, scan.event_id, scan.destination_id FROM scan
    WHERE (sqlc.narg('state')::text IS NULL OR scan.state = sqlc.narg('state'))
        AND (sqlc.narg('destination_id')::bigint IS NULL OR scan.destination_id = sqlc.narg('destination_id'))
        AND (sqlc.narg('lane_id')::bigint IS NULL OR scan.lane_id = sqlc.narg('lane_id'))
        AND scan.event_id >= @low_event::bigint AND scan.event_id <= @high_event::bigint
        AND (@status_low::int = 0 OR coalesce(scan.last_status, -1) BETWEEN @status_low AND @status_high::int)
        AND (sqlc.narg('error_class')::text IS NULL OR scan.last_error_class = sqlc.narg('error_class'))
        AND ((sqlc.narg('type')::text IS NULL AND sqlc.narg('tenant')::text IS NULL) OR EXISTS (
            SELECT 1 FROM event e WHERE e.id = scan.event_id
                AND (sqlc.narg('type') IS NULL OR e.type = sqlc.narg('type')
                    OR (right(sqlc.narg('type'), 2) = '.*' AND starts_with(e.type, left(sqlc.narg('type'), -1))))
                AND (sqlc.narg('tenant') IS NULL OR e.tenant = sqlc.narg('tenant'))))
    ORDER BY scan.id DESC LIMIT @max
),
stop AS (SELECT scan.id, scan.created_at FROM scan ORDER BY scan.id LIMIT 1)
SELECT (SELECT count(*) FROM scan)::int AS scanned,
    coalesce((SELECT stop.id FROM stop), 0)::bigint AS floor, 0::bigint AS floor_destination,
    coalesce((SELECT stop.created_at FROM stop), 'epoch')::timestamptz AS floor_at,
    ARRAY(SELECT hit.id FROM hit ORDER BY hit.id DESC)::bigint[] AS ids,
    ARRAY(SELECT hit.event_id FROM hit ORDER BY hit.id DESC)::bigint[] AS event_ids,
    ARRAY(SELECT hit.destination_id FROM hit ORDER BY hit.id DESC)::bigint[] AS destination_ids;

-- name: DeliveryPageByDestination :one
-- Along delivery_destination_idx.
WITH scan AS MATERIALIZED (
    SELECT d.id, d.event_id, d.destination_id, d.lane_id, d.state, d.last_status, d.last_error_class, d.created_at FROM delivery d
    WHERE d.destination_id = @of_destination AND d.id < @before ORDER BY d.id DESC LIMIT @stretch
),
hit AS MATERIALIZED (
    SELECT scan.id, scan.event_id, scan.destination_id FROM scan
    WHERE (sqlc.narg('state')::text IS NULL OR scan.state = sqlc.narg('state'))
        AND (sqlc.narg('destination_id')::bigint IS NULL OR scan.destination_id = sqlc.narg('destination_id'))
        AND (sqlc.narg('lane_id')::bigint IS NULL OR scan.lane_id = sqlc.narg('lane_id'))
        AND scan.event_id >= @low_event::bigint AND scan.event_id <= @high_event::bigint
        AND (@status_low::int = 0 OR coalesce(scan.last_status, -1) BETWEEN @status_low AND @status_high::int)
        AND (sqlc.narg('error_class')::text IS NULL OR scan.last_error_class = sqlc.narg('error_class'))
        AND ((sqlc.narg('type')::text IS NULL AND sqlc.narg('tenant')::text IS NULL) OR EXISTS (
            SELECT 1 FROM event e WHERE e.id = scan.event_id
                AND (sqlc.narg('type') IS NULL OR e.type = sqlc.narg('type')
                    OR (right(sqlc.narg('type'), 2) = '.*' AND starts_with(e.type, left(sqlc.narg('type'), -1))))
                AND (sqlc.narg('tenant') IS NULL OR e.tenant = sqlc.narg('tenant'))))
    ORDER BY scan.id DESC LIMIT @max
),
stop AS (SELECT scan.id, scan.created_at FROM scan ORDER BY scan.id LIMIT 1)
SELECT (SELECT count(*) FROM scan)::int AS scanned,
    coalesce((SELECT stop.id FROM stop), 0)::bigint AS floor, 0::bigint AS floor_destination,
    coalesce((SELECT stop.created_at FROM stop), 'epoch')::timestamptz AS floor_at,
    ARRAY(SELECT hit.id FROM hit ORDER BY hit.id DESC)::bigint[] AS ids,
    ARRAY(SELECT hit.event_id FROM hit ORDER BY hit.id DESC)::bigint[] AS event_ids,
    ARRAY(SELECT hit.destination_id FROM hit ORDER BY hit.id DESC)::bigint[] AS destination_ids;

-- name: DeliveryPageByEventRange :one
-- Along the unique key (event, destination), from an event back to another: of one event, or of a time.
WITH scan AS MATERIALIZED (
    SELECT d.id, d.event_id, d.destination_id, d.lane_id, d.state, d.last_status, d.last_error_class, d.created_at FROM delivery d
    WHERE d.event_id >= @low_event::bigint AND (d.event_id, d.destination_id) < (@before::bigint, @before_destination::bigint)
    ORDER BY d.event_id DESC, d.destination_id DESC LIMIT @stretch
),
hit AS MATERIALIZED (
    SELECT scan.id, scan.event_id, scan.destination_id FROM scan
    WHERE (sqlc.narg('state')::text IS NULL OR scan.state = sqlc.narg('state'))
        AND (sqlc.narg('destination_id')::bigint IS NULL OR scan.destination_id = sqlc.narg('destination_id'))
        AND (sqlc.narg('lane_id')::bigint IS NULL OR scan.lane_id = sqlc.narg('lane_id'))
        AND scan.event_id >= @low_event::bigint AND scan.event_id <= @high_event::bigint
        AND (@status_low::int = 0 OR coalesce(scan.last_status, -1) BETWEEN @status_low AND @status_high::int)
        AND (sqlc.narg('error_class')::text IS NULL OR scan.last_error_class = sqlc.narg('error_class'))
        AND ((sqlc.narg('type')::text IS NULL AND sqlc.narg('tenant')::text IS NULL) OR EXISTS (
            SELECT 1 FROM event e WHERE e.id = scan.event_id
                AND (sqlc.narg('type') IS NULL OR e.type = sqlc.narg('type')
                    OR (right(sqlc.narg('type'), 2) = '.*' AND starts_with(e.type, left(sqlc.narg('type'), -1))))
                AND (sqlc.narg('tenant') IS NULL OR e.tenant = sqlc.narg('tenant'))))
    ORDER BY scan.event_id DESC, scan.destination_id DESC LIMIT @max
),
stop AS (SELECT scan.event_id AS id, scan.destination_id, scan.created_at FROM scan ORDER BY scan.event_id, scan.destination_id LIMIT 1)
SELECT (SELECT count(*) FROM scan)::int AS scanned,
    coalesce((SELECT stop.id FROM stop), 0)::bigint AS floor, coalesce((SELECT stop.destination_id FROM stop), 0)::bigint AS floor_destination,
    coalesce((SELECT stop.created_at FROM stop), 'epoch')::timestamptz AS floor_at,
    ARRAY(SELECT hit.id FROM hit ORDER BY hit.event_id DESC, hit.destination_id DESC)::bigint[] AS ids,
    ARRAY(SELECT hit.event_id FROM hit ORDER BY hit.event_id DESC, hit.destination_id DESC)::bigint[] AS event_ids,
    ARRAY(SELECT hit.destination_id FROM hit ORDER BY hit.event_id DESC, hit.destination_id DESC)::bigint[] AS destination_ids;

-- name: DeliveryPageBySubject :one
-- Along event_subject_idx, a stretch of events with all their deliveries.
WITH own AS MATERIALIZED (
    SELECT e.id, e.created_at FROM event e
    WHERE e.subject = @subject AND e.subject <> '' AND e.id >= @low_event::bigint AND e.id <= @before::bigint ORDER BY e.id DESC LIMIT @stretch
),
scan AS MATERIALIZED (
    SELECT d.id, d.event_id, d.destination_id, d.lane_id, d.state, d.last_status, d.last_error_class, d.created_at FROM own JOIN delivery d ON d.event_id = own.id
    WHERE (d.event_id, d.destination_id) < (@before::bigint, @before_destination::bigint)
),
hit AS MATERIALIZED (
    SELECT scan.id, scan.event_id, scan.destination_id FROM scan
    WHERE (sqlc.narg('state')::text IS NULL OR scan.state = sqlc.narg('state'))
        AND (sqlc.narg('destination_id')::bigint IS NULL OR scan.destination_id = sqlc.narg('destination_id'))
        AND (sqlc.narg('lane_id')::bigint IS NULL OR scan.lane_id = sqlc.narg('lane_id'))
        AND scan.event_id >= @low_event::bigint AND scan.event_id <= @high_event::bigint
        AND (@status_low::int = 0 OR coalesce(scan.last_status, -1) BETWEEN @status_low AND @status_high::int)
        AND (sqlc.narg('error_class')::text IS NULL OR scan.last_error_class = sqlc.narg('error_class'))
        AND ((sqlc.narg('type')::text IS NULL AND sqlc.narg('tenant')::text IS NULL) OR EXISTS (
            SELECT 1 FROM event e WHERE e.id = scan.event_id
                AND (sqlc.narg('type') IS NULL OR e.type = sqlc.narg('type')
                    OR (right(sqlc.narg('type'), 2) = '.*' AND starts_with(e.type, left(sqlc.narg('type'), -1))))
                AND (sqlc.narg('tenant') IS NULL OR e.tenant = sqlc.narg('tenant'))))
    ORDER BY scan.event_id DESC, scan.destination_id DESC LIMIT @max
),
stop AS (SELECT own.id, 0::bigint AS destination_id, own.created_at FROM own ORDER BY own.id LIMIT 1)
SELECT (SELECT count(*) FROM own)::int AS scanned,
    coalesce((SELECT stop.id FROM stop), 0)::bigint AS floor, coalesce((SELECT stop.destination_id FROM stop), 0)::bigint AS floor_destination,
    coalesce((SELECT stop.created_at FROM stop), 'epoch')::timestamptz AS floor_at,
    ARRAY(SELECT hit.id FROM hit ORDER BY hit.event_id DESC, hit.destination_id DESC)::bigint[] AS ids,
    ARRAY(SELECT hit.event_id FROM hit ORDER BY hit.event_id DESC, hit.destination_id DESC)::bigint[] AS event_ids,
    ARRAY(SELECT hit.destination_id FROM hit ORDER BY hit.event_id DESC, hit.destination_id DESC)::bigint[] AS destination_ids;

-- name: DeliveryEstimate :one
-- How many deliveries there are, as far as the statistics know; nothing is counted.
SELECT greatest(c.reltuples, 0)::bigint FROM pg_catalog.pg_class c WHERE c.oid = to_regclass('delivery');

-- name: LaneListName :many
SELECT id, name FROM lane ORDER BY name, id LIMIT @max;

-- name: DestinationGetSent :one
-- Where requests go; of a deleted destination, too.
SELECT url, updated_at FROM destination WHERE id = @id;

-- name: DeliveryListIDByEvent :many
SELECT id FROM delivery WHERE event_id = ANY(@event_ids::bigint[]) ORDER BY event_id DESC, destination_id LIMIT @max;

-- name: AttemptListByDeliveries :many
-- Newest first of each, for a page of deliveries.
SELECT * FROM attempt WHERE delivery_id = ANY(@delivery_ids::bigint[]) ORDER BY delivery_id DESC, no DESC LIMIT @max;
