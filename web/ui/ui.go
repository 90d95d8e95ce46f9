// Package ui holds the components that the admin panel's pages share. It knows nothing of Weir but its words.
package ui

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/a-h/templ"
)

// Frame is what surrounds every page of the panel.
type Frame struct {
	Title    string
	Section  string // which entry of the navigation is the current one
	Operator string // empty: nobody is signed in
	Role     Role   // of who is signed in
	Version  string
	Now      time.Time
	Notice   string            // something that was just done
	Warning  string            // something that was just refused
	Marks    map[string]string // numbers beside entries of the navigation, by section; empty: none
}

// FieldError is a problem with one field of a form; ID is the field's element.
type FieldError struct{ ID, Label, Problem string }

// Sections of the navigation, in order, each for those who have at least its role.
var sections = []struct {
	key, label, href string
	least            Role
}{
	{"overview", "Overview", "/", Viewer},
	{"destinations", "Destinations", "/destinations", Viewer},
	{"lanes", "Lanes", "/lanes", Viewer},
	{"events", "Events", "/events", Viewer},
	{"deliveries", "Deliveries", "/deliveries", Viewer},
	{"dead-letters", "Dead letters", "/dead-letters", Viewer},
	{"replays", "Replays", "/replays", Viewer},
	{"discovery", "Discovery", "/discovery", Viewer},
	{"administration", "Administration", "/people", Administrator},
}

func current(is bool) templ.Attributes {
	if is {
		return templ.Attributes{"aria-current": "page"}
	}
	return nil
}

// Relative says how far at is from now, as live.js does.
func Relative(at, now time.Time) string {
	ms := now.UnixMilli() - at.UnixMilli() // a time.Duration ends after 292 years, events do not
	future := ms < 0
	if future {
		ms = -ms
	}
	s := (ms + 500) / 1000
	if s < 1 {
		return "now"
	}
	text := seconds(s)
	if future {
		return "in " + text
	}
	return text + " ago"
}

const year = 31556952 // seconds, in the mean of the calendar

// Span is a length of time in its largest unit.
func Span(d time.Duration) string { return seconds(int64(d / time.Second)) }

func seconds(s int64) string {
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 172800:
		return fmt.Sprintf("%d h", s/3600)
	case s < 2*year:
		return fmt.Sprintf("%d d", s/86400)
	default:
		return fmt.Sprintf("%d y", s/year)
	}
}

// Count writes n, which was counted up to limit, with thousands apart: "9,312", "10,000+".
func Count(n, limit int32) string {
	if n > limit {
		return group(int64(limit)) + "+"
	}
	return group(int64(n))
}

// Number writes n with thousands apart.
func Number(n int64) string { return group(n) }

func group(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Millis writes microseconds as a person reads them.
func Millis(us *int64) string {
	if us == nil {
		return "–"
	}
	d := time.Duration(*us) * time.Microsecond
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}

// Bytes writes a size.
func Bytes(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}

// Plain makes foreign text safe to read: what is not visible, or turns the direction of what follows, is shown as its code point. HTML
// needs no care here, templ escapes it.
func Plain(s string) string { return visible(s, false) }

// PlainLines is Plain for text of several lines.
func PlainLines(s string) string { return visible(s, true) }

func visible(s string, lines bool) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	odd := func(r rune) bool {
		if lines && (r == '\n' || r == '\t') {
			return false
		}
		// U+200D joins emoji and U+200C parts of Persian words: both are left alone.
		return unicode.IsControl(r) || (unicode.Is(unicode.Cf, r) && r != '\u200d' && r != '\u200c') || r == '\u2028' || r == '\u2029'
	}
	if lines {
		s = strings.ReplaceAll(s, "\r\n", "\n")
	}
	if !strings.ContainsFunc(s, odd) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if odd(r) {
			fmt.Fprintf(&b, "[U+%04X]", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// StateWord is how a state is written.
func StateWord(state string) string { return strings.ReplaceAll(state, "_", "-") }

// tone is the colour of a state or verdict; the word and the icon say the same.
func tone(state string) string {
	switch state {
	case "delivered", "active", "alive", "ok":
		return "good"
	case "retrying", "retry", "hold", "held", "paused", "waiting":
		return "warn"
	case "dead_lettered", "reject", "gone", "blocked", "disabled", "failed", "refused":
		return "bad"
	case "in_flight":
		return "busy"
	default:
		return "calm"
	}
}

func iconOf(state string) string {
	switch state {
	case "delivered", "active", "alive", "ok":
		return "check"
	case "retrying", "retry":
		return "retry"
	case "pending", "waiting":
		return "clock"
	case "hold", "held", "paused":
		return "pause"
	case "expired":
		return "hourglass"
	case "superseded":
		return "layers"
	case "in_flight":
		return "send"
	case "cancelled", "deleted", "stopped":
		return "minus"
	default:
		return "cross"
	}
}
