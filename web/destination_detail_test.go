package web

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

func TestDestinationStateActions(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.exec("INSERT INTO lane (id, name, rate, burst, max_in_flight, parked, open, in_flight) VALUES (1, 'l', 5, 10, 4, 412, 3, 3)")
	p.exec("INSERT INTO destination (id, name, url, lane_id) VALUES (1, 'Acme', 'https://acme.example/', 1)")
	p.exec(`INSERT INTO event (id, event_id, type, payload, occurred_at) SELECT i, 'evt_' || i, 'a', '{}', now() FROM generate_series(1, 3) i`)
	p.exec("INSERT INTO delivery (id, event_id, destination_id, lane_id, expires_at, in_window) SELECT i, i, 1, 1, now() + interval '1 hour', true FROM generate_series(1, 3) i")
	p.exec("INSERT INTO attempt (delivery_id, no, lane_id, process, started_at, lease_until) SELECT i, 1, 1, 'w', now(), now() + interval '1 minute' FROM generate_series(1, 3) i")

	body := p.get("/destinations/dst_1").Body
	require.Regexp(t, `(?s)data-testid="tokens">\s*8 of 8`, body)
	require.Contains(t, body, `data-testid="in-flight">3 of 4`)
	for _, action := range []string{"pause", "drain", "disable", "delete"} {
		require.Regexp(t, `(?s)id="`+action+`-title".*?data-testid="held">412 deliveries wait for it, 3 requests are in flight\.`, body, action)
	}

	page := "/destinations/dst_1"
	require.Equal(t, page, p.post(page+"/disable", "reason", " ").Location)
	require.Contains(t, p.get(page).Body, "Nothing was done. Reason is missing")
	require.Equal(t, page, p.post(page+"/drain", "reason", "moves away").Location)
	require.Equal(t, page, p.post(page+"/disable", "reason", "their contract ended").Location)
	body = p.get(page).Body
	require.Contains(t, body, "This destination is disabled.")
	require.Contains(t, body, "their contract ended")
	require.Contains(t, body, "It drains: events that come now are not owed to it.")
	require.Contains(t, body, "moves away")
	require.NotContains(t, body, "New events are still owed to it", "it drains")
	require.NotContains(t, body, page+"/disable")
	require.Contains(t, p.get(page+"/history").Body, "began to drain the destination")
	require.Equal(t, "their contract ended", p.auditOf("destination.disable")[0].Note)
	require.Equal(t, map[string]any{"draining": true}, p.auditOf("destination.drain")[0].After)
	require.Equal(t, page, p.post(page+"/resume").Location)
	require.Contains(t, p.get(page).Body, "It drains", "to resume it does not end the draining")
	require.Equal(t, page, p.post(page+"/undrain").Location)
	require.NotContains(t, p.get(page).Body, "It drains")
	p.post(page + "/undrain")
	require.Contains(t, p.get(page).Body, "Nothing was done")
}

func TestDestinationStateAPI(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	id := b.destination(t, "")
	require.Nil(t, b.ok(t, 200, "GET", "/destinations/"+id, "").field(t, "draining_since"))
	require.NotNil(t, b.ok(t, 200, "POST", "/destinations/"+id+"/drain", `{"reason": "moves"}`).field(t, "draining_since"))
	b.ok(t, 409, "POST", "/destinations/"+id+"/drain", `{}`)
	require.Nil(t, b.ok(t, 200, "POST", "/destinations/"+id+"/undrain", "").field(t, "draining_since"))
	b.refused(t, "POST", "/destinations/"+id+"/disable", `{}`, "reason", "missing")
	require.Equal(t, "disabled", b.ok(t, 200, "POST", "/destinations/"+id+"/disable", `{"reason": "gone"}`).field(t, "state"))
	b.ok(t, 409, "POST", "/destinations/"+id+"/disable", `{"reason": "gone"}`)
	b.ok(t, 404, "POST", "/destinations/dst_99/drain", `{}`)
	require.Equal(t, 403, b.call(t, b.read, "POST", "/api/v1/destinations/"+id+"/drain", "{}").status)
}

