package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"
)

// fanout is part i: one event to very many destinations, each with a lane of its own. A process that only discovers goes on where the page
// of the publish ends, so that what is timed is the making of ledger rows and jobs.
func (b *bench) fanout(ctx context.Context) error {
	const eventType = "bench.fanout"
	_, err := b.store.pool.Exec(ctx, `
		WITH l AS (INSERT INTO lane (name, rate, burst, max_in_flight) SELECT 'fanout ' || i, 10, 10, 4 FROM generate_series(1, $1) i RETURNING id, name),
		d AS (INSERT INTO destination (name, url, lane_id) SELECT name, 'http://127.0.0.1/', id FROM l RETURNING id)
		INSERT INTO subscription (destination_id, types) SELECT id, ARRAY[$2] FROM d`, b.destinations, eventType)
	if err != nil {
		return fmt.Errorf("insert destinations: %w", err)
	}
	if _, err := b.store.pool.Exec(ctx, "ANALYZE"); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	process, err := b.startServe(ctx, nil, "discover")
	if err != nil {
		return err
	}
	workers := benchWorkers{process}
	defer workers.stop()
	if err := b.untilReady(ctx, workers); err != nil {
		return err
	}
	wal, err := b.wal(ctx)
	if err != nil {
		return err
	}
	weir := append(workers.pids(), os.Getpid())
	before := b.usage(weir...)
	began, err := b.databaseTime(ctx)
	if err != nil {
		return err
	}
	if err := b.publish(ctx, eventType, 1, 1); err != nil {
		return err
	}
	published, err := b.databaseTime(ctx)
	if err != nil {
		return err
	}
	var ended time.Time
	err = b.until(ctx, workers, benchWait+time.Duration(b.destinations)*benchPatience, "the event is fanned out", func() (bool, error) {
		// Counted only when nothing is left to do: counting ten thousand rows all the time would be felt.
		var done bool
		err := b.store.pool.QueryRow(ctx, "SELECT clock_timestamp(), NOT EXISTS (SELECT 1 FROM event WHERE fanout_after IS NOT NULL)").Scan(&ended, &done)
		if err != nil || !done {
			return false, err
		}
		var made int
		err = b.store.pool.QueryRow(ctx, "SELECT count(*) FROM delivery").Scan(&made)
		return made >= b.destinations, err
	})
	if err != nil {
		return err
	}
	after := b.usage(weir...)
	end, err := b.wal(ctx)
	if err != nil {
		return err
	}
	cost := before.cost(after, end-wal, b.destinations)
	cost.receiver = math.NaN()
	return b.fannedOut(ctx, began, published, ended, cost)
}

func (b *bench) databaseTime(ctx context.Context) (now time.Time, err error) {
	if err := b.store.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return now, fmt.Errorf("read the clock: %w", err)
	}
	return now, nil
}

// fannedOut prints how fast the rows were made. A row's created_at is when its transaction began, so it tells the pages apart; the wait from
// the publish's own page to the next is not work, and is printed beside.
func (b *bench) fannedOut(ctx context.Context, began, published, ended time.Time, cost benchCost) error {
	var pages, largest int
	var second *time.Time
	err := b.store.pool.QueryRow(ctx, `
		WITH p AS (SELECT created_at, count(*)::int AS n, row_number() OVER (ORDER BY created_at) AS no FROM delivery GROUP BY created_at)
		SELECT count(*), max(n), min(created_at) FILTER (WHERE no = 2) FROM p`).Scan(&pages, &largest, &second)
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	waited := time.Duration(0)
	if second != nil {
		waited = max(0, second.Sub(published))
	}
	perSecond := float64(b.destinations) / (ended.Sub(began) - waited).Seconds()
	return b.row(benchRow{
		what: fmt.Sprintf("(i) one event to %d destinations: rows and jobs", b.destinations), rate: perSecond, ratio: math.NaN(), cost: cost,
		figures: []benchFigure{
			{"publish returned after", published.Sub(began).Seconds() * 1000, "%.0f ms"}, {"waited", waited.Seconds(), "%.1f s"},
			{"last row after", ended.Sub(began).Seconds(), "%.1f s"},
			{"transactions", float64(pages), "%.0f"}, {"largest", float64(largest), "%.0f rows"},
		},
		bars: []benchBar{atLeast("rows/s at work", perSecond, 10000)},
	})
}
