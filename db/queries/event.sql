-- name: EventGetByEventID :one
SELECT * FROM event WHERE event_id = @event_id;

-- name: EventInsertMany :many
-- In the order given, which is sorted by event id, so that two batches cannot deadlock on the unique index. A row whose id or whose fact
-- (tenant, type, subject, version) exists is left out; EventListExisting tells which and why.
INSERT INTO event (event_id, tenant, type, subject, version, payload, occurred_at, expires_at, priority, only_destination_id)
SELECT unnest(@event_ids::text[]), unnest(@tenants::text[]), unnest(@types::text[]), unnest(@subjects::text[]),
    nullif(unnest(@versions::bigint[]), -1), unnest(@payloads::bytea[]), unnest(@occurred_at::timestamptz[]),
    nullif(unnest(@expires_at::timestamptz[]), '9999-12-31 00:00:00+00'), unnest(@priorities::smallint[]), nullif(unnest(@only_destination_ids::bigint[]), 0)
ON CONFLICT DO NOTHING
RETURNING id, event_id;

-- name: EventListExisting :many
SELECT x.ord::int AS ord, e.event_id, e.tenant, e.type, e.subject, e.version, (e.payload = x.payload)::bool AS same_payload
FROM (
    SELECT unnest(@ords::int[]) AS ord, unnest(@event_ids::text[]) AS event_id, unnest(@tenants::text[]) AS tenant, unnest(@types::text[]) AS type,
        unnest(@subjects::text[]) AS subject, unnest(@versions::bigint[]) AS version, unnest(@payloads::bytea[]) AS payload
) x
JOIN event e ON e.event_id = x.event_id
    OR (x.version >= 0 AND e.tenant = x.tenant AND e.type = x.type AND e.subject = x.subject AND e.version = x.version)
-- The one with the same id first: its conflict is the stronger statement.
ORDER BY x.ord, (e.event_id = x.event_id) DESC;

-- name: EventListUnfinished :many
-- Events whose fan-out was wider than a page.
SELECT id FROM event WHERE fanout_after IS NOT NULL ORDER BY id LIMIT @max FOR UPDATE SKIP LOCKED;

-- name: EventSetFanout :exec
-- Writes down how far each fan-out is: -1 complete, otherwise the last destination reached; it never goes back, so 0 only says "not
-- complete" of an event that the page did not come to.
UPDATE event SET fanout_after = CASE WHEN f.after >= 0 THEN greatest(coalesce(event.fanout_after, 0), f.after) END
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@after::bigint[]) AS after) f
WHERE event.id = f.id;
