package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
)

// benchRow is a line of the table. What was not measured is NaN.
type benchRow struct {
	what    string
	rate    float64 // pieces per second
	ratio   float64 // to River's no-op
	cost    benchCost
	figures []benchFigure
	note    string
	bars    []benchBar
	top     []topStatement // for --json alone
}

// benchFigure is one more number of a row, such as a percentile.
type benchFigure struct {
	name   string
	value  float64
	format string // with its unit: "%.1f ms"
}

func (f benchFigure) String() string { return f.name + " " + benchNumber(f.value, f.format) }

// milliseconds are the percentiles of waits, as figures.
func milliseconds(waits []float64, of string, percents ...float64) (figures []benchFigure) {
	for _, p := range percents {
		figures = append(figures, benchFigure{fmt.Sprintf("%sp%g", of, p), percentile(waits, p), "%.1f ms"})
	}
	return figures
}

// benchCost is what one piece of work took; the zero value is not "nothing": see unknownCost.
type benchCost struct {
	wal                      float64 // KB
	weir, postgres, receiver float64 // CPU seconds per thousand
}

var unknownCost = benchCost{math.NaN(), math.NaN(), math.NaN(), math.NaN()}

const benchLine = "%-56s %10s %8s %8s %6s %15s %8s  %s\n"

func (b *bench) header(ctx context.Context) error {
	var server string
	err := b.store.pool.QueryRow(ctx, `SELECT format('Postgres %s, fsync %s, synchronous_commit %s, shared_buffers %s', current_setting('server_version'),
		current_setting('fsync'), current_setting('synchronous_commit'), current_setting('shared_buffers'))`).Scan(&server)
	if err != nil {
		return fmt.Errorf("read the server's settings: %w", err)
	}
	say(b.out, "%s; %d cores", server, runtime.NumCPU())
	say(b.out, "of no-op: beside part a of this run. WAL: KB per piece. weir, postgres, receiver: CPU seconds per 1,000 pieces.\n")
	fmt.Fprintf(b.out, benchLine, "what", "per second", "of no-op", "WAL", "weir", "postgres", "receiver", "")
	return nil
}

// row prints at once: a run takes minutes, and one that is stopped has measured something too.
func (b *bench) row(r benchRow) error {
	postgres := benchNumber(r.cost.postgres, "%.3f")
	if b.server == 0 && b.store.server == nil && !math.IsNaN(r.cost.wal) {
		postgres = "not ours to see"
	}
	var notes []string
	for _, figure := range r.figures {
		notes = append(notes, figure.String())
	}
	if r.note != "" {
		notes = append(notes, r.note)
	}
	fmt.Fprintf(b.out, benchLine, r.what, benchNumber(r.rate, "%.1f"), benchNumber(r.ratio, "%.2f"), benchNumber(r.cost.wal, "%.2f"),
		benchNumber(r.cost.weir, "%.3f"), postgres, benchNumber(r.cost.receiver, "%.3f"), strings.Join(notes, ", "))
	if len(r.bars) > 0 {
		bars := make([]string, len(r.bars))
		for i, x := range r.bars {
			bars[i] = x.String()
		}
		say(b.out, "      bar: %s", strings.Join(bars, "; "))
	}
	b.score.add(r)
	if b.lines == nil {
		return nil
	}
	if err := b.lines.Encode(r.json()); err != nil {
		return fmt.Errorf("write --json: %w", err)
	}
	return nil
}

// json is the row for programs: what was not measured is left out.
func (r benchRow) json() map[string]any {
	line := map[string]any{"what": r.what}
	number := func(into map[string]any, name string, value float64) {
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			into[name] = value
		}
	}
	number(line, "per_second", r.rate)
	number(line, "of_noop", r.ratio)
	number(line, "wal_kb", r.cost.wal)
	number(line, "weir_cpu_s_per_1000", r.cost.weir)
	number(line, "postgres_cpu_s_per_1000", r.cost.postgres)
	number(line, "receiver_cpu_s_per_1000", r.cost.receiver)
	if r.note != "" {
		line["note"] = r.note
	}
	if len(r.figures) > 0 {
		figures := map[string]any{}
		for _, f := range r.figures {
			number(figures, f.name, f.value)
		}
		line["figures"] = figures
	}
	var bars []map[string]any
	for _, x := range r.bars {
		bar := map[string]any{"what": x.what, "sign": x.sign(), "want": x.want, "reached": x.measured() && x.reached()}
		number(bar, "got", x.got)
		bars = append(bars, bar)
	}
	if bars != nil {
		line["bars"] = bars
	}
	if r.top != nil {
		line["top_statements"] = r.top
	}
	return line
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

// rateUse is which part of the allowed rate was used while there was a backlog, from the last arrival up to from to the first one from until
// on: whole intervals, so that a stall at either end counts. NaN where nothing arrived from until on.
func rateUse(at []float64, rate, from, until float64) float64 {
	first := 0
	for first+1 < len(at) && at[first+1] <= from {
		first++
	}
	for last := first + 1; last < len(at); last++ {
		if at[last] >= until {
			return float64(last-first) / (rate * (at[last] - at[first]))
		}
	}
	return math.NaN()
}

// rateLost is what the end of a process cost: how many arrivals fewer than before (from is when those began to be steady) there were after it,
// at most, and within how many seconds they went missing. The arrivals are in seconds, ascending.
func rateLost(at []float64, from, end float64) (lost, after float64) {
	before := 0
	for _, t := range at {
		if t > from && t <= end {
			before++
		}
	}
	rate, n := float64(before)/(end-from), 0
	type deficit struct{ missing, after float64 }
	var deficits []deficit
	for _, t := range at {
		if t <= end {
			continue
		}
		deficits = append(deficits, deficit{rate*(t-end) - float64(n), t - end}) // just before this arrival
		lost, n = max(lost, deficits[n].missing), n+1
	}
	for _, d := range deficits {
		if d.missing >= lost-1 { // no more than one is missing after this
			return lost, d.after
		}
	}
	return lost, 0
}
