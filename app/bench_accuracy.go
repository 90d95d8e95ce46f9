package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// accuracy is part e: whether a limit holds where it counts, at the receiver, however many processes share it, and how much of what is
// allowed is used while there is a backlog; a third lane has only a cap. Last, one of the processes is killed: what holds then, and what that
// costs the lane.
func (b *bench) accuracy(ctx context.Context) error {
	numbers := b.processes
	if last := numbers[len(numbers)-1]; b.kill && last > 1 {
		numbers = append(slices.Clone(numbers), last)
	}
	for i, processes := range numbers {
		kill := i == len(b.processes) // the one that was appended
		err := b.hold(ctx, processes, kill, []benchLane{
			{path: "/timed/fast?delay=20ms", eventType: "bench.fast", rate: 200, burst: 20, cap: 16},
			{path: "/timed/slow?delay=20ms", eventType: "bench.slow", rate: 5, burst: 1, cap: 16},
			{path: "/timed/capped?delay=200ms", eventType: "bench.capped", cap: 4, delay: 200 * time.Millisecond},
		})
		if err := errors.Join(err, b.empty(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// held is one measurement of part e, in seconds since its start; kill is 0 where nobody is killed.
type held struct {
	from        time.Time
	kill, until float64
}

// hold works off a backlog of the lanes for the time that was asked for, from when all of it is there, and prints what the receiver saw of
// each. With a kill it takes four times as long: a dead process is given up after 15 s, and its open requests after 20.
func (b *bench) hold(ctx context.Context, processes int, kill bool, lanes []benchLane) error {
	if err := b.receiver.forget(ctx); err != nil {
		return err
	}
	h := held{until: float64(b.seconds)}
	if kill {
		h.kill, h.until = float64(b.seconds), float64(4*b.seconds)
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
		if err := b.publish(ctx, lane.eventType, lane.backlog(h.until), 1000); err != nil {
			return err
		}
	}
	h.from = time.Now()
	alive := workers
	if kill {
		if err := b.pause(ctx, workers, h.from.Add(seconds(h.kill))); err != nil {
			return err
		}
		if err := workers[0].kill(); err != nil {
			return err
		}
		h.kill, alive = time.Since(h.from).Seconds(), workers[1:]
	}
	for _, lane := range lanes {
		if err := b.untilBusy(ctx, alive, lane, h); err != nil {
			return err
		}
	}
	for _, lane := range lanes {
		if err := b.holds(ctx, lane, processes, h); err != nil {
			return err
		}
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// pause waits for a moment, as long as the workers live.
func (b *bench) pause(ctx context.Context, workers benchWorkers, moment time.Time) error {
	return b.until(ctx, workers, time.Until(moment)+benchWait, "it is time", func() (bool, error) { return !time.Now().Before(moment), nil })
}

// untilBusy waits until the lane has sent something after the end of the measurement, or everything: then publishing took so long that the
// backlog did not last, and its use is not measured.
func (b *bench) untilBusy(ctx context.Context, workers benchWorkers, lane benchLane, h held) error {
	end := h.from.Add(seconds(h.until))
	return b.until(ctx, workers, time.Until(end)+benchWait, lane.bare()+" has been busy for long enough", func() (bool, error) {
		if time.Now().Before(end) {
			return false, nil
		}
		seen, err := b.receiver.seen(ctx, lane.bare())
		return seen.Last >= end.UnixMicro() || seen.Requests >= lane.backlog(h.until), err
	})
}

// holds prints what the receiver saw of a lane: limits over all that arrived, the use over the measurement.
func (b *bench) holds(ctx context.Context, lane benchLane, processes int, h held) error {
	seen, err := b.receiver.arrivals(ctx, lane.bare())
	if err != nil {
		return err
	}
	at, within := make([]float64, len(seen.Arrivals)), 0 // seconds since the measurement's start; some are from before
	for i, arrival := range seen.Arrivals {
		at[i] = float64(arrival.At-h.from.UnixMicro()) / 1e6
		if at[i] > 0 && at[i] <= h.until {
			within++
		}
	}
	row := benchRow{
		what: fmt.Sprintf("(e) %s, %s", lane, plural(processes, "process", "processes")),
		rate: float64(within) / h.until, ratio: math.NaN(), cost: unknownCost,
	}
	if lane.rate > 0 {
		use := 100 * rateUse(at, lane.rate, 0, h.until)
		excess := math.Round(1000*rateExcess(at, lane.rate, lane.burst)) / 1000
		want := 92.0
		if float64(lane.burst) >= 1+lane.rate*0.015 {
			want = 97
		}
		row.figures = append(row.figures, benchFigure{"use", use, "%.1f %%"}, benchFigure{"excess", excess, "%+.2f"})
		row.bars = append(row.bars, atLeast("use %", use, want), atMost("excess", excess, 0))
	}
	if lane.rate == 0 {
		row.figures = append(row.figures, benchFigure{"use of the cap", 100 * rateUse(at, lane.most(), 0, h.until), "%.1f %%"})
	}
	row.figures = append(row.figures, benchFigure{"most in flight", float64(seen.MaxInFlight), "%.0f"})
	row.bars = append(row.bars, atMost("in flight", float64(seen.MaxInFlight), float64(lane.cap)))
	if h.kill > 0 {
		lost, after := rateLost(at, 0, h.kill)
		share := 2 * lane.most() / float64(processes) // a slot is at most two seconds ahead
		row.what += ", one killed"
		row.figures = append(row.figures, benchFigure{"lost", lost, "%.0f requests"}, benchFigure{"within", after, "%.1f s"})
		row.bars = append(row.bars, atMost("lost, its share of 2 s", lost, share))
	}
	return b.row(row)
}

// bare is the lane's path without the query.
func (l benchLane) bare() string {
	path, _, _ := strings.Cut(l.path, "?")
	return path
}

// most is how many requests a second the lane may send at most: what its rate allows or, where only the cap limits it, its receiver's delay.
func (l benchLane) most() float64 {
	if l.rate > 0 {
		return l.rate
	}
	return float64(l.cap) / l.delay.Seconds()
}

// backlog is how many events keep the lane busy for so many seconds, and while they are published: with something to spare.
func (l benchLane) backlog(seconds float64) int { return int(l.most()*(seconds+5)*1.25) + l.burst + 20 }

// String is what limits the lane.
func (l benchLane) String() string {
	if l.rate > 0 {
		return fmt.Sprintf("%g/s burst %d cap %d", l.rate, l.burst, l.cap)
	}
	return fmt.Sprintf("cap %d, answers after %s", l.cap, l.delay)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
