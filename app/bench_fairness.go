package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// disturbance is what the others of part d must not feel.
type disturbance struct {
	name   string
	lane   benchLane
	events int
	retry  time.Duration // after which what was refused comes back; 0: the default schedule
	during bool          // published while the others are at work, and watched until all of it has come twice
}

// fairness is part d: what others feel of a backlog, of a slow receiver and of a storm of retries. 20 events a second go to a lane of their
// own: first beside nothing, then beside the disturbance, on the same database and by the same process.
func (b *bench) fairness(ctx context.Context) error {
	for _, d := range []disturbance{
		{
			name: fmt.Sprintf("%d parked behind 20/s", b.parked), events: b.parked,
			lane: benchLane{path: "/behind", eventType: "bench.behind", rate: 20, burst: 20, cap: 16},
		},
		{
			name: fmt.Sprintf("a 3 s receiver, %d wait", max(1, b.parked/5)), events: max(1, b.parked/5),
			lane: benchLane{path: "/late?delay=3s", eventType: "bench.late", rate: 100, burst: 20, cap: 4},
		},
		{
			name: fmt.Sprintf("%d refused once", b.storm), events: b.storm, during: true,
			lane:  benchLane{path: "/storm?refuse=first", eventType: "bench.storm", rate: 500, burst: 50, cap: 200},
			retry: min(5*time.Second, time.Duration(b.others)*time.Second/4),
		},
	} {
		if err := b.disturb(ctx, d); err != nil {
			return err
		}
		if err := errors.Join(b.empty(ctx), b.receiver.forget(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// othersPerSecond is the stream that is watched.
const othersPerSecond = 20

func (b *bench) disturb(ctx context.Context, d disturbance) error {
	if err := b.subscribe(ctx, benchLane{path: "/timed/others", eventType: "bench.others", rate: 100, burst: 20, cap: 16}); err != nil {
		return err
	}
	if err := b.subscribe(ctx, d.lane); err != nil {
		return err
	}
	if d.retry > 0 {
		_, err := b.store.pool.Exec(ctx, "UPDATE destination SET retry_schedule_ms = ARRAY[$2::bigint] WHERE name = $1", d.lane.path, d.retry.Milliseconds())
		if err != nil {
			return fmt.Errorf("set the retry schedule: %w", err)
		}
	}
	workers, err := b.startWorkers(ctx, 1)
	if err != nil {
		return err
	}
	defer workers.stop()
	stream := pace{
		path: "/timed/others", eventType: "bench.others",
		perSecond: othersPerSecond, n: othersPerSecond/2 + othersPerSecond*b.others, warm: othersPerSecond / 2,
	}
	alone, err := b.paced(ctx, workers, stream)
	if err != nil {
		return err
	}
	row := benchRow{rate: othersPerSecond, ratio: math.NaN(), cost: unknownCost}
	row.what, row.figures = "(d) others at 20/s, beside nothing", milliseconds(alone, "", 50, 95, 99)
	if err := b.row(row); err != nil {
		return err
	}
	beside, note, err := b.beside(ctx, workers, d, stream)
	if err != nil {
		return err
	}
	row.what, row.figures, row.note = "(d) others at 20/s, beside "+d.name, milliseconds(beside, "", 50, 95, 99), note
	for _, bar := range []struct{ percent, most float64 }{{95, 60}, {99, 120}} {
		before, with := percentile(alone, bar.percent), percentile(beside, bar.percent)
		row.bars = append(row.bars,
			atMost(fmt.Sprintf("p%g ms", bar.percent), with, bar.most),
			atMost(fmt.Sprintf("p%g ms beside 1.5 × alone + 20", bar.percent), with, 1.5*before+20))
	}
	return b.row(row)
}

// beside is the stream while the disturbance lasts; the note says what became of that.
func (b *bench) beside(ctx context.Context, workers benchWorkers, d disturbance, stream pace) (waits []float64, note string, err error) {
	path, start, published := d.lane.bare(), time.Now(), make(chan error, 1)
	if d.during {
		go func() { published <- b.publish(ctx, d.lane.eventType, d.events, 1000) }()
		stream.more = func() (bool, error) {
			seen, err := b.receiver.seen(ctx, path)
			return seen.Requests < 2*d.events, err
		}
	} else {
		if err := b.publish(ctx, d.lane.eventType, d.events, 1000); err != nil {
			return nil, "", err
		}
		published <- nil
		note = fmt.Sprintf("published in %.0f s; ", time.Since(start).Seconds())
	}
	defer func() { err = errors.Join(err, <-published) }()
	before, err := b.receiver.seen(ctx, path)
	if err != nil {
		return nil, "", err
	}
	start = time.Now()
	if waits, err = b.paced(ctx, workers, stream); err != nil {
		return nil, "", err
	}
	took := time.Since(start)
	after, err := b.receiver.seen(ctx, path)
	if err != nil {
		return nil, "", err
	}
	note += fmt.Sprintf("that lane %.1f/s", float64(after.Requests-before.Requests)/took.Seconds())
	if d.during {
		note += fmt.Sprintf(", %d of %d requests within %.0f s, back after %s", after.Requests, 2*d.events, took.Seconds(), d.retry)
	}
	return waits, note, nil
}
