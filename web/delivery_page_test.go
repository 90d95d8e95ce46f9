package web

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a hostile producer, receiver or operator may put into a page.
const (
	xssPayload = `{"carrier":"</script><img src=x onerror=alert(1)>","status":"\u003cscript\u003ealert(2)\u003c/script\u003e","url":"javascript:alert(3)"}`
	xssBody    = `<img src=x onerror=alert(4)>`
	xssName    = `"><svg onload=alert(5)>`
	xssReason  = `500 <b>x</b>"><script>alert(6)</script>`
	xssEvent   = `evt"><script>alert(7)</script>`
	xssSubject = "shp\u202e000\u200b<i>"
)

// seedHostile makes one delivery of everything that is hostile, dead-lettered after one attempt.
func seedHostile(p *panel) {
	p.t.Helper()
	p.exec("INSERT INTO lane (id, name) VALUES (1, $1)", xssName)
	p.exec("INSERT INTO destination (id, name, url, lane_id, state, state_reason) VALUES (1, $1, 'https://acme.example/?a=\"><script>', 1, 'paused', $2)", xssName, xssReason)
	p.exec("INSERT INTO event (id, event_id, type, subject, tenant, payload, occurred_at) VALUES (1, $1, $2, $3, $4, $5, now())",
		xssEvent, "<script>", xssSubject, xssName, []byte(xssPayload))
	p.exec("INSERT INTO search_key (type_pattern, path, label, created_by) VALUES ('*', '<b>', 'carrier', $1)", xssName)
	p.exec("INSERT INTO event_key (event_id, label, value) VALUES (1, 'carrier', $1)", xssName)
	p.exec(`INSERT INTO delivery (id, event_id, destination_id, lane_id, state, attempts, expires_at, reason, last_error_class, settled_at)
		VALUES (1000, 1, 1, 1, 'dead_lettered', 1, now(), $1, '<u>', now())`, xssReason)
	p.exec(`INSERT INTO attempt (delivery_id, no, lane_id, process, started_at, lease_until, finished_at, verdict, status, reason, error_class, retry_after, excerpt)
		VALUES (1000, 1, 1, 'p', now(), now(), now(), 'reject', 500, $1, '<u>', '"><script>', $2)`, xssReason, []byte(xssBody))
	p.exec("INSERT INTO replay (actor, reason) VALUES ($1, $2)", xssName, xssReason)
	p.exec("INSERT INTO replay_item (replay_id, delivery_id, previous_state, previous_reason) VALUES (1, 1000, 'expired', $1)", xssReason)
	p.exec("INSERT INTO outbox (type, subject, payload, refused_at, refused_reason) VALUES ('<b>', '<i>', '\\x00', now(), $1)", xssReason)
	p.exec("INSERT INTO discovery_run (job_id, source, started_at, error) VALUES (1, '<img>', now(), $1)", xssReason)
	p.exec("INSERT INTO api_token (name, token_hash, hint, scopes) VALUES ($1, sha256('t'), 'abcd', '{read}')", xssName)
}

