package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresInbox is the pattern to copy: the primary key of the inbox decides, in the transaction of the effect.
type postgresInbox struct {
	pool *pgxpool.Pool
}

const inboxSchema = `
CREATE SCHEMA IF NOT EXISTS receiver;

-- Which events have been applied. The key is the whole trick.
CREATE TABLE IF NOT EXISTS receiver.inbox (
	path        text NOT NULL,
	event_id    text NOT NULL,
	type        text NOT NULL,
	subject     text NOT NULL,
	version     bigint,
	body_sha256 bytea NOT NULL,
	received_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (path, event_id)
);

-- The side effect itself. Nothing here is unique on purpose: a second effect would be seen, not prevented.
CREATE TABLE IF NOT EXISTS receiver.effect (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	path     text NOT NULL,
	event_id text NOT NULL,
	at       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS effect_path_event_id ON receiver.effect (path, event_id);

-- The newest status of each shipment; its version only goes up.
CREATE TABLE IF NOT EXISTS receiver.shipment (
	path       text NOT NULL,
	subject    text NOT NULL,
	version    bigint NOT NULL,
	status     bytea NOT NULL,
	event_id   text NOT NULL,
	changed_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (path, subject)
);

-- Every request with its answer, with --log-requests. Status 0: none was given.
CREATE TABLE IF NOT EXISTS receiver.request (
	id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at          timestamptz NOT NULL,
	path        text NOT NULL,
	event_id    text NOT NULL,
	attempt     int NOT NULL,
	status      int NOT NULL,
	outcome     text NOT NULL,
	took_us     bigint NOT NULL,
	body_sha256 bytea
);`

func newPostgresInbox(ctx context.Context, databaseURL string) (*postgresInbox, error) {
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return nil, fmt.Errorf("open inbox: %w", err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// IF NOT EXISTS does not keep two receivers that start together from creating the same thing twice.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('weir receiver schema', 0))`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, inboxSchema)
		return err
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("create inbox schema: %w", err)
	}
	return &postgresInbox{pool: pool}, nil
}

func (p *postgresInbox) Apply(ctx context.Context, event inboxEvent) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, inboxTimeout)
	defer cancel()
	result := outcomeApplied
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		// A request with the same id waits here until the other's transaction has ended, and then knows.
		inserted, err := tx.Exec(ctx, `
			INSERT INTO receiver.inbox (path, event_id, type, subject, version, body_sha256)
			VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (path, event_id) DO NOTHING`,
			event.Path, event.EventID, event.Type, event.Subject, event.Version, event.BodySHA256[:])
		if err != nil {
			return fmt.Errorf("insert inbox: %w", err)
		}
		if inserted.RowsAffected() == 0 {
			result, err = compareBytes(ctx, tx, event)
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO receiver.effect (path, event_id) VALUES ($1, $2)`, event.Path, event.EventID); err != nil {
			return fmt.Errorf("insert effect: %w", err)
		}
		if !event.moves() {
			return nil
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO receiver.shipment AS s (path, subject, version, status, event_id)
			VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (path, subject) DO UPDATE
			SET version = excluded.version, status = excluded.status, event_id = excluded.event_id, changed_at = now()
			WHERE s.version < excluded.version`,
			event.Path, event.Subject, *event.Version, event.Body, event.EventID)
		if err != nil {
			return fmt.Errorf("upsert shipment: %w", err)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("apply event: %w", err)
	}
	return result, nil
}

func compareBytes(ctx context.Context, tx pgx.Tx, event inboxEvent) (outcome, error) {
	var sum []byte
	err := tx.QueryRow(ctx, `SELECT body_sha256 FROM receiver.inbox WHERE path = $1 AND event_id = $2`, event.Path, event.EventID).Scan(&sum)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // reset in between
		return outcomeDuplicate, nil
	case err != nil:
		return "", fmt.Errorf("compare bytes: %w", err)
	case !bytes.Equal(sum, event.BodySHA256[:]):
		return outcomeConflict, nil
	}
	return outcomeDuplicate, nil
}

func (p *postgresInbox) Effects(ctx context.Context, path string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, inboxTimeout)
	defer cancel()
	var n int64
	if err := p.pool.QueryRow(ctx, `SELECT count(*) FROM receiver.effect WHERE path = $1`, path).Scan(&n); err != nil {
		return 0, fmt.Errorf("count effects: %w", err)
	}
	return n, nil
}

func (p *postgresInbox) Shipment(ctx context.Context, path, subject string) (shipmentState, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, inboxTimeout)
	defer cancel()
	s := shipmentState{Subject: subject}
	var status []byte
	err := p.pool.QueryRow(ctx, `SELECT version, event_id, status FROM receiver.shipment WHERE path = $1 AND subject = $2`, path, subject).
		Scan(&s.Version, &s.EventID, &status)
	if errors.Is(err, pgx.ErrNoRows) {
		return shipmentState{}, false, nil
	}
	if err != nil {
		return shipmentState{}, false, fmt.Errorf("load shipment: %w", err)
	}
	s.BodySHA256 = sha256.Sum256(status)
	return s, true, nil
}

func (p *postgresInbox) Reset(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, inboxTimeout)
	defer cancel()
	if _, err := p.pool.Exec(ctx, `TRUNCATE receiver.inbox, receiver.effect, receiver.shipment, receiver.request`); err != nil {
		return fmt.Errorf("reset inbox: %w", err)
	}
	return nil
}

func (p *postgresInbox) Close() { p.pool.Close() }

func (p *postgresInbox) String() string { return "Postgres, schema receiver" }
