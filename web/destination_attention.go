package web

import (
	"fmt"
	"time"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

// attention is one sentence about a destination that somebody should look at.
type attention struct {
	Tone     string
	ID, Name string
	Sentence string
}

// attentionOf says in a sentence what is the matter with a destination, the worst first.
func attentionOf(d dbsqlc.OverviewListDestinationRow, now time.Time) (attention, bool) {
	a := attention{Tone: "bad", ID: formatID(idDestination, d.ID), Name: d.Name}
	waiting := ""
	if d.Waiting > 0 {
		waiting = fmt.Sprintf(", %s", plural(d.Waiting, "delivery waits", "deliveries wait"))
	}
	since := ui.Span(now.Sub(d.StateSince))
	late := time.Duration(0)
	if d.OldestDue.Unix() > 0 {
		late = now.Sub(d.OldestDue)
	}
	switch {
	case d.State == "disabled":
		a.Sentence = "is disabled since " + since + because(d.StateReason) + waiting + "."
	case d.DeadLettered > 0:
		a.Sentence = fmt.Sprintf("has %s, the last outcome was %s.", plural(d.DeadLettered, "dead-lettered delivery", "dead-lettered deliveries"), outcomeWords(d))
	case d.State == "paused":
		a.Tone, a.Sentence = "warn", "is paused since "+since+because(d.StateReason)+waiting+"."
	case d.Held:
		a.Tone, a.Sentence = "warn", "is held for another "+ui.Span(d.HeldUntil.Sub(now))+because(d.HeldReason)+waiting+"."
	case late > 5*time.Minute:
		a.Tone, a.Sentence = "warn", "is behind: its oldest delivery has been due for "+ui.Span(late)+waiting+"."
	case d.LastVerdict != nil && *d.LastVerdict != "delivered":
		a.Tone, a.Sentence = "warn", "did not take the last request: "+outcomeWords(d)+"."
	default:
		return a, false
	}
	return a, true
}

// outcomeWords is the last outcome in a few words: "500 (retry)", "timeout (retry)".
func outcomeWords(d dbsqlc.OverviewListDestinationRow) string {
	switch {
	case d.LastVerdict == nil:
		return "none yet"
	case d.LastStatus != nil:
		return fmt.Sprintf("%d (%s)", *d.LastStatus, *d.LastVerdict)
	case d.LastErrorClass != "":
		return fmt.Sprintf("%s (%s)", d.LastErrorClass, *d.LastVerdict)
	}
	return *d.LastVerdict
}
