package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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
