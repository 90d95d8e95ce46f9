-- name: DiscoveryRunDeleteBefore :exec
DELETE FROM discovery_run WHERE id = ANY(ARRAY(
    SELECT r.id FROM discovery_run r WHERE r.finished_at < @before::timestamptz ORDER BY r.id LIMIT 1000));

-- name: DiscoveryRunInsert :exec
INSERT INTO discovery_run (job_id, source, started_at, read, new, duplicate, refused, deliveries, error)
VALUES (@job_id, @source, @started_at, @read, @new, @duplicate, @refused, @deliveries, @error);

-- name: DiscoveryRunLatest :one
SELECT * FROM discovery_run ORDER BY id DESC LIMIT 1;

-- name: DiscoveryRunList :many
SELECT * FROM discovery_run WHERE id < @before ORDER BY id DESC LIMIT @max;
