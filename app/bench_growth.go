package main

import (
	"context"
	"fmt"
)

// growth is part f: whether a ledger full of history slows down what is new.
func (b *bench) growth(ctx context.Context) error {
	var first float64
	for _, settled := range []int{0, b.settled} {
		if settled == 0 && first > 0 {
			break // --settled 0
		}
		if err := b.settle(ctx, settled); err != nil {
			return err
		}
		row, err := b.drain(ctx, 1, 0)
		if err != nil {
			return err
		}
		row.what = fmt.Sprintf("(f) one unlimited lane, %d settled before", settled)
		if first == 0 {
			first = row.rate
		} else {
			row.note = fmt.Sprintf("%.2f of the empty ledger's", row.rate/first)
		}
		b.row(row)
		if err := b.empty(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settle writes n deliveries as if each had been delivered at its first attempt: events with a small payload, each to 80 destinations.
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
		_, err := b.store.pool.Exec(ctx, `
			WITH e AS (
				INSERT INTO event (event_id, type, subject, payload, occurred_at)
				SELECT 'settled-' || i, 'bench.settled', 'SHP-' || i, '{}', now() - interval '1 day' FROM generate_series($2::bigint, $2 + $3 - 1) i RETURNING id
			),
			made AS (
				SELECT $1 + row_number() OVER () - 1 AS id, e.id AS event_id, t.id AS destination_id, t.lane_id FROM e CROSS JOIN destination t LIMIT $4
			),
			d AS (
				INSERT INTO delivery (id, event_id, destination_id, lane_id, job_id, state, attempts, expires_at, last_status, settled_at)
				SELECT id, event_id, destination_id, lane_id, id, 'delivered', 1, now() + interval '2 days', 200, now() FROM made RETURNING id, lane_id
			)
			INSERT INTO attempt (delivery_id, no, lane_id, process, started_at, lease_until, finished_at, verdict, status, took_us)
			SELECT id, 1, lane_id, 'bench', now(), now() + interval '20 seconds', now(), 'delivered', 200, 1000 FROM d`,
			id+int64(done), done/destinations, page, min(n-done, destinations*page))
		if err != nil {
			return fmt.Errorf("insert settled deliveries: %w", err)
		}
	}
	if _, err := b.store.pool.Exec(ctx, "VACUUM (ANALYZE) event, delivery, attempt"); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	return nil
}