func TestHostileTextIsInert(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	seedHostile(p)
	for _, path := range []string{
		"/", "/destinations", "/destinations/dst_1", "/destinations/dst_1/edit", "/deliveries", "/deliveries/dlv_1000", "/discovery", "/tokens",
		"/deliveries?event=" + url.QueryEscape(xssName), "/events", eventPath(xssEvent), subjectPath(xssSubject, xssName), subjectPath(xssSubject, ""), "/search-keys",
		"/events?q=" + url.QueryEscape(xssName), "/events?q=" + url.QueryEscape(xssEvent), "/login?next=" + url.QueryEscape(xssName),
	} {
		res := p.get(path)
		if strings.HasPrefix(path, "/login") {
			require.Equal(t, "/", res.Location)
			continue
		}
		require.Equal(t, http.StatusOK, res.Status, path)
		require.Contains(t, res.Header.Get("Content-Security-Policy"), "script-src 'self'")
		for _, live := range []string{"<img", "<svg onload", "<script>", "<b>", "<i>", "<u>", `href="javascript:`, "\u202e", "\u200b"} {
			require.NotContains(t, res.Body, live, path)
		}
	}
	page := p.get("/deliveries/dlv_1000").Body
	require.Contains(t, page, "&lt;img src=x onerror=alert(4)&gt;", "the response is shown, as text")
	require.NotContains(t, page, "alert(1)", "the payload is masked")
	require.Contains(t, page, "[U+202E]", "what turns the text's direction is shown")
	require.Equal(t, eventPath(xssEvent)+"#payload", p.get(eventPath(xssEvent, "/payload")).Location, "and not to be downloaded")

	revealed := p.post(eventPath(xssEvent, "/reveal"), "back", "/deliveries/dlv_1000", "why", "the receiver asked")
	require.Equal(t, "/deliveries/dlv_1000#payload", revealed.Location)
	entry := p.auditOf("payload.reveal")[0]
	require.Equal(t, []string{"Ada", xssEvent, "the receiver asked"}, []string{entry.Actor, entry.Object, entry.Note})
	for _, path := range []string{"/deliveries/dlv_1000", eventPath(xssEvent)} {
		page = p.get(path).Body
		require.Equal(t, 2, strings.Count(page, "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"), "the payload is shown as it is and laid out, as text")
		for _, live := range []string{"<img", "<script>", `href="javascript:`} {
			require.NotContains(t, page, live, path)
		}
	}
	raw := p.get(eventPath(xssEvent, "/payload"))
	require.Equal(t, xssPayload, raw.Body, "byte by byte")
	require.Equal(t, "application/octet-stream", raw.Header.Get("Content-Type"))
	require.Contains(t, raw.Header.Get("Content-Disposition"), "attachment")
	require.Equal(t, eventPath(xssEvent)+"#payload", p.post(eventPath(xssEvent, "/reveal"), "back", "//evil.example/x").Location)

	refused := p.post("/deliveries/dlv_1000/replay", "reason", xssReason)
	require.Equal(t, "/deliveries/dlv_1000", refused.Location)
	require.Contains(t, p.get("/deliveries/dlv_1000").Body, "Nothing was sent")
}

func TestReplayFromThePage(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	seedHostile(p)
	p.exec("UPDATE destination SET state = 'active'")
	require.Contains(t, p.get("/deliveries/dlv_1000").Body, "Send this event again?")
	require.Equal(t, "/deliveries/dlv_1000", p.post("/deliveries/dlv_1000/replay", "reason", "the receiver is back").Location)
	page := p.get("/deliveries/dlv_1000").Body
	require.Contains(t, page, "It is owed again")
	require.Contains(t, page, "the receiver is back")
	require.Contains(t, page, "operator Ada")
	require.Equal(t, 1, p.count("SELECT count(*) FROM delivery WHERE state = 'pending'"))
	require.NotContains(t, page, "Send this event again?", "what is being delivered cannot be replayed")
}

func TestBadParametersNeverBreakAPage(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	seedHostile(p)
	for _, path := range []string{
		"/deliveries?page=0", "/deliveries?page=-1", "/deliveries?page=99999999999999999999", "/deliveries?limit=1000000", "/deliveries?state=nope",
		"/deliveries?event=%00", "/deliveries?event=%FF", "/deliveries?event='", "/deliveries?subject=%00%FF", "/deliveries?sort=drop",
		"/deliveries?destination=not-an-id", "/deliveries?destination=dst_99999999999999999999", "/deliveries?cursor=garbage", "/deliveries?cursor=aS0x",
		"/deliveries?event=" + strings.Repeat("x", 5000), "/deliveries?%zz", "/destinations?after=%00", "/destinations?after=%FF", "/destinations?after=zzzz",
		"/discovery?runs=-1&refused=99999999999999999999", "/discovery?runs=x", "/?x=%FF",
	} {
		res := p.get(path)
		require.Equal(t, http.StatusOK, res.Status, path)
		require.Contains(t, res.Body, "<h1", path)
	}
	require.Contains(t, p.get("/deliveries?state=nope").Body, "State: want pending, retrying")
	for _, path := range []string{
		"/deliveries/x", "/deliveries/dlv_0", "/deliveries/dlv_99999999999999999999", "/destinations/%00", "/destinations/%FF",
		"/destinations/dst_7", "/destinations/dst_7/edit", "/destinations/%2e%2e%2f", "/nope",
	} {
		res := p.get(path)
		require.Equal(t, http.StatusNotFound, res.Status, path)
		require.Contains(t, res.Body, "To the overview", path)
	}
	require.Equal(t, http.StatusRequestEntityTooLarge, p.post("/tokens", "name", strings.Repeat("x", 300<<10)).Status)
	bad := p.do(p.client, http.MethodPost, "/tokens", url.Values{"name": {"\x00\xff"}, "scopes": {"read"}})
	require.Equal(t, http.StatusUnprocessableEntity, bad.Status)
}

