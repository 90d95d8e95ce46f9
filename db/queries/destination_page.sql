-- name: DestinationPage :many
-- The ids of one page of destinations, by what they are sorted by (rank), then name. All are looked at, two rows of the tally each: a thousand
-- take a few milliseconds. What waits is counted only where it is asked for, up to 200 where the lane is shared. A share is of the requests
-- of the present hour and the one before.
WITH base AS (
    SELECT d.id, d.name, coalesce(recent.requests, 0) AS requests, coalesce(recent.ok, 0) AS ok,
        lane.held_us > extract(epoch FROM statement_timestamp()) * 1e6 AS held,
        CASE WHEN NOT @weigh::bool OR lane.parked = 0 THEN 0
            WHEN NOT EXISTS (SELECT 1 FROM destination o WHERE o.lane_id = d.lane_id AND o.id <> d.id) THEN lane.parked
            ELSE (SELECT count(*) FROM (SELECT 1 FROM delivery o WHERE o.parked AND o.destination_id = d.id LIMIT 200) x) END AS waiting
    FROM destination d JOIN lane ON lane.id = d.lane_id
    LEFT JOIN (
        SELECT t.destination_id, sum(t.requests) AS requests, sum(t.ok) AS ok FROM tally t
        WHERE t.step_s = 3600 AND t.at >= date_trunc('hour', statement_timestamp()) - interval '1 hour' GROUP BY t.destination_id
    ) recent ON recent.destination_id = d.id
    WHERE d.deleted_at IS NULL
        AND (@search::text = '' OR strpos(lower(d.name), lower(@search::text)) > 0 OR strpos(lower(d.url), lower(@search::text)) > 0)
        AND CASE @state::text WHEN '' THEN true WHEN 'draining' THEN d.draining_since IS NOT NULL ELSE d.state = @state::text END
),
ranked AS (
    SELECT base.*, count(*) OVER () AS total,
        CASE @sort::text WHEN 'worst' THEN CASE WHEN base.requests = 0 THEN 2 ELSE base.ok::double precision / base.requests::double precision END
            WHEN 'waiting' THEN -base.waiting WHEN 'newest' THEN -base.id ELSE 0 END::double precision AS rank
    FROM base
    WHERE CASE @health::text WHEN '' THEN true WHEN 'quiet' THEN base.requests = 0 WHEN 'held' THEN base.held WHEN 'waiting' THEN base.waiting > 0
        WHEN 'failing' THEN base.ok < 0.9 * base.requests WHEN 'unsteady' THEN base.ok >= 0.9 * base.requests AND base.ok < 0.99 * base.requests
        ELSE base.requests > 0 AND base.ok >= 0.99 * base.requests END
)
SELECT ranked.id, ranked.name, ranked.rank, ranked.requests::bigint AS requests, ranked.ok::bigint AS ok, ranked.total::int AS total
FROM ranked
WHERE (ranked.rank, ranked.name, ranked.id) > (@after_rank::double precision, @after_name::text, @after_id::bigint)
ORDER BY ranked.rank, ranked.name, ranked.id LIMIT @max;

-- name: DestinationTestPayload :one
-- Of a test event that was sent to this destination, and of no other event.
SELECT e.payload FROM event e WHERE e.event_id = @event_id::text AND e.only_destination_id = @destination_id::bigint;
