-- name: DeadLetterGroupAdd :exec
-- Counts what came in and left. The caller holds the groups' locks.
UPDATE dead_letter_group g SET
    open = g.open + u.open, sending = g.sending + u.sending, total = g.total + u.came,
    first_seen = CASE WHEN u.came > 0 THEN least(g.first_seen, u.first_at) ELSE g.first_seen END,
    last_seen = CASE WHEN u.came > 0 THEN greatest(g.last_seen, u.last_at) ELSE g.last_seen END,
    reason = CASE WHEN u.came > 0 THEN u.reason ELSE g.reason END,
    opened_at = CASE WHEN g.open + u.open = 0 THEN NULL WHEN g.open = 0 THEN u.first_at ELSE g.opened_at END,
    snoozed_until = CASE WHEN u.woke OR g.open + u.open = 0 THEN NULL ELSE g.snoozed_until END
FROM (
    SELECT unnest(@ids::bigint[]) AS id, unnest(@open::int[]) AS open, unnest(@sending::int[]) AS sending, unnest(@came::int[]) AS came,
        unnest(@first_at::timestamptz[]) AS first_at, unnest(@last_at::timestamptz[]) AS last_at, unnest(@reasons::text[]) AS reason, unnest(@woke::bool[]) AS woke
) u WHERE g.id = u.id;

-- name: DeadLetterGroupCountOpen :one
-- How many groups wait for somebody now, counted up to the limit.
SELECT count(*)::int FROM (
    SELECT 1 FROM dead_letter_group g WHERE g.open > 0 AND (g.snoozed_until IS NULL OR g.snoozed_until <= statement_timestamp()) LIMIT @max
) x;

-- name: DeadLetterGroupCountTyped :many
-- How many groups of a destination are by type of event.
SELECT g.destination_id, count(*)::int AS n FROM dead_letter_group g WHERE g.destination_id = ANY(@destination_ids::bigint[]) AND g.type <> '' GROUP BY 1;

-- name: DeadLetterGroupEnsure :exec
INSERT INTO dead_letter_group (destination_id, state, status, error_class, type, first_seen, last_seen)
SELECT u.destination_id, u.state, u.status, u.error_class, u.type, u.at, u.at FROM (
    SELECT unnest(@destination_ids::bigint[]) AS destination_id, unnest(@states::text[]) AS state, unnest(@statuses::int[]) AS status,
        unnest(@error_classes::text[]) AS error_class, unnest(@types::text[]) AS type, unnest(@ats::timestamptz[]) AS at
) u ON CONFLICT DO NOTHING;

-- name: DeadLetterGroupGet :one
SELECT g.*, dest.name AS destination_name, dest.state AS destination_state, coalesce(o.name, '')::text AS assignee
FROM dead_letter_group g
JOIN destination dest ON dest.id = g.destination_id
LEFT JOIN operator o ON o.id = g.assignee_id
WHERE g.id = @id;

-- name: DeadLetterGroupList :many
-- A page of groups, those in which something came in last first.
WITH page AS MATERIALIZED (
    SELECT g.* FROM dead_letter_group g
    WHERE CASE @show::text
            WHEN 'open' THEN g.open > 0 AND (g.snoozed_until IS NULL OR g.snoozed_until <= statement_timestamp())
            WHEN 'snoozed' THEN g.open > 0 AND g.snoozed_until > statement_timestamp()
            WHEN 'resolved' THEN g.open = 0
            ELSE true END
        AND (sqlc.narg('destination_id')::bigint IS NULL OR g.destination_id = sqlc.narg('destination_id'))
        AND (sqlc.narg('assignee_id')::bigint IS NULL OR coalesce(g.assignee_id, 0) = sqlc.narg('assignee_id'))
        AND (g.last_seen, g.id) < (@last_seen::timestamptz, @before::bigint)
    ORDER BY g.last_seen DESC, g.id DESC LIMIT @max
)
SELECT page.*, dest.name AS destination_name, dest.state AS destination_state, coalesce(o.name, '')::text AS assignee
FROM page
JOIN destination dest ON dest.id = page.destination_id
LEFT JOIN operator o ON o.id = page.assignee_id
ORDER BY page.last_seen DESC, page.id DESC;

-- name: DeadLetterGroupListByKey :many
SELECT g.id, g.destination_id, g.state, g.status, g.error_class, g.type FROM dead_letter_group g
JOIN (
    SELECT DISTINCT unnest(@destination_ids::bigint[]) AS destination_id, unnest(@states::text[]) AS state, unnest(@statuses::int[]) AS status,
        unnest(@error_classes::text[]) AS error_class, unnest(@types::text[]) AS type
) u USING (destination_id, state, status, error_class, type);

