package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"weir/jobs"
)

// latency is part c: from the call of publish to the arrival of the request, at 50 single events a second. Weir's CPU is the worker's and
// this process's, which takes the events in.
func (b *bench) latency(ctx context.Context) error {
	const perSecond, warm = 50, 25
	if err := b.subscribe(ctx, benchLane{path: "/timed/latency", eventType: "bench.latency"}); err != nil {
		return err
	}
	workers, err := b.startWorkers(ctx, 1)
	if err != nil {
		return err
	}
	defer workers.stop()
	wal, err := b.wal(ctx)
	if err != nil {
		return err
	}
	weir := append(workers.pids(), os.Getpid())
	n, before := warm+perSecond*b.seconds, b.usage(weir...)
	waits, err := b.paced(ctx, workers, pace{"/timed/latency", "bench.latency", perSecond, n, warm})
	if err != nil {
		return err
	}
	after := b.usage(weir...)
	workers.stop()
	end, err := b.wal(ctx)
	if err != nil {
		return err
	}
	b.row(benchRow{
		fmt.Sprintf("(c) %d events/s for %d s", perSecond, b.seconds), perSecond, math.NaN(), before.cost(after, end-wal, n),
		fmt.Sprintf("publish to arrival: p50 %.1f, p99 %.1f ms", percentile(waits, 50), percentile(waits, 99)),
	})
	return nil
}

// pace is a stream of events, one at a time and evenly spaced, whose first ones (warm) are not measured: new connections, plans and caches.
type pace struct {
	path, eventType string
	perSecond       int
	n, warm         int
}

// paced publishes the stream, waits until all of it has arrived and returns how long each took, in milliseconds. It does not slow down
// where publishing does (an open loop), so a stall shows in every event that it held up.
func (b *bench) paced(ctx context.Context, workers benchWorkers, p pace) ([]float64, error) {
	began, err := b.receiver.seen(ctx, p.path)
	if err != nil {
		return nil, err
	}
	prefix := fmt.Sprintf("%s-%d-", p.eventType, began.Requests) // ids are new in each stream of a type
	sent, errs := make(map[string]int64, p.n), make([]error, p.n)
	var publishing sync.WaitGroup
	ticker := time.NewTicker(time.Second / time.Duration(p.perSecond))
	defer ticker.Stop()
	for i := 0; i < p.n && ctx.Err() == nil; i++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			continue
		}
		id := fmt.Sprint(prefix, i)
		sent[id] = time.Now().UnixMicro()
		publishing.Go(func() {
			_, errs[i] = b.engine.Publish(ctx, jobs.Event{ID: id, Type: p.eventType, Payload: benchPayload})
		})
	}
	publishing.Wait()
	if err := errors.Join(errors.Join(errs...), ctx.Err()); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	err = b.until(ctx, workers, time.Minute, "the events have arrived", func() (bool, error) {
		seen, err := b.receiver.seen(ctx, p.path)
		return seen.Requests >= began.Requests+p.n, err
	})
	if err != nil {
		return nil, err
	}
	seen, err := b.receiver.arrivals(ctx, p.path)
	if err != nil {
		return nil, err
	}
	for i := range p.warm {
		delete(sent, fmt.Sprint(prefix, i))
	}
	var waits []float64
	for _, arrival := range seen.Arrivals {
		if at, ok := sent[arrival.ID]; ok {
			waits = append(waits, float64(arrival.At-at)/1000)
			delete(sent, arrival.ID) // its first arrival counts
		}
	}
	return waits, nil
}
