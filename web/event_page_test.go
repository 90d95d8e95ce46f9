package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/web/ui"
)

func TestEventIsFoundByWhatItsPayloadHas(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	find := func(query string) []string {
		var page Page[Event]
		require.NoError(t, json.Unmarshal(b.ok(t, 200, "GET", "/events?"+query, "").body, &page))
		ids := []string{}
		for _, e := range page.Items {
			ids = append(ids, e.ID)
		}
		return ids
	}
	b.ok(t, 202, "POST", "/events", `{"id": "before", "type": "shipment.updated", "subject": "s", "payload": {"tracking": {"number": "1Z999"}}}`)
	key := b.ok(t, 201, "POST", "/search-keys", `{"type": "shipment.*", "path": "tracking.number", "label": "tracking"}`).field(t, "id").(string)
	b.ok(t, 201, "POST", "/search-keys", `{"type": "*", "path": "orders[].id", "label": "order"}`)
	b.ok(t, 409, "POST", "/search-keys", `{"type": "*", "path": "orders[].id", "label": "order"}`)
	for body, field := range map[string]string{
		`{"type": "ship ment", "path": "a", "label": "a"}`: "type", `{"type": "*", "path": "a..b", "label": "a"}`: "path", `{"type": "*", "path": "", "label": "a"}`: "path",
		`{"type": "*", "path": "a", "label": "Order No"}`: "label", `{"type": "*", "path": "a", "label": ""}`: "label",
	} {
		b.refused(t, "POST", "/search-keys", body, field, "want")
	}
	// Every process hears of a new key within seconds; this one has just looked, as the event before was taken.
	require.Eventually(t, func() bool {
		id := fmt.Sprintf("probe%d", b.serial.Add(1))
		b.ok(t, 202, "POST", "/events", `{"id": "`+id+`", "type": "shipment.probe", "subject": "s", "payload": {"tracking": {"number": "probe"}}}`)
		return len(find("key=tracking&value=probe")) > 0
	}, 15*time.Second, 200*time.Millisecond)

	b.ok(t, 202, "POST", "/events", `{"id": "e1", "type": "shipment.updated", "subject": "s", "payload": {"tracking": {"number": "1Z999"}, "orders": [{"id": 7001}, {"id": "A-7"}]}}`)
	b.ok(t, 202, "POST", "/events", `{"id": "e2", "type": "order.paid", "subject": "s", "tenant": "acme", "payload": {"tracking": {"number": "1Z999"}, "orders": [{"id": 7001}]}}`)
	require.Equal(t, []string{"e1"}, find("key=tracking&value=1Z999"), "not of another type, and not of before")
	require.Equal(t, []string{"e2", "e1"}, find("key=order&value=7001"), "a number as it is written")
	require.Equal(t, []string{"e2", "e1"}, find("value=7001"), "under any key")
	require.Equal(t, []string{"e2"}, find("value=7001&tenant=acme"))
	require.Equal(t, []string{"e1"}, find("value=A-7&type=shipment.*&subject=s"))
	require.Empty(t, find("key=order&value=700"))
	b.refused(t, "GET", "/events?key=order", "", "value", "missing")

	b.ok(t, 202, "POST", "/events", `{"id": "e1", "type": "shipment.updated", "subject": "s", "payload": {"tracking": {"number": "1Z999"}, "orders": [{"id": 7001}, {"id": "A-7"}]}}`)
	require.Equal(t, []string{"e1"}, find("key=tracking&value=1Z999"), "a duplicate changes nothing")

	require.Contains(t, string(b.ok(t, 200, "GET", "/search-keys", "").body), `"tracking.number"`)
	b.ok(t, 204, "DELETE", "/search-keys/"+key, "")
	b.ok(t, 404, "DELETE", "/search-keys/"+key, "")
	require.Equal(t, []string{"e1"}, find("key=tracking&value=1Z999"), "what was found stays")
}

