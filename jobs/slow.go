package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"weir/db/dbsqlc"
	"weir/jobs/webhook"
)

// When a lane counts as slow, and when it has recovered.
const (
	slowMean      = time.Second            // a longer mean over slowAnswers or more answers within slowWindow is slow,
	slowWindow    = 10 * time.Second       //
	slowAnswers   = 5                      //
	slowTimeouts  = 3                      // as are so many requests in a row without an answer in time,
	hanging       = time.Second            // or crowd requests of one process that have lasted longer than this
	recoveredMean = 500 * time.Millisecond // a shorter mean over as many answers since the mark has recovered,
	recoverAfter  = 30 * time.Second       // or over at least one answer, once the mark is this old
	forgetAfter   = 5 * time.Minute        // what is known of a lane without requests
)

// slowTracker watches how long the receivers of this process's requests take, and marks lanes as slow and as recovered. Nothing of it is
// on the way of a request but a lock and a few additions; once a second it looks at what it has, and writes only when a lane changes over.
// Processes may see different things: any of them can mark a lane, only one that had answers since can unmark it, and not within ten
// seconds. A lane to which nobody sends is unmarked by the sweep.
type slowTracker struct {
	pool    *pgxpool.Pool
	queries *dbsqlc.Queries
	log     *slog.Logger
	crowd   int                                            // so many hanging requests of one lane are too many for this process
	onSlow  func(ctx context.Context, lanes []int64) error // called after lanes were marked, by the process that did it; nil: nothing

	mu      sync.Mutex
	flights map[*flight]struct{}
	lanes   map[int64]*laneTimes
	marked  map[int64]time.Time // the lanes marked slow, and when this process learned of it
}

type flight struct {
	lane  int64
	since time.Time
}

// laneTimes are the last answers of one lane.
type laneTimes struct {
	last     [32]answerTime
	n        int // answers put in; the next goes to n modulo the length
	timeouts int // in a row
	touched  time.Time
}

type answerTime struct {
	at     time.Time
	took   time.Duration
	failed bool // 429 or 5xx: quick or not, the receiver did not do its work
}

func newSlowTracker(pool *pgxpool.Pool, queries *dbsqlc.Queries, log *slog.Logger, workers int) *slowTracker {
	return &slowTracker{
		pool: pool, queries: queries, log: log, crowd: max(8, workers/20),
		flights: map[*flight]struct{}{}, lanes: map[int64]*laneTimes{}, marked: map[int64]time.Time{},
	}
}

// enter is called before a request; what it returns, after it, with what came of it.
func (s *slowTracker) enter(lane int64) func(webhook.Outcome) {
	f := &flight{lane, time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flights[f] = struct{}{}
	return func(o webhook.Outcome) { s.leave(f, o) }
}

func (s *slowTracker) leave(f *flight, o webhook.Outcome) {
	now := time.Now()
	timeout := o.ErrorClass == webhook.ClassTimeout || o.ErrorClass == webhook.ClassConnectTimeout
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flights, f)
	if o.Status == 0 && !timeout {
		return // refused or reset, or cut by ourselves: it says nothing about how long an answer takes
	}
	l := s.lanes[f.lane]
	if l == nil {
		l = &laneTimes{}
		s.lanes[f.lane] = l
	}
	l.last[l.n%len(l.last)] = answerTime{now, now.Sub(f.since), o.Status == http.StatusTooManyRequests || o.Status >= http.StatusInternalServerError}
	l.n++
	l.touched = now
	if l.timeouts++; !timeout {
		l.timeouts = 0
	}
}

// mean is that of the answers since a time, and over how many; of the last 32 at most. A receiver that is slow and now and then says 503 at
// once has not recovered: for the way back such answers do not count.
func (l *laneTimes) mean(since time.Time, failed bool) (mean time.Duration, n int) {
	var sum time.Duration
	for _, a := range l.last[:min(l.n, len(l.last))] {
		if !a.at.Before(since) && (failed || !a.failed) {
			sum += a.took
			n++
		}
	}
	return sum / time.Duration(max(1, n)), n
}

