package main

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// benchRow is a line of the table. What was not measured is NaN.
type benchRow struct {
	what  string
	rate  float64 // pieces per second
	ratio float64 // to River's no-op
	cost  benchCost
	note  string
}

// benchCost is what one piece of work took; the zero value is not "nothing": see unknownCost.
type benchCost struct {
	wal                      float64 // KB
	weir, postgres, receiver float64 // CPU seconds per thousand
}

var unknownCost = benchCost{math.NaN(), math.NaN(), math.NaN(), math.NaN()}

const benchLine = "%-48s %10s %8s %8s %6s %15s %8s  %s\n"

func (b *bench) header() {
	say(b.out, "of no-op: beside part a of this run. WAL: KB per piece. weir, postgres, receiver: CPU seconds per 1,000 pieces.\n")
	fmt.Fprintf(b.out, benchLine, "what", "per second", "of no-op", "WAL", "weir", "postgres", "receiver", "")
}

// row prints at once: a run takes minutes, and one that is stopped has measured something too.
func (b *bench) row(r benchRow) {
	postgres := benchNumber(r.cost.postgres, "%.3f")
	if b.server == 0 && b.store.server == nil && !math.IsNaN(r.cost.wal) {
		postgres = "not ours to see"
	}
	fmt.Fprintf(b.out, benchLine, r.what, benchNumber(r.rate, "%.1f"), benchNumber(r.ratio, "%.2f"), benchNumber(r.cost.wal, "%.2f"),
		benchNumber(r.cost.weir, "%.3f"), postgres, benchNumber(r.cost.receiver, "%.3f"), r.note)
}

func benchNumber(f float64, format string) string {
	if math.IsNaN(f) {
		return "–"
	}
	return fmt.Sprintf(format, f)
}

// ofNoop is the ratio to part a.
func (b *bench) ofNoop(rate float64) float64 {
	if b.noop == 0 {
		return math.NaN()
	}
	return rate / b.noop
}

// benchUsage is what has been used up to a moment.
type benchUsage struct{ weir, postgres, receiver float64 }

// usage reads the CPU time of Weir's processes, the server and the receiver.
func (b *bench) usage(weir ...int) benchUsage {
	u := benchUsage{postgres: math.NaN(), receiver: processCPU(b.receiver.process.pid())}
	for _, pid := range weir {
		u.weir += processCPU(pid)
	}
	if b.server != 0 {
		u.postgres = serverCPU(b.server)
	}
	return u
}

// cost divides what was used between two moments by n pieces of work.
func (u benchUsage) cost(after benchUsage, wal float64, n int) benchCost {
	per := 1000 / float64(n)
	return benchCost{wal / float64(n) / 1024, (after.weir - u.weir) * per, (after.postgres - u.postgres) * per, (after.receiver - u.receiver) * per}
}

// wal is how many bytes the server has written ahead.
func (b *bench) wal(ctx context.Context) (bytes float64, err error) {
	if err := b.store.pool.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8").Scan(&bytes); err != nil {
		return 0, fmt.Errorf("read the WAL's position: %w", err)
	}
	return bytes, nil
}

// percentile is the nearest rank: the smallest value that at least p percent of all do not exceed. It sorts values; NaN without any.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	rank := int(math.Ceil(p / 100 * float64(len(values))))
	return values[max(rank, 1)-1]
}

// rateExcess is how far arrivals (in seconds, ascending) broke a limit: the most, over all windows, of n − burst − rate·t. Nothing above
// zero is a limit that was kept. The best window to end at an arrival begins where (its number − rate·its time) was least.
func rateExcess(at []float64, rate float64, burst int) float64 {
	worst, least := math.Inf(-1), math.Inf(1)
	for i, t := range at {
		line := float64(i) - rate*t
		least = min(least, line)
		worst = max(worst, line-least+1-float64(burst))
	}
	if len(at) == 0 {
		return math.NaN()
	}
	return worst
}

// rateUse is which part of the allowed rate was used from the first to the last arrival, the burst left out.
func rateUse(at []float64, rate float64, burst int) float64 {
	if len(at) <= burst {
		return math.NaN()
	}
	return float64(len(at)-burst) / (rate * (at[len(at)-1] - at[0]))
}
