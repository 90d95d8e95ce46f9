package web

import (
	"fmt"
	"time"

	"weir/web/ui"
)

// timelineItem is a request, or what was waited before it.
type timelineItem struct {
	Attempt *Attempt
	Wait    time.Duration
	Why     string
	At      time.Time // when it began
}

// minWait is what is not worth a line of its own: a request on its way through the lane.
const minWait = time.Second

// timelineOf lays a delivery's requests and waits out in the order of time. came is when the delivery was made.
func timelineOf(came time.Time, attempts []Attempt) []timelineItem {
	var items []timelineItem
	for i := range attempts {
		a := &attempts[i]
		wait, why := waitBefore(came, attempts, i)
		if wait >= minWait {
			items = append(items, timelineItem{Wait: wait, Why: why, At: a.StartedAt.Add(-wait)})
		}
		items = append(items, timelineItem{Attempt: a, At: a.StartedAt})
	}
	return items
}

func waitBefore(came time.Time, attempts []Attempt, i int) (time.Duration, string) {
	a := attempts[i]
	if i == 0 {
		if a.No != 1 { // the ones before are not shown
			return 0, ""
		}
		return a.StartedAt.Sub(came), "for its turn"
	}
	before := attempts[i-1]
	if before.FinishedAt == nil {
		return 0, ""
	}
	wait := a.StartedAt.Sub(*before.FinishedAt)
	switch {
	case a.Replay && (!before.Replay || ended(before)):
		return wait, "until it was sent again by a replay"
	case before.Verdict != nil && *before.Verdict == "hold" && before.RetryAfter != "":
		return wait, "because the receiver asked to (Retry-After: " + before.RetryAfter + ")"
	case before.Verdict != nil && *before.Verdict == "hold":
		return wait, "because the receiver asked to"
	case before.ErrorClass != "":
		return wait, "to try again: the backoff after " + ui.StateWord(before.ErrorClass)
	default:
		return wait, "to try again"
	}
}

// ended says that after this request nothing more was owed, but for a replay.
func ended(a Attempt) bool {
	return a.Verdict != nil && (*a.Verdict == "delivered" || *a.Verdict == "reject" || *a.Verdict == "gone")
}

// Phases say at which moment of the request each was over, in milliseconds from its start; null: it did not happen.
type Phases struct {
	DNS       *float64 `json:"dns_ms"`
	Connect   *float64 `json:"connect_ms"`
	TLS       *float64 `json:"tls_ms"`
	FirstByte *float64 `json:"first_byte_ms" doc:"null: no answer."`
}

func millis(us *int32) *float64 {
	if us == nil {
		return nil
	}
	return new(float64(*us) / 1000)
}

// segment is a part of a request's time.
type segment struct {
	Name, Class string
	Start, Took float64 // milliseconds
}

// segments cut a request's time into what happened in turn. A connection that was kept has none for its making.
func (a Attempt) segments() []segment {
	var parts []segment
	at := 0.0
	for _, phase := range []struct {
		name, class string
		end         *float64
	}{{"DNS", "dns", a.Phases.DNS}, {"connect", "connect", a.Phases.Connect}, {"TLS", "tls", a.Phases.TLS}, {"first byte", "wait", a.Phases.FirstByte}} {
		if phase.end != nil && *phase.end >= at {
			parts = append(parts, segment{phase.name, phase.class, at, *phase.end - at})
			at = *phase.end
		}
	}
	if len(parts) > 0 && a.Phases.FirstByte != nil && a.TookMS != nil && *a.TookMS > at {
		parts = append(parts, segment{"body", "body", at, *a.TookMS - at})
	}
	return parts
}

// kept says that the request went out on a connection that stood already.
func (a Attempt) kept() bool { return a.Phases.FirstByte != nil && a.Phases.Connect == nil }

// barWidth is the width of a bar in its own units; each part is at least a sliver.
const barWidth = 400.0

func (a Attempt) bar(s segment) (x, width string) {
	total := 0.0
	for _, part := range a.segments() {
		total += part.Took
	}
	if total <= 0 {
		return "0", "0"
	}
	return fmt.Sprintf("%.1f", s.Start/total*barWidth), fmt.Sprintf("%.1f", max(1, s.Took/total*barWidth))
}

func spanWords(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return ui.Span(d.Round(time.Second))
}

func phaseWords(ms float64) string {
	us := int64(ms * 1000)
	return ui.Millis(&us)
}
