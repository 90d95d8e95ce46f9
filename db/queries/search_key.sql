-- name: EventKeyInsertMany :exec
-- Of the events that are new: a duplicate's payload was looked into when it first came.
INSERT INTO event_key (event_id, label, value)
SELECT e.id, x.label, x.value
FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@labels::text[]) AS label, unnest(@vals::text[]) AS value) x
JOIN event e ON e.event_id = x.event_id
WHERE e.id = ANY(@fresh::bigint[])
ON CONFLICT DO NOTHING;

-- name: EventKeyList :many
SELECT label, value FROM event_key WHERE event_id = @event_id ORDER BY label, value LIMIT 100;

-- name: EventKeyListEventIDByPrefix :many
-- Events with a value from low to below high: those that begin alike. In the order of the values.
SELECT k.event_id FROM event_key k
WHERE k.label = ANY(@labels::text[]) AND k.value >= @low AND k.value < @high ORDER BY k.label, k.value, k.event_id DESC LIMIT @max;

-- name: SearchKeyDelete :one
DELETE FROM search_key WHERE id = @id RETURNING *;

-- name: SearchKeyInsert :one
INSERT INTO search_key (type_pattern, path, label, created_by) VALUES (@type_pattern, @path, @label, @created_by) RETURNING *;

-- name: SearchKeyList :many
SELECT * FROM search_key ORDER BY label, type_pattern, path LIMIT 200;

-- name: SearchKeyCount :one
SELECT count(*)::int FROM search_key;

-- name: EventKeyListLabel :many
-- Every label that an event may have values under, one index probe for each: those of keys that were removed included.
WITH RECURSIVE l(label) AS (
    (SELECT k.label FROM event_key k ORDER BY k.label LIMIT 1)
    UNION ALL
    SELECT (SELECT k.label FROM event_key k WHERE k.label > l.label ORDER BY k.label LIMIT 1) FROM l WHERE l.label IS NOT NULL
)
SELECT l.label::text AS label FROM l WHERE l.label IS NOT NULL LIMIT 200;
