package web

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"weir/jobs"
	"weir/jobs/webhook"
	"weir/web/ui"
)

// letterClasses are classes of failure without an answer in the words of a title.
var letterClasses = map[string]string{
	webhook.ClassTimeout: "No answer in time", webhook.ClassConnectTimeout: "No connection in time", webhook.ClassDNS: "The host’s name does not exist",
	webhook.ClassDNSTemporary: "The host’s name cannot be looked up", webhook.ClassConnectionRefused: "Connection refused",
	webhook.ClassConnectionReset: "Connection reset", webhook.ClassUnreachable: "Host unreachable", webhook.ClassTLS: "TLS handshake failed",
	webhook.ClassProtocol: "No valid HTTP answer", webhook.ClassHeaderTooLarge: "Answer’s headers too large", webhook.ClassInvalidRequest: "Request could not be made",
	jobs.ClassInterrupted: "Interrupted on every try", jobs.ClassConfig: "Secrets or headers could not be read",
}

// letterTitle is a group's reason in a few words.
func letterTitle(state string, status int32, class, typ string) string {
	class, blocked := strings.CutPrefix(class, webhook.ClassBlocked)
	why := letterClasses[class]
	switch {
	case blocked:
		why = "Blocked by the guard: " + strings.ReplaceAll(class, "_", " ")
	case why == "" && class != "":
		why = capital(strings.ReplaceAll(class, "_", " "))
		why = strings.TrimSuffix(why, ".")
	}
	switch {
	case state == jobs.StateExpired && status != 0:
		return fmt.Sprintf("Expired; the last answer was %d", status)
	case state == jobs.StateExpired && class != "":
		return "Expired; the last try: " + strings.ToLower(why[:1]) + why[1:]
	case state == jobs.StateExpired:
		return "Expired before the first try"
	case status == 0 && why != "":
		return why
	case status == 0:
		return "Ended without a try"
	case typ != "":
		return fmt.Sprintf("%s refused with %d", typ, status)
	case status >= 500 || status == 408 || status == 425:
		return fmt.Sprintf("Answered %d on every try", status)
	case status == 410:
		return "Gone: answered 410"
	case status >= 400:
		return fmt.Sprintf("Refused with %d", status)
	case status >= 300:
		return fmt.Sprintf("Redirected with %d, which is not followed", status)
	}
	return fmt.Sprintf("Answered %d, which counts as refused here", status)
}

// letterHint says what can be done about a group.
func letterHint(g LetterGroup) string {
	status := int32(0)
	if g.Status != nil {
		status = *g.Status
	}
	switch {
	case g.State == jobs.StateExpired && status == 0 && g.ErrorClass == "":
		return "They waited longer than they may: the destination was paused or held, or its lane lets through less than arrives. Raise the limit or the time to live, then replay what is still wanted."
	case g.State == jobs.StateExpired:
		return "Their time was over before a try succeeded. A replay gives them a whole time to live again."
	case strings.HasPrefix(g.ErrorClass, webhook.ClassBlocked):
		return "Weir refuses to connect to that address. Correct the URL, or let the network through with WEIR_ALLOW_NETWORKS; then replay."
	case status == 401 || status == 403 || status == 407:
		return "The receiver does not accept who asks. Check the destination’s headers and secrets; then replay."
	case status == 404 || status == 405 || status == 410 || (status >= 300 && status < 400):
		return "The receiver has nothing at this URL. Correct the destination’s URL; then replay."
	case g.Type != "":
		return "The receiver refuses what these events hold. Sending the same again is refused again, until the receiver has changed."
	case status >= 500 || status == 0 || status == 408:
		return "The receiver, or the way to it, was not well for as long as the schedule lasts. Replay when it is."
	}
	return "The receiver refuses them. Replay when that has changed, or resolve them with the reason."
}

// letterEntryWords say what an entry of a group's history is; its note stands apart.
func letterEntryWords(kind string, count int32) string {
	deliveries := countWords(int(count), "delivery", "deliveries")
	switch kind {
	case jobs.LetterOpened:
		return "opened: the first delivery came in"
	case jobs.LetterReopened:
		return "opened again: more came in"
	case jobs.LetterAssigned:
		return "assigned it to"
	case jobs.LetterUnassigned:
		return "assigned it to nobody"
	case jobs.LetterNote:
		return "noted"
	case jobs.LetterSnoozed:
		return "snoozed it"
	case jobs.LetterWoke:
		return "came back from its snooze"
	case jobs.LetterResolved:
		return "resolved all that was open, " + deliveries
	case jobs.LetterResolvedSome:
		return "resolved " + deliveries
	case jobs.LetterTakenBack:
		return "took the resolution back: " + deliveries + " open again"
	case jobs.LetterReplay:
		if count == 0 {
			return "started a replay"
		}
		return "sent " + deliveries + " again"
	case jobs.LetterDelivered:
		return deliveries + " delivered"
	case jobs.LetterFailed:
		return deliveries + " failed as before"
	case jobs.LetterMoved:
		return deliveries + " failed for another reason, and moved to its group"
	case jobs.LetterEnded:
		return deliveries + " superseded or cancelled"
	case jobs.LetterRemoved:
		return deliveries + " removed from the ledger, unresolved"
	}
	return kind
}

// letterNote is an entry's note as it is read: a snooze's is a time.
func letterNote(kind, note string) string {
	if at, err := time.Parse(time.RFC3339, note); err == nil && kind == jobs.LetterSnoozed {
		return "until " + at.UTC().Format("2006-01-02 15:04") + " UTC"
	}
	return note
}

// growthWords say how a group grows.
func growthWords(g LetterGroup) string {
	switch {
	case g.LastDay == 0:
		return "none in 24 h"
	case g.LastHour == 0:
		return "+" + ui.Number(int64(g.LastDay)) + " in 24 h, none in the last hour"
	case g.LastHour == g.LastDay:
		return "+" + ui.Number(int64(g.LastHour)) + " in the last hour"
	}
	return "+" + ui.Number(int64(g.LastHour)) + " in the last hour, +" + ui.Number(int64(g.LastDay)) + " in 24 h"
}

// growthPath draws the last 24 hours as columns, 48 of 2 units width and up to 20 height; the highest is as high as there is room.
func growthPath(growth []letterCount, now time.Time) string {
	const step = 30 * time.Minute
	bins := ui.BinsBetween(now.Add(-47*step), now, step)
	values := ui.Spread(bins, step, growth, 0, func(c letterCount) time.Time { return c.At }, func(c letterCount) float64 { return float64(c.Came) })
	most := slices.Max(values)
	var b strings.Builder
	for i, value := range values {
		if value > 0 {
			height := max(1, math.Round(20*value/most))
			fmt.Fprintf(&b, "M%d 20v-%.0fh1.6v%.0fz", 2*i, height, height)
		}
	}
	return b.String()
}

// growthChart is the same at full size.
func growthChart(g LetterGroup, now time.Time) ui.Chart {
	const step = 30 * time.Minute
	bins := ui.BinsBetween(now.Add(-47*step), now, step)
	return ui.Chart{
		ID: "growth", Title: "Came in, every 30 min of the last 24 hours", Empty: "None came in during the last 24 hours.", Bins: bins, Step: step, Now: now,
		Series: []ui.Series{{Name: "Came in", Hue: ui.HueBad, Values: ui.Spread(bins, step, g.Growth, 0,
			func(c letterCount) time.Time { return c.At }, func(c letterCount) float64 { return float64(c.Came) })}},
	}
}

// oneLine is an answer's beginning for a row of a table.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
