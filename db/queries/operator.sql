-- name: OperatorExists :one
SELECT EXISTS (SELECT 1 FROM operator)::bool;

-- name: OperatorGetByID :one
SELECT id, name, role FROM operator WHERE id = @id AND deactivated_at IS NULL;

-- name: OperatorGetByName :one
SELECT id, name, role, deactivated_at, (locked_until IS NOT NULL AND locked_until > now())::bool AS locked FROM operator WHERE name = @name;

-- name: OperatorInsert :one
INSERT INTO operator (name, password_hash, role, last_login_at) VALUES (@name, @password_hash, @role, now()) RETURNING id;

-- name: OperatorSignedIn :exec
UPDATE operator SET failures = 0, locked_until = NULL, last_login_at = now() WHERE id = @id;

-- name: OperatorTry :one
-- A try counts as wrong before the password is looked at, and a right one clears the count: so parallel tries cannot get more than ten
-- between them. From the tenth wrong one in a row on, the account is locked for a minute, doubling up to fifteen. No row: there is no
-- such operator, or the account is locked or deactivated.
UPDATE operator SET
    failures = failures + 1,
    locked_until = CASE WHEN failures + 1 >= 10
        THEN now() + least(interval '15 minutes', interval '1 minute' * power(2, least(failures + 1 - 10, 10))) END
WHERE name = @name AND deactivated_at IS NULL AND (locked_until IS NULL OR locked_until <= now())
RETURNING id, password_hash, role;
