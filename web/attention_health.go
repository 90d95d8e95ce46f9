package web

import (
	"fmt"
	"math"
	"time"

	"weir/web/ui"
)

// answersAt is what a receiver answered in one minute or hour.
type answersAt struct {
	At               time.Time
	Requests, Failed int64 // failed: 5xx, timeouts, no connection
}

// A receiver is failing from this share of its requests on; less is noise that retries are for.
const failingShare = .1

// healthConcern says what a receiver answers, since when, and how often.
func healthConcern(f figures, now time.Time) (concern, bool) {
	failed := f.failed()
	if f.Requests == 0 || failed == 0 {
		return concern{}, false
	}
	share := float64(failed) / float64(f.Requests)
	if share < failingShare || (share < .5 && failed < 3) {
		return concern{}, false
	}
	c := concern{Tone: "warn", About: aboutReceiver, Affected: failed}
	if share >= .5 {
		c.Tone = "bad"
	}
	since := failingSince(f.History, now)
	c.Sentence = failureWords(f)
	if !since.IsZero() {
		c.Sentence += " since " + atWords(since, now)
	}
	if failed == f.Requests {
		c.Sentence += ", every attempt" + waits(f.Waiting) + "."
	} else {
		c.Sentence += fmt.Sprintf(", %s of attempts", percentWords(share)) + waits(f.Waiting) + "."
	}
	return c, true
}

// failed are the requests of the last minutes that failed for the receiver's health, not for what was sent or how fast.
func (f *figures) failed() int64 { return f.ServerError + f.TimedOut + f.Network }

// percentWords is a share; what is not all and not nothing is not told as such.
func percentWords(share float64) string {
	return fmt.Sprintf("%d %%", int(min(99, max(1, math.Round(share*100)))))
}

// failureWords name the class of failure that is most of them.
func failureWords(f figures) string {
	switch most := max(f.ServerError, f.TimedOut, f.Network); most {
	case f.ServerError:
		return "answers 5xx"
	case f.TimedOut:
		return "does not answer in time"
	}
	return "cannot be connected to"
}

// failingSince is the beginning of the failing that goes on now: back over stretches in which requests failed, minutes first and then hours,
// until three in a row were well. Zero where there is none.
func failingSince(history []answersAt, now time.Time) (since time.Time) {
	well := 0
	for _, a := range history {
		if a.Requests == 0 || a.At.After(now) {
			continue
		}
		if float64(a.Failed) >= failingShare*float64(a.Requests) {
			since, well = a.At, 0
		} else if well++; well == 3 {
			break
		}
	}
	return since
}

// deadGroup are dead letters of one destination with the same answer to the same type of event.
type deadGroup struct {
	Type          string
	Status        int32 // 0: no answer
	Class         string
	N             int32
	First, Last   time.Time
	Passed        int32 // how many of the type got through lately
	PassedUnknown bool
}

// aboutWhatWasSent says that an answer refuses what was sent, whatever the receiver's health.
func (g *deadGroup) aboutWhatWasSent() bool {
	switch g.Status {
	case 408, 410, 425, 429:
		return false
	}
	return g.Type != "" && g.Status >= 300 && g.Status < 500
}

// deadConcerns say of dead letters what was refused, and of the others how many there are.
func deadConcerns(f figures, now time.Time) []concern {
	var all []concern
	var rest deadGroup
	for _, g := range f.Dead {
		if !g.aboutWhatWasSent() || g.N < 3 {
			rest.add(g)
			continue
		}
		c := concern{Tone: "bad", About: aboutPayload, Affected: int64(g.N), Href: deadHref(f.ID)}
		since := fmt.Sprintf(" with %d since %s", g.Status, atWords(g.First, now))
		if g.Passed == 0 && !g.PassedUnknown {
			c.Sentence = "refused every “" + clip(g.Type, 100) + "”" + since + ": " + plural(g.N, "dead-lettered", "dead-lettered") + "."
		} else {
			c.Sentence = "refused " + ui.Count(g.N, maxCount) + " “" + clip(g.Type, 100) + "”" + since + "; others of that type get through."
		}
		all = append(all, c)
	}
	if rest.N > 0 {
		all = append(all, rest.concern(f.ID, now))
	}
	return all
}

func (g *deadGroup) add(o deadGroup) {
	if g.N == 0 || o.First.Before(g.First) {
		g.First = o.First
	}
	if g.N == 0 || o.Last.After(g.Last) {
		g.Last, g.Status, g.Class = o.Last, o.Status, o.Class
	}
	g.N += o.N
}

// concern is about dead letters of any kind: bad while they are of the last day.
func (g *deadGroup) concern(destination int64, now time.Time) concern {
	c := concern{Tone: "bad", About: aboutDead, Affected: int64(g.N), Href: deadHref(destination)}
	if now.Sub(g.Last) > 24*time.Hour {
		c.Tone = "warn"
	}
	c.Sentence = "has " + plural(g.N, "dead letter", "dead letters") + " since " + atWords(g.First, now)
	switch {
	case g.Status != 0:
		c.Sentence += fmt.Sprintf(", the last after a %d", g.Status)
	case g.Class != "":
		c.Sentence += ", the last after: " + g.Class
	}
	c.Sentence += "."
	return c
}

func deadHref(destination int64) string {
	return query("/dead-letters", "destination", formatID(idDestination, destination))
}