-- name: DeadLetterGroupLock :many
SELECT * FROM dead_letter_group WHERE id = ANY(@ids::bigint[]) ORDER BY id FOR NO KEY UPDATE;

-- name: DeadLetterGroupResolve :exec
UPDATE dead_letter_group SET resolved_through = @through, resolved_before = resolved_through, open = @open, sending = @sending,
    resolved_at = clock_timestamp(), resolved_by = @actor, resolution = @reason, snoozed_until = NULL, opened_at = CASE WHEN @open::int = 0 THEN NULL ELSE opened_at END
WHERE id = @id;

-- name: DeadLetterGroupTakeBack :exec
UPDATE dead_letter_group SET resolved_through = resolved_before, open = @open, sending = @sending, resolved_at = NULL, resolved_by = '', resolution = '',
    opened_at = CASE WHEN @open::int = 0 THEN NULL ELSE coalesce(opened_at, clock_timestamp()) END
WHERE id = @id;

-- name: DeadLetterGroupSetAssignee :exec
UPDATE dead_letter_group SET assignee_id = @assignee_id WHERE id = @id;

-- name: DeadLetterGroupSetSnooze :exec
UPDATE dead_letter_group SET snoozed_until = @until, snoozed_open = open WHERE id = @id;

-- name: DeadLetterGroupWake :execrows
-- Those whose time has come are open again, and say so.
WITH woken AS (
    UPDATE dead_letter_group SET snoozed_until = NULL WHERE snoozed_until <= statement_timestamp() RETURNING id, open
)
INSERT INTO dead_letter_history (group_id, kind, note, count) SELECT woken.id, 'woke', 'its time was over', woken.open FROM woken;

-- name: DeadLetterHistoryAdd :exec
-- Entries with a key are added to the one that is there.
INSERT INTO dead_letter_history AS h (group_id, kind, actor, note, count, replay_id, key)
SELECT u.group_id, u.kind, CASE WHEN u.actor = '' AND u.kind = 'replay' THEN coalesce((SELECT r.actor FROM replay r WHERE r.id = u.replay_id), '') ELSE u.actor END,
    CASE WHEN u.note = '' AND u.kind = 'replay' THEN coalesce((SELECT r.reason FROM replay r WHERE r.id = u.replay_id), '') ELSE u.note END,
    u.count, nullif(u.replay_id, 0), u.key
FROM (
    SELECT unnest(@group_ids::bigint[]) AS group_id, unnest(@kinds::text[]) AS kind, unnest(@actors::text[]) AS actor, unnest(@notes::text[]) AS note,
        unnest(@counts::int[]) AS count, unnest(@replay_ids::bigint[]) AS replay_id, unnest(@keys::text[]) AS key
) u
ON CONFLICT (group_id, key) WHERE key <> '' DO UPDATE SET count = h.count + excluded.count, last_at = clock_timestamp();

-- name: DeadLetterHistoryAddReplay :exec
-- A replay was started over deliveries of the inbox: it is in the history of their groups before the first is sent.
INSERT INTO dead_letter_history (group_id, kind, actor, note, replay_id, key)
SELECT DISTINCT l.group_id, 'replay', @actor::text, @note::text, @replay_id::bigint, 'replay:' || @replay_id::bigint
FROM dead_letter l WHERE l.delivery_id = ANY(@delivery_ids::bigint[]) AND l.left_at IS NULL
ON CONFLICT DO NOTHING;

-- name: DeadLetterHistoryList :many
SELECT * FROM dead_letter_history WHERE group_id = @group_id AND id < @before ORDER BY id DESC LIMIT @max;

-- name: DeadLetterTallyAdd :exec
INSERT INTO dead_letter_tally AS t (group_id, at, came)
SELECT unnest(@group_ids::bigint[]), unnest(@ats::timestamptz[]), unnest(@came::int[])
ON CONFLICT (group_id, at) DO UPDATE SET came = t.came + excluded.came;

-- name: DeadLetterTallyDeleteOld :exec
DELETE FROM dead_letter_tally WHERE at < now() - interval '25 hours';

-- name: DeadLetterTallyList :many
-- By the half hour, the last 24 hours. hour: of those, in the last hour.
SELECT t.group_id, date_bin('30 minutes', t.at, 'epoch'::timestamptz)::timestamptz AS at, sum(t.came)::int AS came,
    coalesce(sum(t.came) FILTER (WHERE t.at > now() - interval '1 hour'), 0)::int AS hour
FROM dead_letter_tally t
WHERE t.group_id = ANY(@group_ids::bigint[]) AND t.at > now() - interval '24 hours'
GROUP BY 1, 2 ORDER BY 1, 2;
