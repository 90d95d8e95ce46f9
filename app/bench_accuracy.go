package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// accuracy is part e: whether a limit holds where it counts, at the receiver, however many processes share it, and how much of what is
// allowed is used while there is a backlog. The receiver takes 20 ms to answer.
func (b *bench) accuracy(ctx context.Context) error {
	for _, processes := range []int{1, 2, 4} {
		lanes := []benchLane{
			{"/timed/fast?delay=20ms", "bench.fast", 200, 20, 16},
			{"/timed/slow?delay=20ms", "bench.slow", 5, 1, 16},
		}
		if err := b.hold(ctx, processes, lanes); err != nil {
			return err
		}
		if err := b.empty(ctx); err != nil {
			return err
		}
	}
	return nil
}

// hold works off a backlog of both lanes for the time that was asked for, and prints what the receiver saw of each.
func (b *bench) hold(ctx context.Context, processes int, lanes []benchLane) error {
	if err := b.receiver.forget(ctx); err != nil {
		return err
	}
	for _, lane := range lanes {
		if err := b.subscribe(ctx, lane); err != nil {
			return err
		}
	}
	workers, err := b.startWorkers(ctx, processes)
	if err != nil {
		return err
	}
	defer workers.stop()
	for _, lane := range lanes {
		// A quarter more than may be sent, so that the backlog lasts.
		if err := b.publish(ctx, lane.eventType, int(lane.rate*float64(b.seconds)*1.25)+lane.burst+20, 1000); err != nil {
			return err
		}
	}
	limit, over := time.Duration(b.seconds)*time.Second, fmt.Sprintf("%d processes", processes)
	if processes == 1 {
		over = "1 process"
	}
	for _, lane := range lanes {
		err := b.until(ctx, workers, limit+time.Minute, lane.path+" has been busy for long enough", func() (bool, error) {
			seen, err := b.receiver.seen(ctx, lane.timedPath())
			return seen.Requests > 0 && time.Now().UnixMicro() > seen.First+limit.Microseconds(), err
		})
		if err != nil {
			return err
		}
	}
	for _, lane := range lanes {
		seen, err := b.receiver.arrivals(ctx, lane.timedPath())
		if err != nil {
			return err
		}
		var at []float64 // seconds since the first
		for _, arrival := range seen.Arrivals {
			if after := arrival.At - seen.First; after <= limit.Microseconds() {
				at = append(at, float64(after)/1e6)
			}
		}
		b.row(benchRow{
			fmt.Sprintf("(e) %g/s burst %d cap %d, %s", lane.rate, lane.burst, lane.cap, over),
			float64(len(at)) / limit.Seconds(), math.NaN(), unknownCost,
			fmt.Sprintf("use %s %%, excess %+.2f, at most %d in flight",
				benchNumber(100*rateUse(at, lane.rate, lane.burst), "%.1f"), rateExcess(at, lane.rate, lane.burst), seen.MaxInFlight),
		})
	}
	return nil
}

// timedPath is the lane's path without the query.
func (l benchLane) timedPath() string {
	path, _, _ := strings.Cut(l.path, "?")
	return path
}