func TestDeliveryListPages(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	require.Contains(t, p.get("/deliveries").Body, "/api/v1/events", "without events the page shows how to hand one in")
	seedHostile(p)
	p.exec("INSERT INTO event (id, event_id, type, subject, payload, occurred_at) SELECT g, 'evt_' || g, 'shipment.updated', 'shp_' || g % 7, '{}', now() FROM generate_series(2, 121) g")
	p.exec(`INSERT INTO delivery (id, event_id, destination_id, lane_id, state, attempts, expires_at, settled_at)
		SELECT 1000 + g, g, 1, 1, 'delivered', 1, now(), now() FROM generate_series(2, 121) g`)
	rows := func(body string) int { return strings.Count(body, `data-testid="delivery"`) }
	first := p.get("/deliveries").Body
	require.Equal(t, deliveryPageSize, rows(first))
	link := func(body, rel string) string {
		found := regexp.MustCompile(`href="([^"]+)" rel="` + rel + `"`).FindStringSubmatch(body)
		if found == nil {
			return ""
		}
		return html.UnescapeString(found[1])
	}
	seen, visited := 0, []string{}
	for path := "/deliveries"; path != ""; {
		page := p.get(path)
		require.Equal(t, http.StatusOK, page.Status)
		seen += rows(page.Body)
		visited = append(visited, page.Body)
		path = link(page.Body, "next")
	}
	require.Len(t, visited, 3)
	back := p.get(link(visited[2], "prev")).Body
	require.Contains(t, back, "dlv_1060")
	require.Equal(t, "/deliveries", link(back, "prev"), "the way back leads page by page to the newest")
	require.Equal(t, 121, seen)
	require.Equal(t, 1, rows(p.get("/deliveries?state=dead_lettered").Body))
	require.Equal(t, 1, rows(p.get("/deliveries?event=evt_7").Body))
	require.Equal(t, 18, rows(p.get("/deliveries?subject=shp_2&destination=dst_1").Body))
	require.Contains(t, p.get("/deliveries?subject=none").Body, "No delivery is like that")

	fragment := p.do(p.client, http.MethodGet, "/deliveries", nil, fragmentHeader, "1")
	require.NotContains(t, fragment.Body, "<html")
	require.Equal(t, deliveryPageSize, rows(fragment.Body))
}

func TestOverviewPage(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	empty := p.get("/").Body
	require.Contains(t, empty, "No destinations yet")
	require.Contains(t, empty, "No worker is running")
	require.Contains(t, empty, "curl -X POST "+p.url+"/api/v1/events")

	seedHostile(p)
	p.exec("INSERT INTO process (id, roles) VALUES ('w', '{work}')")
	p.exec("UPDATE discovery_run SET finished_at = now() - interval '31 seconds'")
	p.exec("INSERT INTO dead_letter_group (destination_id, state, status, error_class, type, open, first_seen, last_seen) VALUES (1, 'dead_lettered', 500, '<u>', '', 1, now(), now())")
	p.exec("INSERT INTO river_job (state, max_attempts, kind, queue, args, scheduled_at) VALUES ('available', 1, 'deliver', 'deliver', '{}', now() - interval '20 minutes')")
	page := p.get("/").Body
	require.NotContains(t, page, "No worker is running")
	require.Contains(t, page, "overdue")
	require.Contains(t, page, "20 min")
	require.Contains(t, page, "has 1 dead letter since")
	require.Regexp(t, `data-testid="waiting">1<`, page)
}
