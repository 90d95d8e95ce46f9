package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// growth is part f: whether a ledger full of history slows down what is new. The empty ledger is measured again at the end: what the machine
// itself drifts by meanwhile is no growth.
func (b *bench) growth(ctx context.Context) error {
	sizes := []int{0}
	for _, rows := range []int{b.rows, 5_000_000} {
		if rows > sizes[len(sizes)-1] && (rows == b.rows || b.full) {
			sizes = append(sizes, rows)
		}
	}
	var first float64
	for i, rows := range append(sizes, 0) {
		if i == len(sizes) && i == 1 {
			break // --rows 0
		}
		start := time.Now()
		if err := b.settle(ctx, rows); err != nil {
			return err
		}
		made := time.Since(start)
		row, err := b.drain(ctx, 1, 0, nil)
		if err != nil {
			return err
		}
		row.what = fmt.Sprintf("(f) one unlimited lane, %d settled before", rows)
		switch {
		case i == 0:
			first = row.rate
		case rows == 0:
			row.what = "(f) the empty ledger again"
			row.figures = []benchFigure{{"of the first", row.rate / first, "%.2f"}}
		default:
			row.figures = []benchFigure{{"of the empty ledger's", row.rate / first, "%.2f"}, {"rows made in", made.Seconds(), "%.0f s"}}
			row.bars = []benchBar{atLeast("of the empty ledger's", row.rate/first, 0.9)}
		}
		if err := errors.Join(b.row(row), b.empty(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// settledInsert writes one page. Parameters: the first delivery's id, the first event's number, how many events, how many deliveries at most,
// how many deliveries in all.
const settledInsert = `WITH e AS (
		INSERT INTO event (event_id, type, subject, payload, occurred_at)
		SELECT 'settled-' || i, 'bench.settled', 'SHP-' || i, '{}', now() - interval '1 day' FROM generate_series($2::bigint, $2 + $3 - 1) i RETURNING id
	),
	made AS (
		SELECT $1 + row_number() OVER () - 1 AS id, e.id AS event_id, t.id AS destination_id, t.lane_id FROM e CROSS JOIN destination t LIMIT $4
	),
	d AS (
		INSERT INTO delivery (id, event_id, destination_id, lane_id, job_id, state, attempts, failures, due_at, expires_at, last_status, created_at, settled_at)
		SELECT id, event_id, destination_id, lane_id, id, 'delivered', tries, tries - 1, at, at + interval '3 days', 200, at, at + interval '1 second'
		FROM (SELECT *, 1 + (id % 20 = 0)::int AS tries, now() - (0.01 * ($5::bigint - id % $5) + 60) * interval '1 second' AS at FROM made) made
		RETURNING id, lane_id, attempts, created_at
	)
	INSERT INTO attempt (delivery_id, no, lane_id, process, started_at, lease_until, finished_at, verdict, status, error_class, reason, took_us)
	SELECT id, no, lane_id, 'bench', created_at, created_at + interval '20 seconds', created_at + interval '20 milliseconds',
		CASE WHEN no = attempts THEN 'delivered' ELSE 'retry' END, CASE WHEN no = attempts THEN 200 ELSE 503 END,
		CASE WHEN no = attempts THEN '' ELSE 'server_error' END, CASE WHEN no = attempts THEN '' ELSE 'status 503' END, 20000
	FROM d CROSS JOIN LATERAL generate_series(1, d.attempts) no`

// settle writes n deliveries as if each had been delivered over the last hours: events with a small payload, each to 80 destinations; every
// twentieth delivery at its second attempt.
func (b *bench) settle(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	const destinations, page = 80, 1000 // events
	_, err := b.store.pool.Exec(ctx, `
		WITH l AS (INSERT INTO lane (name) VALUES ('settled') RETURNING id)
		INSERT INTO destination (name, url, lane_id) SELECT 'settled ' || i, 'http://127.0.0.1/', l.id FROM l, generate_series(1, $1) i`, destinations)
	if err != nil {
		return fmt.Errorf("insert destinations: %w", err)
	}
	// Ids come in blocks of a thousand: skip what is used here, and a block on either side, of which others may hold a rest.
	var id int64
	err = b.store.pool.QueryRow(ctx, "WITH s AS MATERIALIZED (SELECT nextval('delivery_id_seq') AS v) SELECT setval('delivery_id_seq', v + ($1::bigint / 1000 + 3) * 1000) - ($1::bigint / 1000 + 2) * 1000 FROM s", n).Scan(&id)
	if err != nil {
		return fmt.Errorf("take ids: %w", err)
	}
	for done := 0; done < n; done += destinations * page {
		err := pgx.BeginFunc(ctx, b.store.pool, func(tx pgx.Tx) error {
			if b.store.server != nil { // a superuser may leave out the checks of foreign keys, a third of the time
				if _, err := tx.Exec(ctx, "SET LOCAL session_replication_role = replica"); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, settledInsert, id+int64(done), done/destinations, page, min(n-done, destinations*page), n)
			return err
		})
		if err != nil {
			return fmt.Errorf("insert settled deliveries: %w", err)
		}
	}
	if _, err := b.store.pool.Exec(ctx, "VACUUM (ANALYZE) event, delivery, attempt"); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	// What the filling left to be written must not be written while others are measured. Only a superuser may ask for it.
	if _, err := b.store.pool.Exec(ctx, "CHECKPOINT"); err != nil && b.store.server != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}
