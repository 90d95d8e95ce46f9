-- +goose Up

-- Which values of a payload can be searched for, by type of event. Nothing is declared at first, and then nothing is looked into.
CREATE TABLE search_key (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type_pattern text NOT NULL CHECK (type_pattern <> '' AND length(type_pattern) <= 100), -- as a subscription's: exact, '*', 'shipment.*'
    path         text NOT NULL CHECK (path <> '' AND length(path) <= 200),                 -- tracking.number, items[].sku
    label        text NOT NULL CHECK (label ~ '^[a-z0-9][a-z0-9_-]{0,39}$'),               -- what it is called in a search; several may share one
    created_by   text NOT NULL CHECK (created_by <> ''),
    created_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (type_pattern, path, label)
);

-- What was found in the payloads of events that came after their key was declared, written in the event's own transaction: at most 20
-- values of at most 200 bytes for an event. Collation "C", so that the index answers for beginnings, too.
CREATE TABLE event_key (
    event_id bigint NOT NULL REFERENCES event ON DELETE CASCADE,
    label    text COLLATE "C" NOT NULL,
    value    text COLLATE "C" NOT NULL CHECK (value <> '' AND octet_length(value) <= 200),
    PRIMARY KEY (event_id, label, value)
);
CREATE INDEX event_key_value_idx ON event_key (label, value, event_id);

-- A list's filter under a name: for everybody, or only for who saved it.
CREATE TABLE saved_view (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operator_id bigint NOT NULL REFERENCES operator ON DELETE CASCADE,                     -- who saved it
    shared      boolean NOT NULL,
    name        text NOT NULL CHECK (name <> '' AND length(name) <= 60),
    query       text NOT NULL CHECK (length(query) <= 2000),                               -- of /deliveries, as in its address
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX saved_view_own_key ON saved_view (operator_id, name);

-- +goose Down
-- Migrations only go forward.
