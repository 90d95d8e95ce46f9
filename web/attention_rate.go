package web

import (
	"fmt"
	"math"
	"time"

	"weir/jobs"
	"weir/web/ui"
)

// line is what waits in one lane and how fast it moves. Rates are per second.
type line struct {
	Waiting   int64
	Allowed   float64       // the pace that holds now; 0: not limited
	AtOnce    int64         // the cap in flight; 0: not limited
	Took      time.Duration // the mean of an answer; 0: not known
	Arriving  float64
	Remaining time.Duration // until the first in line expires
	TTL       time.Duration // of a delivery that comes now
	Known     bool          // Remaining is known
}

// worthTelling is how long a line must need to drain before somebody is told: below it, it is what a limit is for.
const worthTelling = time.Minute

// served is what leaves at most: the pace, or where answers take their time, what the places in flight make of it.
func (l line) served() (perSecond float64, byPlaces bool) {
	perSecond = math.Inf(1)
	if l.Allowed > 0 {
		perSecond = l.Allowed
	}
	if l.AtOnce > 0 && l.Took > 0 {
		if places := float64(l.AtOnce) / l.Took.Seconds(); places < perSecond {
			return places, true
		}
	}
	return perSecond, false
}

// drains is how long what waits now takes at what is served beyond what arrives; grows says that it never does, and then drains is how long
// it would take if nothing more came.
func (l line) drains() (after time.Duration, grows bool) {
	served, _ := l.served()
	if l.Waiting == 0 || math.IsInf(served, 1) {
		return 0, false
	}
	net := served - l.Arriving
	if grows = net <= served*.02; grows {
		net = served
	}
	return seconds(float64(l.Waiting) / net), grows
}

// expiring is about how many of those that wait now will expire before their turn. The line is taken as even: from the first, which has
// Remaining left, to the last, which has all of TTL, each a little later than the one before it. From when the first reaches its expiry, as
// many end as fall due less what is served, until the last has either been served or expired.
func (l line) expiring() int64 {
	served, _ := l.served()
	age := (l.TTL - l.Remaining).Seconds()
	if !l.Known || l.Waiting == 0 || age <= 0 || math.IsInf(served, 1) {
		return 0
	}
	falling := float64(l.Waiting) / age // how many fall due a second
	if falling <= served {
		return 0
	}
	from := max(0, l.Remaining.Seconds()) / (1 - served/falling)
	return int64(math.Round(max(0, (falling-served)*(l.TTL.Seconds()-from))))
}

// concern says what limits the line, where that is worth telling.
func (l line) concern() (concern, bool) {
	after, grows := l.drains()
	if after < worthTelling {
		return concern{}, false
	}
	served, byPlaces := l.served()
	c := concern{Tone: "warn", About: aboutRate, Affected: l.Waiting}
	c.Sentence = "is allowed " + jobs.SpellRate(served)
	if byPlaces {
		c.Sentence = fmt.Sprintf("is allowed %s, each taking %s, which makes %s", plural(int32(min(l.AtOnce, maxCount)), "request at once", "requests at once"),
			ui.Seconds.Write(l.Took.Seconds()), jobs.SpellRate(served))
	}
	c.Sentence += ", " + arriving(l.Arriving) + ": " + lineWords(l.Waiting)
	if grows {
		c.Sentence += ", " + length(after) + " of work and growing"
	} else {
		c.Sentence += ", drains in " + length(after)
	}
	if n := l.expiring(); n > 0 {
		c.Tone, c.Affected = "bad", n
		c.Sentence += ", and about " + ui.Number(roundly(n)) + " will expire first"
	}
	c.Sentence += "."
	return c, true
}

func lineWords(n int64) string {
	if n == 1 {
		return "1 waits"
	}
	return ui.Number(n) + " wait"
}

func arriving(perSecond float64) string {
	if perSecond == 0 {
		return "none arriving"
	}
	return "arriving " + jobs.SpellRate(perSecond)
}

// roundly is n to two digits: it is an estimate.
func roundly(n int64) int64 {
	size := int64(1)
	for n/size >= 100 {
		size *= 10
	}
	return (n + size/2) / size * size
}

// length is a time to its two largest units at most.
func length(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return ui.Seconds.Write(d.Round(time.Hour).Seconds())
	case d >= 10*time.Hour:
		return fmt.Sprintf("%d h", int(d.Round(time.Hour).Hours()))
	case d >= 10*time.Minute:
		return ui.Seconds.Write(d.Round(time.Minute).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return ui.Seconds.Write(d.Round(time.Second).Seconds())
}

// seconds is a length of time; more than a year is a year.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, 365*86400) * float64(time.Second))
}