func TestTokensOf(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_000_000_000)
	lane := func(tat int64) dbsqlc.Lane { // 10/s, burst 5, without a margin
		return dbsqlc.Lane{PeriodUs: 100_000, TauUs: 400_000, Burst: 5, TatUs: now.UnixMicro() + tat}
	}
	require.Equal(t, tokens{}, tokensOf(dbsqlc.Lane{}, now))
	for tat, want := range map[int64]tokens{
		-5_000_000: {true, 5, 5, 0}, 0: {true, 5, 5, 0}, 100_000: {true, 4, 5, 0}, 400_000: {true, 1, 5, 0}, 400_001: {true, 0, 5, time.Microsecond},
		500_000: {true, 0, 5, 100 * time.Millisecond},
	} {
		require.Equal(t, want, tokensOf(lane(tat), now), fmt.Sprint(tat))
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.exec("INSERT INTO lane (id, name) VALUES (1, 'l'), (2, 'l')")
	p.exec("INSERT INTO destination (id, name, url, lane_id) VALUES (1, 'Acme', 'https://acme.example/', 1), (2, 'Bolt', 'https://bolt.example/', 2)")
	otto, olga, vera := p.as(ui.Operator, "Otto"), p.as(ui.Operator, "Olga"), p.as(ui.Viewer, "Vera")
	page := "/destinations/dst_1"
	add := func(client *http.Client, note string) reply {
		return p.do(client, http.MethodPost, page+"/notes", url.Values{"note": {note}})
	}
	require.Equal(t, page, add(otto, "Call <b>Ingrid</b> first\r\n\u202Eevil").Location)
	body := p.do(vera, http.MethodGet, page, nil).Body
	require.Contains(t, body, "Call &lt;b&gt;Ingrid&lt;/b&gt; first\n[U+202E]evil")
	require.Contains(t, body, "Otto")
	require.NotContains(t, body, "/notes", "who only looks is offered neither to add nor to remove")
	require.Equal(t, http.StatusForbidden, add(vera, "x").Status)
	for _, wrong := range []string{"", "  \r\n", "a\x00b", string(make([]byte, 4001))} {
		require.Equal(t, page, add(otto, wrong).Location)
		require.Contains(t, p.do(otto, http.MethodGet, page, nil).Body, "Nothing was done")
	}
	require.Equal(t, 1, p.count("SELECT count(*) FROM destination_note"))

	remove := regexp.MustCompile(page + `/notes/note_\d+/delete`)
	require.NotRegexp(t, remove, p.do(olga, http.MethodGet, page, nil).Body, "it is Otto's")
	require.Regexp(t, remove, p.get(page).Body, "an administrator may")
	require.Equal(t, page, p.do(olga, http.MethodPost, page+"/notes/note_1/delete", url.Values{}).Location)
	require.Contains(t, p.do(olga, http.MethodGet, page, nil).Body, "only its author or an administrator removes it")
	require.Equal(t, http.StatusNotFound, p.do(otto, http.MethodPost, "/destinations/dst_2/notes/note_1/delete", url.Values{}).Status, "it is another destination's")
	require.Equal(t, 1, p.count("SELECT count(*) FROM destination_note"))
	require.Equal(t, page, p.do(otto, http.MethodPost, page+"/notes/note_1/delete", url.Values{}).Location)
	require.Equal(t, 0, p.count("SELECT count(*) FROM destination_note"))
	require.Contains(t, p.auditOf("destination.forget_note")[0].Before["note"], "Ingrid", "the history keeps it")
}

func TestTestSendPage(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.work(t)
	id := b.destination(t, `, "headers": {"X-Api-Key": "top-secret-value"}`)
	a := b.ok(t, 200, "POST", "/destinations/"+id+"/test", "")
	require.NotNil(t, a.field(t, "attempt.response_headers"))
	delivery := a.field(t, "delivery.id").(string)
	other := b.destination(t, "")
	b.ok(t, 202, "POST", "/events", `{"id": "evt_fake", "type": "weir.test", "payload": {"name": "somebody"}}`)

	p := &panel{t: t, pool: b.pool}
	p.serve(b.server)
	p.client = p.as(ui.Viewer, "Vera")
	res := p.get("/destinations/" + id + "/tests/" + delivery)
	require.Equal(t, http.StatusOK, res.Status, res.Body)
	for _, shown := range []string{"200 OK, after ", "first byte", "Content-Type", "&lt;b&gt;answer&lt;/b&gt;", "weir-event-type", "v1,…", "x-api-key", "••••••", "curl -X POST", "test&#34;:true"} {
		require.Contains(t, res.Body, shown)
	}
	require.NotContains(t, res.Body, "top-secret-value")
	require.NotContains(t, res.Body, "Send another", "who only looks")
	require.Equal(t, http.StatusNotFound, p.get("/destinations/"+other+"/tests/"+delivery).Status, "another's test")
	var fake string
	require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT 'dlv_' || d.id FROM delivery d JOIN event e ON e.id = d.event_id JOIN destination t ON t.id = d.destination_id WHERE e.event_id = 'evt_fake' AND 'dst_' || t.id = $1", id).Scan(&fake))
	require.Equal(t, http.StatusNotFound, p.get("/destinations/"+id+"/tests/"+fake).Status, "an event that only calls itself a test stays masked")
}
