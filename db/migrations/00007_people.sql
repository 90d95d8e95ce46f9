-- +goose Up

-- Every table changed here is small, and nothing is rewritten: the locks are held for an instant.

-- People. Whoever is an operator already could do everything, and still can.
ALTER TABLE operator
    ADD COLUMN role text NOT NULL DEFAULT 'administrator' CHECK (role IN ('viewer', 'operator', 'administrator')),
    ADD COLUMN deactivated_at timestamptz,                                     -- set: cannot sign in, and has no sessions
    ADD COLUMN password_changed_at timestamptz NOT NULL DEFAULT now();
-- From now on a role is given, never assumed.
ALTER TABLE operator ALTER COLUMN role DROP DEFAULT;

-- A link is the first administrator's (invited_by NULL), a colleague's, or, with an operator, one to choose a new password with.
ALTER TABLE invitation
    ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    ADD COLUMN role text NOT NULL DEFAULT 'administrator' CHECK (role IN ('viewer', 'operator', 'administrator')),
    ADD COLUMN invited_by text,                                                -- the name of who made it
    ADD COLUMN note text NOT NULL DEFAULT '' CHECK (length(note) <= 200),      -- whom it is for
    ADD COLUMN operator_id bigint REFERENCES operator,
    ADD COLUMN created_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN revoked_at timestamptz;

-- Sessions that can be told apart by their owner. A revoked one stays until it would have expired, so that a request under way cannot
-- bring it back.
ALTER TABLE session
    ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    ADD COLUMN operator_id bigint REFERENCES operator,                         -- NULL: nobody has signed in
    ADD COLUMN created_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN seen_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN address text NOT NULL DEFAULT '',
    ADD COLUMN user_agent text NOT NULL DEFAULT '',
    ADD COLUMN revoked_at timestamptz;
CREATE INDEX session_operator_idx ON session (operator_id) WHERE operator_id IS NOT NULL;

-- Tries to sign in, by address (an IPv6 address by its /64). full_at is when the address has all its tries again; past that, the row means
-- nothing.
CREATE TABLE sign_in_address (
    address text PRIMARY KEY,
    full_at timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX sign_in_address_full_idx ON sign_in_address (full_at);

ALTER TABLE api_token
    ADD COLUMN expires_at timestamptz,
    ADD COLUMN created_by text NOT NULL DEFAULT '',
    DROP CONSTRAINT api_token_scopes_check,
    ADD CONSTRAINT api_token_scopes_check CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['publish', 'read', 'operate', 'admin']);

-- Who did what, in the transaction that did it. before and after hold only what changed, without the values of secrets and headers.
CREATE TABLE audit (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor_kind  text NOT NULL CHECK (actor_kind IN ('operator', 'token', 'cli', 'visitor', 'weir')),
    actor_id    bigint,                                                        -- of the operator or the token
    actor       text NOT NULL,                                                 -- its name at that time
    role        text NOT NULL DEFAULT '',                                      -- of the operator, or the token's scopes
    action      text NOT NULL CHECK (action <> ''),
    object_kind text NOT NULL DEFAULT '',
    object_id   text NOT NULL DEFAULT '',                                      -- as the API writes it: dst_1
    object_name text NOT NULL DEFAULT '',
    before      jsonb,
    after       jsonb,
    note        text NOT NULL DEFAULT '',
    address     text NOT NULL DEFAULT ''
);
CREATE INDEX audit_object_idx ON audit (object_id, id) WHERE object_id <> '';
CREATE INDEX audit_action_idx ON audit (action, id);
CREATE INDEX audit_actor_idx ON audit (actor, id);
CREATE INDEX audit_at_idx ON audit USING brin (at);

-- The record is written once: no UPDATE, no TRUNCATE, and no DELETE but what audit_prune deletes. This stops programs and slips of the
-- hand; whoever owns the table can still drop the trigger.
-- +goose StatementBegin
CREATE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('weir.audit_prune', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit log is append-only: % refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_refuse_change();
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();

-- audit_prune deletes at most most entries that are older than age, oldest first, and returns how many. Nothing younger than 30 days goes.
-- +goose StatementBegin
CREATE FUNCTION audit_prune(age interval, most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    gone integer;
BEGIN
    PERFORM set_config('weir.audit_prune', 'on', true);
    DELETE FROM audit WHERE id IN (SELECT a.id FROM audit a WHERE a.at < now() - greatest(age, interval '30 days') ORDER BY a.id LIMIT most);
    GET DIAGNOSTICS gone = ROW_COUNT;
    PERFORM set_config('weir.audit_prune', 'off', true);
    RETURN gone;
END $$;
-- +goose StatementEnd

-- +goose Down
-- Migrations only go forward.
