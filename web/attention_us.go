package web

import (
	"strings"
	"time"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

// machine is what is known of Weir's own processes.
type machine struct {
	Workers, Discoverers int32                   // alive
	Processes            []dbsqlc.ProcessListRow // of the last hour
	ReadySince           time.Time               // of the first delivery that a worker could take; now: none is left
	Run                  *runRow                 // the last discovery run; nil: there was none
	RunLate              bool
	Interval             time.Duration // of discovery
	Refused              int32         // outbox rows that are parked
}

// usConcerns are about ourselves: what keeps every destination waiting.
func usConcerns(m machine, now time.Time) []concern {
	var all []concern
	say := func(tone, href, sentence string) {
		all = append(all, concern{Tone: tone, About: aboutUs, Href: href, Sentence: sentence})
	}
	if m.Workers == 0 {
		say("bad", "", "No worker is running: none has fetched"+forHowLong(lastBeat(m.Processes, "work"), now)+", so nothing is sent. Start one: weir serve, or weir serve --roles work.")
	} else if ready := now.Sub(m.ReadySince); ready > 30*time.Second {
		tone := "warn"
		if ready > 2*time.Minute {
			tone = "bad"
		}
		say(tone, "", "The workers do not keep up: the first delivery in line has been ready for "+length(ready)+", and none has fetched it.")
	}
	switch {
	case m.Discoverers == 0 && m.Run != nil:
		say("bad", "/discovery", "No process looks for new events"+forHowLong(lastBeat(m.Processes, "discover"), now)+". Start one: weir serve, or weir serve --roles discover.")
	case m.RunLate:
		say("bad", "/discovery", "Discovery is late: the last run was "+ui.Relative(m.Run.FinishedAt, now)+", and one is due every "+length(m.Interval)+".")
	case m.Run != nil && m.Run.Error != "":
		say("bad", "/discovery", "The last discovery run failed: "+clip(strings.TrimSuffix(m.Run.Error, "."), 200)+".")
	}
	if m.Refused > 0 {
		say("warn", "/discovery#refused", plural(m.Refused, "row of the outbox is refused", "rows of the outbox are refused")+" and will not become an event by itself.")
	}
	for _, p := range m.Processes {
		if !p.Alive && p.StoppedAt == nil {
			say("warn", "", "A process is gone without a word since "+atWords(p.BeatAt, now)+" ("+strings.Join(p.Roles, ", ")+"): "+p.ID+". What it had in hand is taken up by others.")
		}
	}
	return all
}

// lastBeat is when a process with this role was last alive; zero where none is on record, which is kept for an hour.
func lastBeat(processes []dbsqlc.ProcessListRow, role string) (last time.Time) {
	for _, p := range processes {
		for _, has := range p.Roles {
			if has == role && p.BeatAt.After(last) {
				last = p.BeatAt
			}
		}
	}
	return last
}

func forHowLong(last, now time.Time) string {
	if last.IsZero() {
		return " for an hour or more"
	}
	return " for " + length(now.Sub(last))
}

// wellWords say that all is well, and by what it can be told.
func wellWords(m machine, delivered time.Time, late time.Duration, now time.Time) string {
	text := "All is well: "
	switch {
	case delivered.Unix() <= 0:
		text += "nothing was delivered in the last two days"
	case now.Sub(delivered) < 2*time.Minute:
		text += "deliveries got through within the last minute"
	default:
		text += "the last delivery was " + ui.Relative(delivered, now)
	}
	if late < time.Second {
		text += ", nothing waits beyond its time"
	} else {
		text += ", the oldest waits for " + length(late)
	}
	return text + ", and " + plural(m.Workers, "worker is", "workers are") + " alive."
}
