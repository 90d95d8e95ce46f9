package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

// What a concern is about: the constraint that keeps deliveries from being delivered.
const (
	aboutUs       = "us" // no worker, no discovery, a process that is gone
	aboutState    = "stopped"
	aboutPayload  = "payload"
	aboutReceiver = "receiver"
	aboutRate     = "rate"
	aboutDead     = "dead letters"
)

// concern is one sentence about something that somebody should look at.
type concern struct {
	Tone     string // "bad", "warn"
	About    string
	Name     string // of the destination or lane; empty for us
	Href     string // where to look; empty: nowhere else
	Sentence string // goes on from the name
	Affected int64  // how many deliveries or requests: the more, the worse
}

// figures is what is known of a destination while its concerns are found.
type figures struct {
	dbsqlc.AttentionListDestinationRow
	HeadDue, HeadExpires time.Time // of the first in line; zero: nothing is behind the gate
	Dead                 []deadGroup
	History              []answersAt // newest first
}

// destinationConcerns are all concerns about one destination but its line, which is its lane's.
func destinationConcerns(f figures, now time.Time) []concern {
	var all []concern
	for _, find := range []func(figures, time.Time) (concern, bool){stateConcern, holdConcern, slowConcern, healthConcern} {
		if c, ok := find(f, now); ok {
			c.Name, c.Href = f.Name, "/destinations/"+formatID(idDestination, f.ID)
			all = append(all, c)
			break // what comes first explains what comes after
		}
	}
	for _, c := range deadConcerns(f, now) {
		c.Name = f.Name
		all = append(all, c)
	}
	return all
}

// rank orders concerns, the worst first: bad before warn, ours before a receiver's, then by how many are affected.
func rank(a, b concern) int {
	ours := func(c concern) int {
		if c.About == aboutUs {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Tone, b.Tone), cmp.Compare(ours(a), ours(b)), cmp.Compare(b.Affected, a.Affected), cmp.Compare(a.Name, b.Name))
}

func worstFirst(all []concern) []concern {
	slices.SortStableFunc(all, rank)
	return all
}

func stateConcern(f figures, now time.Time) (concern, bool) {
	c := concern{About: aboutState, Affected: int64(f.Waiting)}
	since := " since " + atWords(f.StateSince, now) + because(f.StateReason) + waits(f.Waiting) + "."
	switch f.State {
	case "disabled":
		c.Tone, c.Sentence = "bad", "is disabled"+since
	case "paused":
		c.Tone, c.Sentence = "warn", "is paused"+since
	default:
		return c, false
	}
	return c, true
}

func holdConcern(f figures, now time.Time) (concern, bool) {
	if !f.Held {
		return concern{}, false
	}
	c := concern{Tone: "warn", About: aboutReceiver, Affected: int64(f.Waiting)}
	c.Sentence = "is held until " + atWords(f.HeldUntil, now) + because(strings.NewReplacer(" (", ", ", ")", "").Replace(f.HeldReason)) + waits(f.Waiting) + "."
	return c, true
}

func slowConcern(f figures, now time.Time) (concern, bool) {
	if f.SlowSince == nil {
		return concern{}, false
	}
	c := concern{Tone: "warn", About: aboutReceiver, Affected: int64(f.Waiting)}
	took := ""
	if f.Requests > 0 {
		took = ", " + ui.Seconds.Write(float64(f.TookUs)/float64(f.Requests)/1e6) + " on average"
	}
	c.Sentence = "answers slowly since " + atWords(*f.SlowSince, now) + took + waits(f.Waiting) + "; it is worked apart, so that nobody else waits for it."
	return c, true
}

func waits(n int32) string {
	if n == 0 {
		return ""
	}
	return ": " + plural(n, "delivery waits", "deliveries wait")
}

// atWords is a time as somebody on call says it: "02:14", "Tuesday 02:14" within a week, else "2 Jan 02:14". UTC, as everywhere.
func atWords(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	away := max(now.Sub(at), at.Sub(now))
	switch {
	case at.YearDay() == now.YearDay() && at.Year() == now.Year() || away < 6*time.Hour:
		return at.Format("15:04")
	case away < 6*24*time.Hour:
		return at.Format("Monday 15:04")
	case away < 300*24*time.Hour:
		return at.Format("2 Jan 15:04")
	}
	return at.Format("2 Jan 2006")
}
