package web

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplayRuns(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.work(t)
	bad := b.destination(t, `, "retry": {"schedule": []}, "responses": [{"status": "200", "verdict": "reject"}]`)
	for i := range 6 {
		b.ok(t, 202, "POST", "/events", fmt.Sprintf(`{"id": "e%d", "type": "order.paid", "subject": "s", "payload": 1}`, i))
	}
	require.Eventually(t, func() bool {
		return len(b.ok(t, 200, "GET", "/deliveries?state=dead_lettered", "").field(t, "items").([]any)) == 6
	}, eventually, tick)
	filter := fmt.Sprintf(`"filter": {"states": ["dead_lettered"], "destination": %q, "type": "order.*"}`, bad)

	a := b.ok(t, 200, "POST", "/replays", `{"preview": true, `+filter+`}`)
	require.Nil(t, a.field(t, "id"))
	require.InDelta(t, 6, a.field(t, "sent"), 0)
	require.InDelta(t, 6, a.field(t, "selection.selected"), 0)
	require.InDelta(t, 6, a.field(t, "selection.states.dead_lettered"), 0)
	require.Equal(t, bad, a.field(t, "selection.destinations.0.id"))
	require.Equal(t, true, a.field(t, "selection.complete"))
	require.Empty(t, b.ok(t, 200, "GET", "/replays", "").field(t, "items"), "a preview starts nothing")

	b.ok(t, 200, "POST", "/destinations/"+bad+"/pause", `{}`)
	a = b.ok(t, 200, "POST", "/replays", `{"key": "k", "reason": "mended", "share": 1, `+filter+`}`)
	id := a.field(t, "id").(string)
	require.Equal(t, false, a.field(t, "existing"))
	require.InDelta(t, 6, a.field(t, "run.counts.selected"), 0)
	for _, body := range []string{`{"key": "k", "share": 1, ` + filter + `}`, `{` + filter + `}`} {
		a = b.ok(t, 200, "POST", "/replays", body)
		require.Equal(t, id, a.field(t, "id"))
		require.Equal(t, true, a.field(t, "existing"))
	}
	require.Contains(t, b.ok(t, 200, "GET", "/replays/"+id, "").field(t, "waiting_for"), "1 destination is paused or disabled: 6 deliveries wait")

	require.Equal(t, "paused", b.ok(t, 200, "POST", "/replays/"+id+"/pause", "").field(t, "state"))
	b.ok(t, 409, "POST", "/replays/"+id+"/pause", "")
	require.Equal(t, "running", b.ok(t, 200, "POST", "/replays/"+id+"/resume", "").field(t, "state"))
	a = b.ok(t, 200, "POST", "/replays/"+id+"/stop", "")
	require.Equal(t, "stopped", a.field(t, "state"))
	require.InDelta(t, 6, a.field(t, "counts.left"), 0)
	b.ok(t, 409, "POST", "/replays/"+id+"/resume", "")
	b.ok(t, 404, "POST", "/replays/rpl_99/stop", "")

	b.ok(t, 200, "POST", "/destinations/"+bad+"/resume", "")
	id = b.ok(t, 200, "POST", "/replays", `{"key": "k2", `+filter+`}`).field(t, "id").(string)
	require.Eventually(t, func() bool { return b.ok(t, 200, "GET", "/replays/"+id, "").field(t, "state") == "done" }, 2*eventually, tick)
	a = b.ok(t, 200, "GET", "/replays/"+id, "")
	require.InDelta(t, 6, a.field(t, "counts.failed"), 0)
	require.InDelta(t, 6, a.field(t, "failures.0.count"), 0)
	require.InDelta(t, 200, a.field(t, "failures.0.status"), 0)
	require.Equal(t, "Done: 0 delivered, 6 failed again, 0 refused.", a.field(t, "waiting_for"))
	require.Len(t, a.field(t, "items"), 6)
	n := 0
	for cursor := ""; ; n++ {
		page := b.ok(t, 200, "GET", "/replays/"+id+"/items?bad=true&limit=2&cursor="+cursor, "")
		require.Len(t, page.field(t, "items"), 2)
		require.Equal(t, "dead_lettered", page.field(t, "items.0.outcome"))
		if page.field(t, "next_cursor") == nil {
			break
		}
		cursor = page.field(t, "next_cursor").(string)
	}
	require.Equal(t, 2, n)
	first := b.ok(t, 200, "GET", "/replays?limit=1", "")
	require.Equal(t, id, first.field(t, "items.0.id"))
	require.Equal(t, "rpl_1", b.ok(t, 200, "GET", "/replays?limit=1&cursor="+first.field(t, "next_cursor").(string), "").field(t, "items.0.id"))
	b.ok(t, 409, "POST", "/replays", `{"filter": {"subject": "nobody"}}`)
	require.Contains(t, b.ok(t, 409, "POST", "/replays", `{"key": "k2", "filter": {"subject": "s"}}`).field(t, "detail"), "another selection")

	for field, body := range map[string]string{
		"filter.states": `{"filter": {"states": ["pending"]}}`, "filter.destination": `{"filter": {"destination": "acme"}}`, "filter.settled_to": `{"filter": {"settled_to": "soon"}}`,
		"filter.reason": `{"filter": {"reason": "\u0000"}}`, "share": `{"filter": {}, "share": 0}`, "filter": `{"event": "e1", "filter": {}}`, "filter.status": `{"filter": {"status": 7}}`,
	} {
		b.refused(t, "POST", "/replays", body, field, "")
	}

	// An event's replay takes a key as well, in the header's place.
	one := b.ok(t, 200, "POST", "/replays", `{"event": "e0", "key": "one"}`)
	again := b.ok(t, 200, "POST", "/replays", `{"event": "e0", "key": "one"}`)
	require.Equal(t, one.field(t, "id"), again.field(t, "id"))
	require.Equal(t, true, again.field(t, "existing"))
	require.Len(t, b.ok(t, 200, "GET", "/replays", "").field(t, "items"), 3)
}
