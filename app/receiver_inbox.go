package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// receiverInbox makes an event take effect once, however often it is sent.
type receiverInbox interface {
	// Apply does the event's effect and remembers its id in one step, and says which it was: outcomeApplied,
	// outcomeDuplicate, or outcomeConflict for an id that came before with other bytes. Only the first has an effect.
	Apply(ctx context.Context, event inboxEvent) (outcome, error)
	// Effects counts the effects that path has had, also those from before a restart.
	Effects(ctx context.Context, path string) (int64, error)
	// Shipment is what path knows of subject; ok is false where that is nothing.
	Shipment(ctx context.Context, path, subject string) (s shipmentState, ok bool, err error)
	Reset(ctx context.Context) error
	Close()
	String() string
}

// inboxEvent is one verified request. The path belongs to its identity: several destinations may end in one receiver, and
// each is owed the event.
type inboxEvent struct {
	Path       string
	EventID    string
	Type       string
	Subject    string
	Version    *int64 // nil where the sender gives none
	Body       []byte
	BodySHA256 [sha256.Size]byte
}

// moves says whether the event can move its subject: without a version nothing tells which of two is newer.
func (e inboxEvent) moves() bool { return e.Subject != "" && e.Version != nil }

// shipmentState is the newest version of one subject that has arrived.
type shipmentState struct {
	Subject    string
	Version    int64
	EventID    string
	BodySHA256 [sha256.Size]byte
}

const (
	inboxTimeout     = 10 * time.Second
	memoryInboxLimit = 1_000_000
)

// memoryInbox is for trying out. It forgets the oldest ids and subjects beyond its limit, and everything when it stops.
type memoryInbox struct {
	mu        sync.Mutex
	seen      *remembered[inboxKey, [sha256.Size]byte]
	shipments *remembered[inboxKey, shipmentState]
	effects   map[string]int64
}

// inboxKey is an event id or a subject of one path.
type inboxKey struct{ path, id string }

func newMemoryInbox(limit int) *memoryInbox {
	return &memoryInbox{
		seen:      newRemembered[inboxKey, [sha256.Size]byte](limit),
		shipments: newRemembered[inboxKey, shipmentState](limit),
		effects:   map[string]int64{},
	}
}

func (m *memoryInbox) Apply(_ context.Context, event inboxEvent) (outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum, isNew := m.seen.touch(inboxKey{event.Path, event.EventID})
	switch {
	case !isNew && *sum != event.BodySHA256:
		return outcomeConflict, nil
	case !isNew:
		return outcomeDuplicate, nil
	}
	*sum = event.BodySHA256
	m.effects[event.Path]++
	if event.moves() {
		shipment, isNew := m.shipments.touch(inboxKey{event.Path, event.Subject})
		if isNew || shipment.Version < *event.Version {
			*shipment = shipmentState{event.Subject, *event.Version, event.EventID, event.BodySHA256}
		}
	}
	return outcomeApplied, nil
}

func (m *memoryInbox) Effects(_ context.Context, path string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.effects[path], nil
}

func (m *memoryInbox) Shipment(_ context.Context, path, subject string) (shipmentState, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	shipment, ok := m.shipments.values[inboxKey{path, subject}]
	if !ok {
		return shipmentState{}, false, nil
	}
	return *shipment, true, nil
}

func (m *memoryInbox) Reset(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen.reset()
	m.shipments.reset()
	clear(m.effects)
	return nil
}

func (m *memoryInbox) Close() {}

func (m *memoryInbox) String() string { return "memory, gone when it stops" }

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

// requestTable writes finished requests to receiver.request in batches, behind the answers. A full queue slows the answers
// down; a batch that Postgres does not take within the timeout is given up, with an error in the log.
type requestTable struct {
	pool   *pgxpool.Pool
	logger *slog.Logger
	queue  chan requestRecord
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
}

const requestBatch = 500

func newRequestTable(pool *pgxpool.Pool, logger *slog.Logger) *requestTable {
	t := &requestTable{
		pool:   pool,
		logger: logger,
		queue:  make(chan requestRecord, 8*requestBatch),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
	}
	go t.run()
	return t
}

func (t *requestTable) add(record requestRecord) {
	select {
	case t.queue <- record:
	case <-t.stop:
	}
}

// Close writes what is queued. Whoever serves has stopped before.
func (t *requestTable) Close() {
	t.once.Do(func() { close(t.stop) })
	<-t.done
}

func (t *requestTable) run() {
	defer close(t.done)
	for {
		select {
		case record := <-t.queue:
			t.write(t.batch(record))
		case <-t.stop:
			for len(t.queue) > 0 {
				t.write(t.batch(<-t.queue))
			}
			return
		}
	}
}

// batch adds to first what is waiting already.
func (t *requestTable) batch(first requestRecord) []requestRecord {
	batch := []requestRecord{first}
	for len(batch) < requestBatch {
		select {
		case record := <-t.queue:
			batch = append(batch, record)
		default:
			return batch
		}
	}
	return batch
}

func (t *requestTable) write(batch []requestRecord) {
	ctx, cancel := context.WithTimeout(context.Background(), inboxTimeout)
	defer cancel()
	columns := []string{"at", "path", "event_id", "attempt", "status", "outcome", "took_us", "body_sha256"}
	_, err := t.pool.CopyFrom(ctx, pgx.Identifier{"receiver", "request"}, columns, pgx.CopyFromSlice(len(batch), func(i int) ([]any, error) {
		r := batch[i]
		return []any{r.at, r.path, r.eventID, r.attempt, r.status, string(r.outcome), r.took.Microseconds(), r.sum}, nil
	}))
	if err != nil {
		t.logger.Error("requests not written to the table", "requests", len(batch), "error", err)
	}
}
