package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"weir/jobs"
	"weir/jobs/webhook"
)

// benchWait is how long a wait may take, and benchPatience how much longer per piece of work: ten times what a slow machine needs. A wait that
// ends a run has cost all that was measured.
const (
	benchWait     = 3 * time.Minute
	benchPatience = 10 * time.Millisecond
)

// benchLane is a destination with a lane of its own. No rate and no cap: not limited.
type benchLane struct {
	path, eventType string
	rate            float64
	burst, cap      int
	delay           time.Duration // of the receiver, where only the cap limits it
}

// saturation is part b: all there is, as fast as it goes.
func (b *bench) saturation(ctx context.Context) error {
	for _, kind := range []struct {
		name         string
		destinations int
		rate, bar    float64
	}{{"(b) deliveries, one unlimited lane", 1, 0, 0.38}, {"(b) deliveries, fan-out over 80 limited lanes", 80, 1000, 0.35}} {
		row, err := b.drain(ctx, kind.destinations, kind.rate, nil)
		if err != nil {
			return err
		}
		row.what, row.bars = kind.name, append([]benchBar{atLeast("of no-op", row.ratio, kind.bar)}, costBars(row.cost, 2.5)...)
		if err := errors.Join(b.row(row), b.empty(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// drain publishes first and starts a worker then: what is timed is delivery alone, through everything that production does, from the
// first arrival to the last. The worker's CPU counts from when it is ready; begun, if not nil, is called then.
func (b *bench) drain(ctx context.Context, destinations int, rate float64, begun func(context.Context) error) (row benchRow, err error) {
	events := b.deliveries / destinations
	n := events * destinations
	eventType := fmt.Sprintf("bench.d%d", destinations)
	for i := range destinations {
		lane := benchLane{path: fmt.Sprintf("/%d", i), eventType: eventType}
		if rate > 0 {
			lane.rate, lane.burst, lane.cap = rate, 1000, 500
		}
		if err := b.subscribe(ctx, lane); err != nil {
			return row, err
		}
	}
	// No more at a time than one transaction fans out: the rest would be left to discovery, and be timed.
	if err := b.publish(ctx, eventType, events, 2000/destinations); err != nil {
		return row, err
	}
	if _, err := b.store.pool.Exec(ctx, "ANALYZE"); err != nil {
		return row, fmt.Errorf("analyze: %w", err)
	}
	if err := b.receiver.forget(ctx); err != nil {
		return row, err
	}
	wal, err := b.wal(ctx)
	if err != nil {
		return row, err
	}
	workers, err := b.startWorkers(ctx, 1)
	if err != nil {
		return row, err
	}
	defer workers.stop()
	if begun != nil {
		if err := begun(ctx); err != nil {
			return row, err
		}
	}
	before := b.usage(workers.pids()...)
	seen, err := b.untilArrived(ctx, workers, n)
	if err != nil {
		return row, err
	}
	after := b.usage(workers.pids()...)
	workers.stop() // what arrived last is settled by now
	end, err := b.wal(ctx)
	if err != nil {
		return row, err
	}
	var left int
	if err := b.store.pool.QueryRow(ctx, "SELECT count(*) FROM delivery WHERE state <> 'delivered'").Scan(&left); err != nil {
		return row, fmt.Errorf("read ledger: %w", err)
	}
	if left > 0 {
		return row, fmt.Errorf("%d of %d deliveries are not settled although all arrived", left, n)
	}
	perSecond := float64(n) / (float64(seen.Last-seen.First) / 1e6)
	return benchRow{rate: perSecond, ratio: b.ofNoop(perSecond), cost: before.cost(after, end-wal, n)}, nil
}

// untilArrived waits for the receiver's nth request.
func (b *bench) untilArrived(ctx context.Context, workers benchWorkers, n int) (seen benchSeen, err error) {
	what := fmt.Sprintf("%d requests have arrived", n)
	err = b.until(ctx, workers, benchWait+time.Duration(n)*benchPatience, what, func() (bool, error) {
		var err error
		seen, err = b.receiver.seen(ctx, "")
		return seen.Requests >= n, err
	})
	return seen, err
}

// benchPayload is 1 KiB of JSON.
var benchPayload = append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, 1022)...), '"')

// publish takes n events in, page by page.
func (b *bench) publish(ctx context.Context, eventType string, n, page int) error {
	for start := 0; start < n && ctx.Err() == nil; start += page {
		events := make([]jobs.Event, min(page, n-start))
		for i := range events {
			events[i] = jobs.Event{Type: eventType, Subject: fmt.Sprint(start + i), Payload: benchPayload}
		}
		for _, result := range b.engine.PublishMany(ctx, events) {
			if result.Err != nil {
				return fmt.Errorf("publish: %w", result.Err)
			}
		}
	}
	return ctx.Err()
}

// subscribe inserts a destination that no form would let through: on loopback, perhaps unlimited.
func (b *bench) subscribe(ctx context.Context, l benchLane) error {
	var id, secret int64
	err := b.store.pool.QueryRow(ctx, `
		WITH l AS (
			INSERT INTO lane (name, rate, burst, max_in_flight)
			VALUES ($1, nullif($3::float8, 0), $4, nullif($5::int, 0)) RETURNING id
		),
		d AS (INSERT INTO destination (name, url, lane_id) SELECT $1, $2, id FROM l RETURNING id),
		s AS (INSERT INTO subscription (destination_id, types) SELECT id, ARRAY[$6] FROM d)
		SELECT id, nextval(pg_get_serial_sequence('secret', 'id')) FROM d`,
		l.path, b.receiver.url+l.path, l.rate, max(1, l.burst), l.cap, l.eventType).Scan(&id, &secret)
	if err != nil {
		return fmt.Errorf("insert destination: %w", err)
	}
	_, err = b.store.pool.Exec(ctx, "INSERT INTO secret (id, destination_id, scheme, sealed, hint) VALUES ($1, $2, 'v1', $3, '')",
		secret, id, b.store.keyring.Seal([]byte(webhook.NewSecret()), fmt.Sprintf("secret/%d", secret)))
	if err != nil {
		return fmt.Errorf("insert secret: %w", err)
	}
	return nil
}
