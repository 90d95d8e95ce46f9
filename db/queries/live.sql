-- What the panel's live regions are kept current by. One statement a second and process, whatever the number of browsers.

-- name: LiveLook :many
-- How far everything that somebody looks at has come, as numbers that differ once it has changed: of tables, how many rows have been
-- written, which Postgres counts anyway, so it costs the writers nothing (a connection that was just used and is then idle reports its
-- last rows up to ten seconds late); of single objects, what their pages show, exactly. And which sessions still hold.
SELECT 'table'::text AS kind, c.relname::text AS key,
    (pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid))::bigint AS mark
FROM pg_catalog.pg_class c WHERE c.relkind = 'r' AND c.relnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = current_schema())
UNION ALL
SELECT 'session', s.token_hash, 1
FROM session s JOIN operator o ON o.id = s.operator_id
WHERE s.token_hash = ANY(@sessions::text[]) AND s.expires_at > now() AND s.revoked_at IS NULL AND o.deactivated_at IS NULL
UNION ALL
SELECT 'delivery', d.id::text, hashtextextended(concat_ws(' ', d.state, d.attempts, d.due_at, d.parked, d.reason, d.settled_at, d.expires_at, d.try, t.state,
    lane.held_us, (SELECT string_agg(concat(x.no, x.finished_at), ' ') FROM (
        SELECT a.no, a.finished_at FROM attempt a WHERE a.delivery_id = d.id ORDER BY a.no DESC LIMIT 20) x)), 0)
FROM delivery d JOIN destination t ON t.id = d.destination_id JOIN lane ON lane.id = d.lane_id
WHERE d.id = ANY(@deliveries::bigint[])
UNION ALL
SELECT 'destination', t.id::text, hashtextextended(concat_ws(' ', t.state, t.state_since, t.version, t.updated_at, lane.updated_at, lane.tat_us,
    lane.held_us, lane.in_flight, lane.open, lane.parked, (SELECT string_agg(concat(x.id, x.state, x.attempts), ' ') FROM (
        SELECT d.id, d.state, d.attempts FROM delivery d WHERE d.destination_id = t.id ORDER BY d.id DESC LIMIT 20) x)), 0)
FROM destination t JOIN lane ON lane.id = t.lane_id
WHERE t.id = ANY(@destinations::bigint[])
UNION ALL
SELECT 'event', e.event_id, hashtextextended(concat_ws(' ', e.fanout_after, (SELECT string_agg(concat(x.id, x.state, x.attempts, x.due_at), ' ') FROM (
        SELECT d.id, d.state, d.attempts, d.due_at FROM delivery d WHERE d.event_id = e.id ORDER BY d.destination_id LIMIT 200) x)), 0)
FROM event e WHERE e.event_id = ANY(@events::text[])
UNION ALL
SELECT 'replay', r.id::text, hashtextextended(concat_ws(' ', r::text, (SELECT string_agg(x::text, ' ') FROM (
        SELECT i.* FROM replay_destination i WHERE i.replay_id = r.id ORDER BY i.destination_id, i.lane_id LIMIT 200) x)), 0)
FROM replay r WHERE r.id = ANY(@replays::bigint[]);
