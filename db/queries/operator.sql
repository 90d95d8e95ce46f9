-- name: OperatorExists :one
SELECT EXISTS (SELECT 1 FROM operator)::bool;

-- name: OperatorGetByID :one
SELECT id, name, role FROM operator WHERE id = @id AND deactivated_at IS NULL;

-- name: OperatorGetByName :one
SELECT id, name, role, deactivated_at, (locked_until IS NOT NULL AND locked_until > now())::bool AS locked FROM operator WHERE name = @name;

-- name: OperatorInsert :one
INSERT INTO operator (name, password_hash, role, last_login_at) VALUES (@name, @password_hash, @role, now()) RETURNING id;

-- name: OperatorList :many
-- Everybody, those who can sign in first, with their sessions.
SELECT o.id, o.name, o.role, o.created_at, o.last_login_at, o.deactivated_at, (o.locked_until IS NOT NULL AND o.locked_until > now())::bool AS locked,
    (SELECT count(*) FROM session s WHERE s.operator_id = o.id AND s.revoked_at IS NULL AND s.expires_at > now())::int AS sessions
FROM operator o
WHERE (o.deactivated_at IS NOT NULL, o.name) > (@after_deactivated::bool, @after_name::text)
ORDER BY (o.deactivated_at IS NOT NULL), o.name LIMIT @max;

-- name: OperatorLock :one
SELECT id, name, role, deactivated_at FROM operator WHERE id = @id FOR UPDATE;

-- name: OperatorLockAdministrators :many
-- In the order of their ids, so that two who each take away the other's role wait for each other, and the second finds out.
SELECT id FROM operator WHERE role = 'administrator' AND deactivated_at IS NULL ORDER BY id FOR UPDATE;

-- name: OperatorSetActive :exec
UPDATE operator SET deactivated_at = CASE WHEN @active::bool THEN NULL ELSE now() END, failures = 0, locked_until = NULL WHERE id = @id;

-- name: OperatorSetPassword :exec
UPDATE operator SET password_hash = @password_hash, password_changed_at = now(), failures = 0, locked_until = NULL WHERE id = @id;

-- name: OperatorSetRole :exec
UPDATE operator SET role = @role WHERE id = @id;

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

-- name: OperatorListActing :many
-- Those to whom something can be given to do.
SELECT id, name FROM operator WHERE deactivated_at IS NULL AND role IN ('operator', 'administrator') ORDER BY name LIMIT @max;
