-- What the command palette looks for.

-- name: DestinationFind :many
-- Destinations that have the text in their name, those that begin with it first. pattern is the text for ILIKE, with % around it.
SELECT d.id, d.name, d.state FROM destination d
WHERE d.deleted_at IS NULL AND d.name ILIKE @pattern::text
ORDER BY (d.name NOT ILIKE substr(@pattern::text, 2)), d.name LIMIT @max;
