package jobs

import (
	"context"
	"fmt"
	"time"

	"weir/db"
	"weir/db/dbsqlc"
)

// History is the last day of a lane, minute by minute, without the minute under way.
type History struct {
	From    time.Time // of the first minute
	Minutes []Minute
	First   time.Time // the minute of the first arrival; zero: nothing came
	Arrived int64
}

// forecastStretch is how far back a forecast looks: the tally keeps its minutes for twice as long.
const forecastStretch = 24 * time.Hour

// LoadHistory reads what came for the destinations of a lane and what was answered. A lane without any has minutes of zeros.
func LoadHistory(ctx context.Context, conn db.Conn, queries *dbsqlc.Queries, laneID int64, now time.Time) (History, error) {
	h := History{From: now.UTC().Truncate(time.Minute).Add(-forecastStretch), Minutes: make([]Minute, int(forecastStretch/time.Minute))}
	rows, err := queries.TallyListByLane(ctx, conn, laneID, h.From)
	if err != nil {
		return History{}, fmt.Errorf("read the tally of a lane: %w", err)
	}
	for _, row := range rows {
		m := int(row.At.Sub(h.From) / time.Minute)
		if m < 0 || m >= len(h.Minutes) {
			continue
		}
		h.Minutes[m] = Minute{
			Arrived: row.Arrived, Requests: row.Requests, OK: row.Ok, RateLimited: row.RateLimited, Refused: row.Refused, TimedOut: row.TimedOut,
			Retried: row.Retried, Took: time.Duration(row.TookUs) * time.Microsecond, Delivered: row.Delivered, DeadLettered: row.DeadLettered,
			Expired: row.Expired, LongestWait: time.Duration(row.LongestWaitUs) * time.Microsecond,
		}
		if row.Arrived > 0 && h.First.IsZero() {
			h.First = row.At.UTC()
		}
		h.Arrived += row.Arrived
	}
	return h, nil
}

// Measured sums up what really happened.
func (h History) Measured() Forecast {
	var f Forecast
	for _, m := range h.Minutes {
		f.Arrived += m.Arrived
		f.Requests += m.Requests
		f.Delivered += m.Delivered
		f.DeadLettered += m.DeadLettered
		f.Expired += m.Expired
		f.LongestWait = max(f.LongestWait, m.LongestWait)
	}
	return f
}

// evidence is how many requests an estimate wants, and evidenceBack how many minutes it may look back for them: a minute with one request
// says little about one with a hundred.
const (
	evidence     = 20
	evidenceBack = 30
)

// odds are what becomes of an attempt at a time: ok, refused and failed are shares of those that were not answered 429 and make 1 together;
// limited is the share of 429s among all; took is the time of one request, 0 where it is not known.
type odds struct {
	ok, refused, failed, limited float64
	took                         time.Duration
}

// oddsOf estimates the odds of each minute from the requests up to it: the newest twenty, at most half an hour old. Where there were none, the
// whole stretch stands in; where there was none at all, everything is taken at once.
func oddsOf(minutes []Minute, timeout time.Duration) []odds {
	var all Minute
	for _, m := range minutes {
		all = all.plus(m)
	}
	fallback := all.odds(timeout)
	out := make([]odds, len(minutes))
	for i := range minutes {
		var seen Minute
		for back := i; back >= 0 && back > i-evidenceBack && seen.Requests < evidence; back-- {
			seen = seen.plus(minutes[back])
		}
		if out[i] = fallback; seen.Requests > 0 {
			out[i] = seen.odds(timeout)
		}
	}
	return out
}

// plus adds up what odds are made from.
func (m Minute) plus(o Minute) Minute {
	return Minute{
		Requests: m.Requests + o.Requests, OK: m.OK + o.OK, RateLimited: m.RateLimited + o.RateLimited, Refused: m.Refused + o.Refused,
		TimedOut: m.TimedOut + o.TimedOut, Retried: m.Retried + o.Retried, Took: m.Took + o.Took,
	}
}

// mostLimited bounds the share of 429s: a minute that had nothing else would hold everything up for good.
const mostLimited = 0.9

func (m Minute) odds(timeout time.Duration) odds {
	if m.Requests == 0 {
		return odds{ok: 1}
	}
	o := odds{
		limited: min(mostLimited, float64(m.RateLimited)/float64(m.Requests)),
		took:    (m.Took + time.Duration(m.TimedOut)*timeout) / time.Duration(m.Requests),
	}
	judged := m.Requests - m.RateLimited
	if judged <= 0 {
		o.ok = 1
		return o
	}
	// What was refused ends there, unless more was tried again than failed or was answered 429: a rule of the destination's had it retried.
	failed := judged - m.OK - m.Refused
	retried := min(m.Refused, max(0, m.Retried-m.RateLimited-failed))
	o.failed = float64(failed+retried) / float64(judged)
	o.refused = float64(m.Refused-retried) / float64(judged)
	o.ok = max(0, 1-o.failed-o.refused)
	return o
}
