package web

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/web/ui"
)

func TestFind(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.exec("INSERT INTO lane (id, name) VALUES (1, 'l')")
	p.exec("INSERT INTO destination (id, name, url, lane_id, state) VALUES (1, 'Acme warehouse', 'https://a.example/', 1, 'active'), (2, 'Old 100% <b>', 'https://a.example/', 1, 'paused')")
	p.exec("INSERT INTO event (id, event_id, type, subject, payload, occurred_at) VALUES (1, 'evt_1', 'shipment.updated', 'SHP-1', '{}', now())")
	p.exec("INSERT INTO search_key (type_pattern, path, label, created_by) VALUES ('*', 'tracking', 'tracking_number', 'Ada')")
	p.exec("INSERT INTO event_key (event_id, label, value) VALUES (1, 'tracking_number', '1Z999')")
	viewer := p.as(ui.Viewer, "Vera")

	option := regexp.MustCompile(`data-href="([^"]*)"`)
	ask := func(client *http.Client, q string) (hrefs []string, body string) {
		t.Helper()
		res := p.do(client, http.MethodGet, findPath+"?q="+url.QueryEscape(q), nil)
		require.Equal(t, http.StatusOK, res.Status, res.Body)
		for _, m := range option.FindAllStringSubmatch(res.Body, -1) {
			hrefs = append(hrefs, m[1])
		}
		return hrefs, res.Body
	}
	for q, first := range map[string]string{
		"acme": "/destinations/dst_1", "dlv_77": "/deliveries/dlv_77", "evt_1": "/events/evt_1", "SHP-1": "/subjects/SHP-1", "1Z999": "/events/evt_1",
		"audit": "/audit", "add dest": "/destinations/new", "nothing like it": "/events?q=nothing+like+it",
	} {
		hrefs, body := ask(p.client, q)
		require.NotEmpty(t, hrefs, q)
		require.Equal(t, first, hrefs[0], "%s: %s", q, body)
	}
	hrefs, _ := ask(p.client, "acme")
	require.Contains(t, hrefs, "/destinations/dst_1#pause")
	hrefs, body := ask(p.client, "100%")
	require.Equal(t, "/destinations/dst_2", hrefs[0], "a character of patterns means itself")
	require.Contains(t, hrefs, "/destinations/dst_2#resume")
	require.NotContains(t, body, "<b>")

	// Whoever may not is not offered it; whatever is typed, there is an answer.
	hrefs, _ = ask(viewer, "acme")
	require.NotContains(t, hrefs, "/destinations/dst_1#pause")
	hrefs, _ = ask(viewer, "")
	require.Contains(t, hrefs, "/deliveries")
	require.NotContains(t, hrefs, "/audit")
	for _, q := range []string{"\x00", strings.Repeat("x", 500), "%_\\", "'; --", "\xff"} {
		ask(viewer, q)
	}
}

// A first page, with all that it loads, is under 100 KB on the way.
func TestFirstPageIsSmall(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	seedLedger(p.exec)
	total := 0
	fetch := func(path string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, nil)
		require.NoError(t, err)
		req.Header.Set("Accept-Encoding", "gzip") // asked for by hand, so that it comes as it is
		res, err := p.client.Do(req)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		require.Equal(t, http.StatusOK, res.StatusCode, path)
		require.Equal(t, "gzip", res.Header.Get("Content-Encoding"), path)
		raw, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		total += len(raw)
		t.Logf("%6d %s", len(raw), path)
		return string(raw)
	}
	fetch("/")
	page := p.get("/").Body
	loads := regexp.MustCompile(`(?:src|href)="(/static/[^"]+)"`).FindAllStringSubmatch(page, -1)
	require.GreaterOrEqual(t, len(loads), 5)
	for _, load := range loads {
		fetch(load[1])
	}
	require.Less(t, total, 100_000)
	require.NotContains(t, page, `="http`, "everything comes from here")
}
