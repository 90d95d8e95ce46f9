-- name: AuditInsert :exec
INSERT INTO audit (actor_kind, actor_id, actor, role, action, object_kind, object_id, object_name, before, after, note, address)
VALUES (@actor_kind, @actor_id, @actor, @role, @action, @object_kind, @object_id, @object_name, @before, @after, @note, @address);

-- name: AuditList :many
SELECT * FROM audit WHERE id = ANY(@ids::bigint[]) ORDER BY id DESC;

-- name: AuditListByObject :many
SELECT * FROM audit WHERE object_id = @object_id AND object_id <> '' ORDER BY id DESC LIMIT @max;

-- name: AuditPage :one
-- One stretch of the log, newest first, and what matches in it. An action that ends in a dot stands for all that begin with it.
WITH scan AS MATERIALIZED (
    SELECT id, at, actor, action FROM audit WHERE id < @before ORDER BY id DESC LIMIT @stretch
)
SELECT (SELECT count(*) FROM scan)::int AS scanned, coalesce((SELECT min(scan.id) FROM scan), 0)::bigint AS floor, ARRAY(
    SELECT scan.id FROM scan
    WHERE (sqlc.narg('actor')::text IS NULL OR scan.actor = sqlc.narg('actor'))
      AND (sqlc.narg('action')::text IS NULL OR scan.action = sqlc.narg('action') OR (sqlc.narg('action') LIKE '%.' AND starts_with(scan.action, sqlc.narg('action'))))
      AND (sqlc.narg('since')::timestamptz IS NULL OR scan.at >= sqlc.narg('since')) AND (sqlc.narg('until')::timestamptz IS NULL OR scan.at < sqlc.narg('until'))
    ORDER BY scan.id DESC LIMIT @max
)::bigint[] AS ids;

-- name: AuditPageByObject :one
WITH scan AS MATERIALIZED (
    SELECT id, at, actor, action FROM audit WHERE object_id = @object_id AND object_id <> '' AND id < @before ORDER BY id DESC LIMIT @stretch
)
SELECT (SELECT count(*) FROM scan)::int AS scanned, coalesce((SELECT min(scan.id) FROM scan), 0)::bigint AS floor, ARRAY(
    SELECT scan.id FROM scan
    WHERE (sqlc.narg('actor')::text IS NULL OR scan.actor = sqlc.narg('actor'))
      AND (sqlc.narg('action')::text IS NULL OR scan.action = sqlc.narg('action') OR (sqlc.narg('action') LIKE '%.' AND starts_with(scan.action, sqlc.narg('action'))))
      AND (sqlc.narg('since')::timestamptz IS NULL OR scan.at >= sqlc.narg('since')) AND (sqlc.narg('until')::timestamptz IS NULL OR scan.at < sqlc.narg('until'))
    ORDER BY scan.id DESC LIMIT @max
)::bigint[] AS ids;

-- name: AuditPrune :one
SELECT audit_prune(p.days * interval '1 day', p.rows)::int FROM (SELECT @days::int AS days, @max::int AS rows) p;
