-- A selection is read in stretches of ids, each along the index that fits it, in ascending order; DeliveryListSelected then tells which of
-- a stretch match. So a filter that nothing matches reads a bounded number of rows at a time.

-- name: DeliveryStretch :many
SELECT id FROM delivery WHERE id > @after ORDER BY id LIMIT @max;

-- name: DeliveryStretchByAttention :many
SELECT id FROM delivery WHERE attention = @attention::text AND id > @after ORDER BY id LIMIT @max;

-- name: DeliveryStretchByDestination :many
SELECT id FROM delivery WHERE destination_id = @destination_id AND id > @after ORDER BY id LIMIT @max;

-- name: DeliveryStretchByEvent :many
SELECT d.id FROM delivery d WHERE d.event_id = (SELECT e.id FROM event e WHERE e.event_id = @event_id::text) AND d.id > @after ORDER BY d.id LIMIT @max;

-- name: DeliveryStretchBySubject :many
-- Materialized: else the planner may walk the ledger in the hope of the subject.
WITH scan AS MATERIALIZED (
    SELECT d.id FROM delivery d
    WHERE d.event_id = ANY(ARRAY(SELECT e.id FROM event e WHERE e.subject = @subject AND e.subject <> '')) AND d.id > @after
)
SELECT scan.id FROM scan ORDER BY scan.id LIMIT @max;

-- name: DeliveryListSelected :many
-- Only what had ended by a time, the run's start: what fails again during a run is not selected by it again.
SELECT d.id, d.destination_id, d.lane_id, d.state, d.created_at, d.settled_at::timestamptz AS settled_at
FROM delivery d
WHERE d.id = ANY(@ids::bigint[]) AND d.state = ANY(@states::text[]) AND d.settled_at <= @settled_by
    AND (sqlc.narg('destination_id')::bigint IS NULL OR d.destination_id = sqlc.narg('destination_id'))
    AND (sqlc.narg('error_class')::text IS NULL OR d.last_error_class = sqlc.narg('error_class'))
    AND (sqlc.narg('status')::int IS NULL OR d.last_status = sqlc.narg('status'))
    AND (sqlc.narg('reason')::text IS NULL OR strpos(lower(d.reason), lower(sqlc.narg('reason'))) > 0)
    AND (sqlc.narg('created_from')::timestamptz IS NULL OR d.created_at >= sqlc.narg('created_from'))
    AND (sqlc.narg('created_to')::timestamptz IS NULL OR d.created_at < sqlc.narg('created_to'))
    AND (sqlc.narg('settled_from')::timestamptz IS NULL OR d.settled_at >= sqlc.narg('settled_from'))
    AND (sqlc.narg('settled_to')::timestamptz IS NULL OR d.settled_at < sqlc.narg('settled_to'))
    AND (NOT @of_event::bool OR EXISTS (
        SELECT 1 FROM event e WHERE e.id = d.event_id
            AND (sqlc.narg('event_id')::text IS NULL OR e.event_id = sqlc.narg('event_id'))
            AND (sqlc.narg('subject')::text IS NULL OR e.subject = sqlc.narg('subject'))
            AND (sqlc.narg('tenant')::text IS NULL OR e.tenant = sqlc.narg('tenant'))
            AND (sqlc.narg('type')::text IS NULL OR e.type = sqlc.narg('type') OR sqlc.narg('type') = '*'
                OR (right(sqlc.narg('type'), 2) = '.*' AND starts_with(e.type, left(sqlc.narg('type'), -1))))
    ))
ORDER BY d.id;
