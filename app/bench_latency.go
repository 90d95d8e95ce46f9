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
	waits, err := b.paced(ctx, workers, pace{path: "/timed/latency", eventType: "bench.latency", perSecond: perSecond, n: n, warm: warm})
	if err != nil {
		return err
	}
	after := b.usage(weir...)
	workers.stop()
	end, err := b.wal(ctx)
	if err != nil {
		return err
	}
	p50, p99 := percentile(waits, 50), percentile(waits, 99)
	return b.row(benchRow{
		what: fmt.Sprintf("(c) %d events/s for %d s, publish to arrival", perSecond, b.seconds),
		rate: perSecond, ratio: math.NaN(), cost: before.cost(after, end-wal, n), figures: milliseconds(waits, "", 50, 99),
		bars: []benchBar{atMost("p50 ms", p50, 12), atMost("p99 ms", p99, 50)},
	})
}

// pace is a stream of events, one at a time and evenly spaced, whose first ones (warm) are not measured: new connections, plans and caches.
type pace struct {
	path, eventType string
	perSecond       int
	n, warm         int
	// more, if not nil, is asked after n whether the stream should go on, and goes on for no longer than twice n and a minute.
	more func() (bool, error)
}

// goesOn says whether there is an ith event.
func (p pace) goesOn(i int) (bool, error) {
	if i < p.n || p.more == nil || i >= 2*p.n+60*p.perSecond {
		return i < p.n, nil
	}
	return p.more()
}

// paced publishes the stream, waits until all of it has arrived and returns how long each took, in milliseconds. It does not slow down
// where publishing does (an open loop), so a stall shows in every event that it held up.
func (b *bench) paced(ctx context.Context, workers benchWorkers, p pace) ([]float64, error) {
	began, err := b.receiver.seen(ctx, p.path)
	if err != nil {
		return nil, err
	}
	prefix := fmt.Sprintf("%s-%d-", p.eventType, began.Requests) // ids are new in each stream of a type
	sent, n := make(map[string]int64, p.n), 0
	var publishing sync.WaitGroup
	failed := make(chan error, 1) // the first is enough
	ticker := time.NewTicker(time.Second / time.Duration(p.perSecond))
	defer ticker.Stop()
	for ; ; n++ {
		var on bool
		if on, err = p.goesOn(n); err != nil || !on {
			break
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, ctx.Err() // what is being published ends with ctx too
		}
		id := fmt.Sprint(prefix, n)
		sent[id] = time.Now().UnixMicro()
		publishing.Go(func() {
			if _, err := b.engine.Publish(ctx, jobs.Event{ID: id, Type: p.eventType, Payload: benchPayload}); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	publishing.Wait()
	select {
	case published := <-failed:
		err = errors.Join(err, fmt.Errorf("publish: %w", published))
	default:
	}
	if err != nil {
		return nil, err
	}
	err = b.until(ctx, workers, benchWait, "the events have arrived", func() (bool, error) {
		seen, err := b.receiver.seen(ctx, p.path)
		return seen.Requests >= began.Requests+n, err
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