func TestEventPages(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	require.Contains(t, p.get("/events").Body, "No events yet")
	p.exec("INSERT INTO lane (id, name) VALUES (1, 'l')")
	p.exec("INSERT INTO destination (id, name, url, lane_id, tenant) VALUES (1, 'Acme', 'https://a.example/hook?token=hunter7', 1, NULL), (2, 'Globex', 'https://g.example/', 1, 'globex'), (3, 'Empty', 'https://e.example/', 1, NULL), (4, 'Other', 'https://o.example/', 1, NULL)")
	p.exec("INSERT INTO subscription (destination_id, types) VALUES (1, '{shipment.*}'), (2, '{*}'), (4, '{order.*,invoice.paid}')")
	for _, id := range []string{"evt/1%2F?", "..", "-"} {
		p.exec("INSERT INTO event (event_id, type, subject, version, payload, occurred_at) VALUES ($1::text, 'shipment.updated', 'shp/9 ü', nullif(length($1::text), 9), '{\"secret\": 1}', now())", id)
	}
	p.exec(`INSERT INTO delivery (id, event_id, destination_id, lane_id, state, attempts, expires_at, created_at, settled_at, last_status)
		VALUES (1000, 1, 1, 1, 'delivered', 2, now(), now() - interval '2 minutes', now(), 200)`)
	p.exec(`INSERT INTO attempt (delivery_id, no, lane_id, process, started_at, lease_until, finished_at, verdict, status, error_class, took_us, dns_us, connect_us, tls_us, first_byte_us) VALUES
		(1000, 1, 1, 'p', now() - interval '100 seconds', now(), now() - interval '99 seconds', 'retry', 503, 'status_5xx', 90000, 3000, 10000, 30000, 80000),
		(1000, 2, 1, 'p', now() - interval '60 seconds', now(), now() - interval '59 seconds', 'delivered', 200, '', 20000, NULL, NULL, NULL, 15000)`)

	t.Run("an event says whom it is owed to, and why not the others", func(t *testing.T) {
		page := p.get(eventPath("evt/1%2F?")).Body
		require.Contains(t, page, "Every delivery has ended.")
		require.Contains(t, page, "dlv_1000")
		require.Contains(t, page, "it takes only events of the tenant globex")
		require.Contains(t, page, "it subscribes to nothing")
		require.Contains(t, page, "it subscribes only to order.*, invoice.paid")
		require.NotContains(t, page, "secret&#34;", "masked")
		for _, id := range []string{"..", "-"} {
			page = p.get(eventPath(id)).Body
			require.Contains(t, page, "It is owed to nobody")
			require.Contains(t, page, "it subscribes to this type now, and did not")
		}
		require.Equal(t, http.StatusNotFound, p.get(eventPath("nothing")).Status)
		require.Equal(t, http.StatusNotFound, p.get("/events/%00").Status)
	})

	t.Run("a subject has every version, request and wait", func(t *testing.T) {
		page := p.get(subjectPath("shp/9 ü", "")).Body
		require.Equal(t, 3, strings.Count(page, `data-testid="version"`))
		require.Contains(t, page, "attempt 1: 503 Service Unavailable")
		require.Contains(t, page, "attempt 2: 200 OK")
		require.Contains(t, page, "39 s <span class=\"sub\"><bdi>to try again: the backoff after status-5xx")
		require.Less(t, strings.Index(page, "attempt 1:"), strings.Index(page, "attempt 2:"))
		require.Equal(t, http.StatusNotFound, p.get(subjectPath("shp/9", "")).Status)
		require.Equal(t, http.StatusNotFound, p.get(subjectPath("shp/9 ü", "other")).Status)
		p.exec("INSERT INTO event (event_id, type, subject, version, payload, occurred_at) SELECT 'v' || g, 'shipment.updated', 'many', g, '{}', now() FROM generate_series(1, 45) g")
		first := p.get(subjectPath("many", "")).Body
		require.Equal(t, subjectPageSize, strings.Count(first, `data-testid="version"`))
		require.Contains(t, first, "Version 45<")
		require.Contains(t, first, `rel="next"`)
	})

	t.Run("a word finds an event by its id or subject, and a delivery", func(t *testing.T) {
		require.Contains(t, p.get("/events?q="+url.QueryEscape("evt/1%2F?")).Body, "found by event id")
		require.Equal(t, 3, strings.Count(p.get("/events?q="+url.QueryEscape("shp/9 ü")).Body, "found by subject"))
		require.Equal(t, "/deliveries/dlv_1000", p.get("/events?q=dlv_1000").Location)
		require.Contains(t, p.get("/events?q=nothing").Body, "Nothing was found")
		p.exec("INSERT INTO search_key (type_pattern, path, label, created_by) VALUES ('*', 'x', 'order', 'me')")
		p.exec("INSERT INTO event_key (event_id, label, value) VALUES (1, 'order', '7001-ü'), (2, 'order', '7002')")
		require.Equal(t, 2, strings.Count(p.get("/events?q=700*").Body, "found by value in the payload"))
		require.Equal(t, 1, strings.Count(p.get("/events?q="+url.QueryEscape("7001-ü")).Body, "found by value in the payload"))
	})

	t.Run("a delivery shows its phases, its waits and its request without secrets", func(t *testing.T) {
		page := p.get("/deliveries/dlv_1000?attempt=1").Body
		require.Contains(t, page, "Request of attempt 1")
		require.Contains(t, page, "POST https://a.example/hook?token=redacted")
		require.NotContains(t, page, "hunter7")
		require.Contains(t, page, "webhook-timestamp")
		require.Contains(t, page, "curl -X POST &#39;https://a.example/hook?token=redacted&#39;")
		require.Contains(t, page, "waited 39 s")
		require.Contains(t, page, `DNS <span class="num">3.0 ms`)
		require.Contains(t, page, `connect <span class="num">7.0 ms`)
		require.Contains(t, page, `TLS <span class="num">20 ms`)
		require.Contains(t, page, "on a connection that was kept")
		require.Contains(t, p.get("/deliveries/dlv_1000").Body, "Request of attempt 2")
	})

	t.Run("a viewer cannot reveal a payload", func(t *testing.T) {
		viewer := p.as(ui.Viewer, "Vera")
		require.Equal(t, http.StatusForbidden, p.do(viewer, http.MethodPost, eventPath("evt/1%2F?", "/reveal"), url.Values{}).Status)
		require.Equal(t, http.StatusForbidden, p.do(viewer, http.MethodGet, eventPath("evt/1%2F?", "/payload"), nil).Status)
		require.Contains(t, p.do(viewer, http.MethodGet, eventPath("evt/1%2F?"), nil).Body, "Payloads are masked.")
	})
}

func TestPayloadsAreLegibleWhateverTheyAre(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../app/testdata/payloads/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var m payloadModel
		m.show(raw, len(raw))
		if !json.Valid(raw) {
			require.NotEmpty(t, m.Note, file)
			continue
		}
		var compactRaw, compactLaid strings.Builder
		for _, side := range []struct {
			in  string
			out *strings.Builder
		}{{string(raw), &compactRaw}, {layOut(raw, 1<<30), &compactLaid}} {
			inString, escaped := false, false
			for _, c := range []byte(side.in) {
				if !inString && (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
					continue
				}
				side.out.WriteByte(c)
				if c == '"' && !escaped {
					inString = !inString
				}
				escaped = c == '\\' && !escaped
			}
		}
		require.Equal(t, compactRaw.String(), compactLaid.String(), "%s: laid out, it is the same document", file)
	}
	require.Equal(t, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": \"x{\\\"\"\n}", layOut([]byte(`{"a":[1,{ }],"b":"x{\""}`), 1000))
	deep := strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)
	require.Less(t, len(layOut([]byte(deep), 1<<30)), 2_000_000)
}
