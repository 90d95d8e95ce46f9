-- name: DeadLetterChangeTake :many
-- The ids of deliveries that changed in a way that the inbox must follow, oldest first, each once.
WITH taken AS (
    DELETE FROM dead_letter_change WHERE id = ANY(ARRAY(SELECT c.id FROM dead_letter_change c ORDER BY c.id LIMIT @max)) RETURNING delivery_id
)
SELECT DISTINCT taken.delivery_id FROM taken;

-- name: DeadLetterDelete :exec
DELETE FROM dead_letter WHERE delivery_id = ANY(@delivery_ids::bigint[]);

-- name: DeadLetterLeave :exec
UPDATE dead_letter SET left_at = u.at, left_why = u.why, replay_id = NULL
FROM (SELECT unnest(@delivery_ids::bigint[]) AS delivery_id, unnest(@ats::timestamptz[]) AS at, unnest(@whys::text[]) AS why) u
WHERE dead_letter.delivery_id = u.delivery_id;

-- name: DeadLetterListByDelivery :many
SELECT * FROM dead_letter WHERE delivery_id = ANY(@delivery_ids::bigint[]);

-- name: DeadLetterListFacts :many
-- How deliveries stand in the ledger. One that is not there any more has there = false.
SELECT x.id::bigint AS delivery_id, (d.id IS NOT NULL)::bool AS there, coalesce(d.state, '')::text AS state, coalesce(d.destination_id, 0)::bigint AS destination_id,
    coalesce(d.last_status, 0)::int AS status, coalesce(d.last_error_class, '')::text AS error_class, coalesce(d.reason, '')::text AS reason,
    coalesce(d.settled_at, 'epoch')::timestamptz AS settled_at, coalesce(d.replay_id, 0)::bigint AS replay_id, coalesce(e.type, '')::text AS type
FROM unnest(@ids::bigint[]) AS x(id)
LEFT JOIN delivery d ON d.id = x.id
LEFT JOIN event e ON e.id = d.event_id;

-- name: DeadLetterListPage :many
-- A page of a group's deliveries that are open, those that came in last first, with what the receiver answered last.
WITH page AS MATERIALIZED (
    SELECT l.* FROM dead_letter l
    WHERE l.group_id = @group_id AND l.left_at IS NULL AND l.seq > @after::bigint AND l.seq < @before::bigint
    ORDER BY l.seq DESC LIMIT @max
)
SELECT page.delivery_id, page.seq, page.ended_at, page.replay_id, page.left_at, page.left_why, d.state, d.attempts, d.reason, d.last_status,
    d.created_at, e.event_id, e.type, e.subject, a.excerpt
FROM page
JOIN delivery d ON d.id = page.delivery_id
JOIN event e ON e.id = d.event_id
LEFT JOIN LATERAL (
    SELECT a.excerpt FROM attempt a WHERE a.delivery_id = d.id AND a.finished_at IS NOT NULL ORDER BY a.no DESC LIMIT 1
) a ON true
ORDER BY page.seq DESC;

-- name: DeadLetterListPageAll :many
-- The same of everything that is or was in the group.
WITH page AS MATERIALIZED (
    SELECT l.* FROM dead_letter l WHERE l.group_id = @group_id AND l.seq < @before::bigint ORDER BY l.seq DESC LIMIT @max
)
SELECT page.delivery_id, page.seq, page.ended_at, page.replay_id, page.left_at, page.left_why, d.state, d.attempts, d.reason, d.last_status,
    d.created_at, e.event_id, e.type, e.subject, a.excerpt
FROM page
JOIN delivery d ON d.id = page.delivery_id
JOIN event e ON e.id = d.event_id
LEFT JOIN LATERAL (
    SELECT a.excerpt FROM attempt a WHERE a.delivery_id = d.id AND a.finished_at IS NOT NULL ORDER BY a.no DESC LIMIT 1
) a ON true
ORDER BY page.seq DESC;

-- name: DeadLetterPut :exec
-- New in a group, or in it once more.
INSERT INTO dead_letter (delivery_id, group_id, ended_at, seq)
SELECT u.delivery_id, u.group_id, u.ended_at, nextval('dead_letter_seq')
FROM (SELECT unnest(@delivery_ids::bigint[]) AS delivery_id, unnest(@group_ids::bigint[]) AS group_id, unnest(@ended_at::timestamptz[]) AS ended_at) u
ON CONFLICT (delivery_id) DO UPDATE SET group_id = excluded.group_id, seq = excluded.seq, ended_at = excluded.ended_at, replay_id = NULL,
    left_at = NULL, left_why = NULL;

-- name: DeadLetterSetReplay :exec
-- By which replay they are being sent again; 0: by none any more.
UPDATE dead_letter SET replay_id = nullif(u.replay_id, 0)
FROM (SELECT unnest(@delivery_ids::bigint[]) AS delivery_id, unnest(@replay_ids::bigint[]) AS replay_id) u
WHERE dead_letter.delivery_id = u.delivery_id;

-- name: DeadLetterResolveSome :many
-- The caller holds the group's lock.
UPDATE dead_letter SET left_at = clock_timestamp(), left_why = 'resolved'
WHERE dead_letter.group_id = @group_id AND dead_letter.delivery_id = ANY(@delivery_ids::bigint[]) AND dead_letter.left_at IS NULL AND dead_letter.seq > @after::bigint
RETURNING dead_letter.replay_id;

-- name: DeadLetterCountAfter :one
-- How many of a group are open if all up to a seq are resolved, and how many of those are being sent again.
SELECT count(*)::int AS open, count(l.replay_id)::int AS sending FROM dead_letter l WHERE l.group_id = @group_id AND l.left_at IS NULL AND l.seq > @after::bigint;

-- name: DeadLetterFirstForeign :one
-- The lowest of some deliveries that is not and was not in a group; 0: each belongs to it.
SELECT coalesce(min(x.id), 0)::bigint FROM unnest(@delivery_ids::bigint[]) AS x(id)
WHERE NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.delivery_id = x.id AND l.group_id = @group_id);

-- name: DeadLetterLastSeq :one
SELECT coalesce(max(l.seq), 0)::bigint FROM dead_letter l WHERE l.group_id = @group_id;

-- name: DeadLetterStretch :many
-- For a replay: the open deliveries of a group from a seq on.
SELECT l.delivery_id, l.seq FROM dead_letter l
WHERE l.group_id = @group_id AND l.left_at IS NULL AND l.seq > greatest(@after::bigint, (SELECT g.resolved_through FROM dead_letter_group g WHERE g.id = @group_id))
ORDER BY l.seq LIMIT @max;