// run checks once a second until ctx ends.
func (s *slowTracker) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := s.check(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "check for slow lanes", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// check reads which lanes are marked, judges the others and those, and writes what has changed over.
func (s *slowTracker) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ids, err := s.queries.LaneListIDSlow(ctx, s.pool)
	if err != nil {
		return fmt.Errorf("list slow lanes: %w", err)
	}
	slow, recovered := s.judge(time.Now(), ids)
	if len(recovered) > 0 {
		lanes, reasons := columns(recovered)
		if lanes, err = s.queries.LaneMarkRecovered(ctx, s.pool, lanes, reasons); err != nil {
			return fmt.Errorf("mark lanes as recovered: %w", err)
		}
		for _, lane := range lanes {
			s.log.InfoContext(ctx, "lane recovered", "lane", lane, "reason", recovered[lane])
		}
	}
	if len(slow) == 0 {
		return nil
	}
	lanes, reasons := columns(slow)
	if lanes, err = s.queries.LaneMarkSlow(ctx, s.pool, lanes, reasons); err != nil {
		return fmt.Errorf("mark lanes as slow: %w", err)
	}
	for _, lane := range lanes {
		s.log.WarnContext(ctx, "lane is slow", "lane", lane, "reason", slow[lane])
	}
	if len(lanes) > 0 && s.onSlow != nil {
		return s.onSlow(ctx, lanes)
	}
	return nil
}

// columns are the lanes in id order and their reasons.
func columns(byLane map[int64]string) (lanes []int64, reasons []string) {
	lanes = slices.Sorted(maps.Keys(byLane))
	for _, lane := range lanes {
		reasons = append(reasons, byLane[lane])
	}
	return lanes, reasons
}

// judge says which lanes have become slow and which have recovered, each with the sentence that is recorded. What was known of a lane
// before its mark came or went is forgotten: only what came since decides about the way back.
func (s *slowTracker) judge(now time.Time, marked []int64) (slow, recovered map[int64]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow(now, marked)
	hang := map[int64]int{}
	for f := range s.flights {
		if now.Sub(f.since) > hanging {
			hang[f.lane]++
		}
	}
	slow, recovered = map[int64]string{}, map[int64]string{}
	for lane, n := range hang {
		if _, is := s.marked[lane]; !is && n >= s.crowd {
			slow[lane] = fmt.Sprintf("%d requests of one process have waited more than %s for an answer", n, spell(hanging))
		}
	}
	for lane, l := range s.lanes {
		since, is := s.marked[lane]
		switch {
		case is && hang[lane] == 0:
			if reason := l.recovered(now, since); reason != "" {
				recovered[lane] = reason
			}
		case !is && slow[lane] == "":
			if reason := l.slow(now); reason != "" {
				slow[lane] = reason
			}
		}
		if now.Sub(l.touched) > forgetAfter {
			delete(s.lanes, lane)
		}
	}
	return slow, recovered
}

// follow takes over which lanes are marked.
func (s *slowTracker) follow(now time.Time, marked []int64) {
	before := s.marked
	s.marked = make(map[int64]time.Time, len(marked))
	for _, lane := range marked {
		since, known := before[lane]
		if !known {
			since = now
			delete(s.lanes, lane)
		}
		s.marked[lane] = since
		delete(before, lane)
	}
	for lane := range before { // unmarked since
		delete(s.lanes, lane)
	}
}

// slow is why the lane is slow, or empty.
func (l *laneTimes) slow(now time.Time) string {
	if mean, n := l.mean(now.Add(-slowWindow), true); n >= slowAnswers && mean > slowMean {
		return fmt.Sprintf("answers took %s on average over the last %d", spell(mean), n)
	}
	if l.timeouts >= slowTimeouts {
		return fmt.Sprintf("%d requests in a row got no answer in time", l.timeouts)
	}
	return ""
}

// recovered is why a lane that was marked at since is so no longer, or empty.
func (l *laneTimes) recovered(now, since time.Time) string {
	mean, n := l.mean(now.Add(-recoverAfter), false)
	enough := n >= slowAnswers || (n > 0 && now.Sub(since) >= recoverAfter)
	if !enough || mean >= recoveredMean {
		return ""
	}
	if n == 1 {
		return fmt.Sprintf("the last answer took %s", spell(mean))
	}
	return fmt.Sprintf("answers took %s on average over the last %d", spell(mean), n)
}

// spell writes a duration as a person would say it: 3.1 s, 80 ms.
func spell(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}

// moveToQueue moves what waits for a worker and belongs to these lanes to the slow queue.
func (s *slowTracker) moveToQueue(ctx context.Context, lanes []int64) error {
	const page = 5000
	for {
		n, err := s.queries.RiverJobMoveToSlow(ctx, s.pool, lanes, page)
		if err != nil {
			return fmt.Errorf("move jobs to the slow queue: %w", err)
		}
		if n < page {
			return nil
		}
	}
}
