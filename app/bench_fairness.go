package main

import (
	"context"
	"fmt"
	"math"
	"time"
)

// fairness is part d: what others feel of a backlog. A lane of 20/s gets far more than it may send, and is at work while 20 events a
// second go to another lane; before that, the same without the backlog.
func (b *bench) fairness(ctx context.Context) error {
	const perSecond = 20
	const others, slow = "/timed/others", "/slow"
	for _, lane := range []benchLane{
		{path: others, eventType: "bench.others", rate: 100, burst: 20, cap: 16},
		{path: slow, eventType: "bench.slow", rate: perSecond, burst: 20, cap: 16},
	} {
		if err := b.subscribe(ctx, lane); err != nil {
			return err
		}
	}
	workers, err := b.startWorkers(ctx, 1)
	if err != nil {
		return err
	}
	defer workers.stop()
	for _, parked := range []int{0, b.parked} {
		if err := b.publish(ctx, "bench.slow", parked, 1000); err != nil {
			return err
		}
		before, err := b.receiver.seen(ctx, slow)
		if err != nil {
			return err
		}
		start := time.Now()
		waits, err := b.paced(ctx, workers, pace{others, "bench.others", perSecond, perSecond/2 + perSecond*b.seconds, perSecond / 2})
		if err != nil {
			return err
		}
		after, err := b.receiver.seen(ctx, slow)
		if err != nil {
			return err
		}
		what, note := "nothing parked", ""
		if parked > 0 {
			what = fmt.Sprintf("%d parked behind %d/s", parked, perSecond)
			note = fmt.Sprintf("; that lane %.1f/s", float64(after.Requests-before.Requests)/time.Since(start).Seconds())
		}
		b.row(benchRow{
			fmt.Sprintf("(d) others at %d/s, %s", perSecond, what), perSecond, math.NaN(), unknownCost,
			fmt.Sprintf("publish to arrival: p50 %.1f, p95 %.1f, p99 %.1f ms%s", percentile(waits, 50), percentile(waits, 95), percentile(waits, 99), note),
		})
	}
	return nil
}
