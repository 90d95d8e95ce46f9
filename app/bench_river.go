package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// noopArgs is a River job that does nothing: the engine's own ceiling.
type noopArgs struct{}

func (noopArgs) Kind() string { return "noop" }

// river is part a, which all others are compared with: no-op jobs in this process, inserted first and then worked.
func (b *bench) river(ctx context.Context) error {
	n, pool := b.deliveries, b.store.pool
	var done atomic.Int64
	finished := make(chan struct{})
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[noopArgs]) error {
		if done.Add(1) == int64(n) {
			close(finished)
		}
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		ID: "bench", Workers: workers, Queues: map[string]river.QueueConfig{"noop": {MaxWorkers: 2000}},
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		ReindexerIndexNames: []string{}, Logger: discardLog(),
	})
	if err != nil {
		return fmt.Errorf("make river client: %w", err)
	}
	for start := 0; start < n; start += 5000 {
		params := make([]river.InsertManyParams, min(5000, n-start))
		for i := range params {
			params[i] = river.InsertManyParams{Args: noopArgs{}, InsertOpts: &river.InsertOpts{Queue: "noop"}}
		}
		if _, err := client.InsertManyFast(ctx, params); err != nil {
			return fmt.Errorf("insert jobs: %w", err)
		}
	}
	if _, err := pool.Exec(ctx, "ANALYZE river_job"); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}

	wal, err := b.wal(ctx)
	if err != nil {
		return err
	}
	before, start := b.usage(os.Getpid()), time.Now()
	if err := client.Start(ctx); err != nil {
		return fmt.Errorf("start river: %w", err)
	}
	err = b.until(ctx, nil, benchWait+time.Duration(n)*benchPatience, "River has worked all jobs", func() (bool, error) {
		select {
		case <-finished:
			return true, nil
		default:
			return false, nil
		}
	})
	took, after := time.Since(start), b.usage(os.Getpid())
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if stopped := client.Stop(stopping); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	end, err := b.wal(ctx) // with the last job's record: River has stopped
	if err != nil {
		return err
	}
	b.noop = float64(n) / took.Seconds()
	cost := before.cost(after, end-wal, n)
	cost.receiver = math.NaN()
	return b.row(benchRow{what: "(a) River, no-op jobs, in one process", rate: b.noop, ratio: 1, cost: cost})
}
