-- name: SignInAddressTake :execrows
-- Takes one of an address's tries: twenty at once, and one more every three seconds. No row: it has none left. Each try also removes two
-- addresses that have all theirs again, so the table holds no more than the tries of the last minute.
WITH gone AS (
    DELETE FROM sign_in_address WHERE address IN (
        SELECT g.address FROM sign_in_address g WHERE g.full_at <= now() AND g.address <> @address ORDER BY g.full_at LIMIT 2 FOR UPDATE SKIP LOCKED)
)
INSERT INTO sign_in_address AS a (address, full_at) VALUES (@address, now() + interval '3 seconds')
ON CONFLICT (address) DO UPDATE SET full_at = greatest(a.full_at, now()) + interval '3 seconds'
WHERE greatest(a.full_at, now()) + interval '3 seconds' <= now() + interval '60 seconds';
