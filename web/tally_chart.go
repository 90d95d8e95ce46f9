package web

import (
	"context"
	"fmt"
	"math"
	"time"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

// lookback is how far back the charts of a page look.
type lookback struct {
	Key    string // in the address
	Label  string // "1 h"
	Words  string // "the last hour"
	Length time.Duration
	Step   int32         // of the tally, in seconds
	Bin    time.Duration // of a chart: about 60 of them
}

// lookbacks are what can be chosen; the first is what a page shows at first. Minutes of the tally are kept for 48 hours.
var lookbacks = []lookback{
	{"1h", "1 h", "the last hour", time.Hour, 60, time.Minute},
	{"24h", "24 h", "the last 24 hours", 24 * time.Hour, 60, 30 * time.Minute},
	{"7d", "7 d", "the last 7 days", 7 * 24 * time.Hour, 3600, 3 * time.Hour},
}

// lookbackOf reads ?range=; what is not known is the first.
func lookbackOf(key string) lookback {
	for _, st := range lookbacks {
		if st.Key == key {
			return st
		}
	}
	return lookbacks[0]
}

// every names a bin in a title: "a minute", "every 30 min".
func (st lookback) every() string {
	if st.Bin == time.Minute {
		return "a minute"
	}
	return "every " + ui.Span(st.Bin)
}

// series is the tally of one destination, or of all (0), over a stretch that ends now.
type series struct {
	lookback
	now  time.Time
	bins []time.Time
	rows []dbsqlc.TallyListByMinuteRow
}

// tallySeries reads one row per minute or hour: 1,440 at most.
func (s *Server) tallySeries(ctx context.Context, destination int64, st lookback, now time.Time) (series, error) {
	t := series{lookback: st, now: now, bins: ui.BinsBetween(now.Add(-st.Length), now, st.Bin)}
	var err error
	t.rows, err = s.queries.TallyListByMinute(ctx, s.Pool, dbsqlc.TallyListByMinuteParams{
		BinS: int32(st.Bin / time.Second), DestinationID: destination, StepS: st.Step, Since: t.bins[0],
	})
	if err != nil {
		return t, fmt.Errorf("list tally: %w", err)
	}
	return t, nil
}

type tallyRow = dbsqlc.TallyListByMinuteRow

func (t series) values(none float64, value func(tallyRow) float64) []float64 {
	return ui.Spread(t.bins, t.Bin, t.rows, none, func(r tallyRow) time.Time { return r.Bin }, value)
}

func (t series) count(name string, hue ui.Hue, value func(tallyRow) int64) ui.Series {
	return ui.Series{Name: name, Hue: hue, Values: t.values(0, func(r tallyRow) float64 { return float64(value(r)) })}
}

// seconds is a series of microseconds over how many; there is no figure where there are none.
func (t series) seconds(name string, hue ui.Hue, value func(tallyRow) (us, n int64)) ui.Series {
	return ui.Series{Name: name, Hue: hue, Values: t.values(math.NaN(), func(r tallyRow) float64 {
		us, n := value(r)
		if n == 0 {
			return math.NaN()
		}
		return float64(us) / float64(n) / 1e6
	})}
}

func (t series) chart(id, title string) ui.Chart {
	return ui.Chart{ID: id, Title: title + " " + t.every(), Empty: "Nothing in " + t.Words + ".", Bins: t.bins, Step: t.Bin, Now: t.now}
}

// delivered is how many were, in all of it.
func (t series) delivered() (n int64) {
	for _, row := range t.rows {
		n += row.Delivered
	}
	return n
}

// outcomeChart shows what requests and waits came to, for deliveries.
func (t series) outcomeChart(id string) ui.Chart {
	c := t.chart(id, "Outcomes")
	c.Series = []ui.Series{
		t.count("delivered", ui.HueGood, func(r tallyRow) int64 { return r.Delivered }),
		t.count("to be retried", ui.HueWarn, func(r tallyRow) int64 { return r.Retried }),
		t.count("dead-lettered", ui.HueBad, func(r tallyRow) int64 { return r.DeadLettered }),
		t.count("expired", ui.HueRust, func(r tallyRow) int64 { return r.Expired }),
	}
	for _, rare := range []ui.Series{
		t.count("superseded", ui.HueCalm, func(r tallyRow) int64 { return r.Superseded }),
		t.count("cancelled", ui.HuePlum, func(r tallyRow) int64 { return r.Cancelled }),
	} {
		if rare.Total() > 0 {
			c.Series = append(c.Series, rare)
		}
	}
	return c
}

// answerChart shows what receivers answered, by class.
func (t series) answerChart(id string) ui.Chart {
	c := t.chart(id, "Answers")
	c.Series = []ui.Series{
		t.count("2xx", ui.HueGood, func(r tallyRow) int64 { return r.Ok }),
		t.count("429", ui.HueWarn, func(r tallyRow) int64 { return r.RateLimited }),
		t.count("3xx, 4xx", ui.HuePlum, func(r tallyRow) int64 { return r.Refused }),
		t.count("5xx", ui.HueBad, func(r tallyRow) int64 { return r.ServerError }),
		t.count("timeout", ui.HueRust, func(r tallyRow) int64 { return r.Timeout }),
		t.count("connection", ui.HueBlue, func(r tallyRow) int64 { return r.Network }),
	}
	if other := t.count("other", ui.HueCalm, func(r tallyRow) int64 { return r.Other }); other.Total() > 0 {
		c.Series = append(c.Series, other)
	}
	return c
}

// latencyChart shows how long answers took.
func (t series) latencyChart(id string) ui.Chart {
	c := t.chart(id, "")
	c.Unit, c.Lines, c.Title = ui.Seconds, true, "Time to answer"
	slowest := t.seconds("slowest", ui.HuePlum, func(r tallyRow) (int64, int64) { return r.SlowestUs, min(1, answered(r)) })
	slowest.Quiet = true
	c.Series = []ui.Series{t.seconds("mean", ui.HueAccent, func(r tallyRow) (int64, int64) { return r.TookUs, answered(r) }), slowest}
	return c
}

// waitChart shows how long requests waited from when they were due until they were sent: for a token, a place in flight or a worker.
func (t series) waitChart(id string) ui.Chart {
	c := t.chart(id, "")
	c.Unit, c.Lines, c.Title = ui.Seconds, true, "Wait from due to sent"
	longest := t.seconds("longest", ui.HuePlum, func(r tallyRow) (int64, int64) { return r.LongestWaitUs, min(1, r.Requests) })
	longest.Quiet = true
	c.Series = []ui.Series{t.seconds("mean", ui.HueBlue, func(r tallyRow) (int64, int64) { return r.WaitUs, r.Requests }), longest}
	return c
}

// answered is how many requests got a status.
func answered(r tallyRow) int64 { return r.Ok + r.RateLimited + r.Refused + r.ServerError }
