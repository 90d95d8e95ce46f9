package web

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// axe is Deque's accessibility audit, from the npm package axe-core; its licence (MPL-2.0) stands beside it. It is in no binary.
//
//go:embed testdata/axe-4.14.1.min.js
var axe string

// auditPage says what is wrong with the page as it is: one line for each violation, with the first elements. It takes what of the page to
// look at, and which rules.
const auditPage = `axe.run(%s, {resultTypes: ["violations"], %s}).then(r => r.violations.map(v =>
	v.id + ": " + v.nodes.slice(0, 3).map(n => n.target.join(" ") + " " + (n.any[0] || n.all[0] || n.none[0] || {message: ""}).message).join(" | ")))`

// watchShifts adds up by how much what is on the page moved without being asked to, in shares of the window as Core Web Vitals counts it, and
// keeps what moved, from where to where. It begins once the page is loaded: a slow machine paints the first rows of a table before the others
// have come.
const watchShifts = `window.shifts = {sum: 0, what: []};
addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(() => new PerformanceObserver(list => list.getEntries().filter(e => !e.hadRecentInput).forEach(e => {
	shifts.sum += e.value;
	shifts.what.push(...e.sources.map(s => [s.node?.id || s.node?.className || s.node?.nodeName, s.previousRect.x, s.previousRect.y, "to", s.currentRect.x, s.currentRect.y].join(" ")));
})).observe({type: "layout-shift"}))))`

// shiftsNow asks each live region for itself once more, waits for the frames in which that is painted, and says what moved, if it was too
// much. What has no id is told by its class.
const shiftsNow = `Promise.all([...document.querySelectorAll("live-region")].map(r => r.refresh())).then(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() =>
	done(shifts.sum > 0.01 ? shifts.sum.toFixed(3) + ": " + shifts.what.slice(0, 4).join(", ") : ""))))))`

// somewhereReal are objects of fillPanel, by the first part of the paths that lead to them.
var somewhereReal = map[string]string{
	"destinations": "dst_1", "deliveries": "dlv_1000", "replays": "rpl_1", "lanes": "lane_1", "dead-letters": "dlg_1", "events": xssEvent,
}

// pagesOf are the addresses of all pages, from the table of routes: a new page cannot be forgotten.
func pagesOf(t *testing.T, routes []route) (paths []string) {
	t.Helper()
	for _, r := range routes {
		switch {
		case r.method != http.MethodGet || r.path == livePath || r.path == findPath || strings.HasPrefix(r.path, riverPath):
		case strings.Contains(r.path, "/export") || strings.HasSuffix(r.path, "/payload"): // downloads
		case strings.HasPrefix(r.path, "/events/:id"):
			for _, id := range []string{xssEvent, "names", "large", "far"} {
				paths = append(paths, eventPath(id))
			}
		case r.path == "/subjects/:id":
			paths = append(paths, subjectPath(xssSubject, xssName), subjectPath(oddSubject, ""))
		case strings.Contains(r.path, ":id"):
			id, known := somewhereReal[strings.Split(r.path, "/")[1]]
			require.True(t, known, "which object shows %s? Name one in somewhereReal", r.path)
			paths = append(paths, strings.NewReplacer(":id", id, ":delivery", "dlv_1000").Replace(r.path))
		case r.path == "/replays/preview":
			paths = append(paths, r.path+"?state=dead_lettered")
		default:
			paths = append(paths, r.path)
		}
	}
	return append(paths, "/events?q=alert", "/deliveries?state=dead_lettered&type=x.*", "/nowhere", "/destinations/dst_3", "/deliveries/dlv_1001", "/deliveries/dlv_1002")
}

var oddSubject = "Zoë 👩‍👩‍👧 \u202egnp.exe " + strings.Repeat("W", 180)

// fillPanel puts something of everything there: what is hostile, what is long, what is far in the future.
func fillPanel(p *panel) {
	p.t.Helper()
	seedHostile(p)
	names, err := os.ReadFile("../app/testdata/payloads/nasty_unicode_names.json")
	require.NoError(p.t, err)
	large := append([]byte(`{"filler": "`), bytes.Repeat([]byte("x"), 1<<20)...)
	p.exec("SELECT setval(pg_get_serial_sequence('event', 'id'), 100), setval(pg_get_serial_sequence('destination', 'id'), 100)")
	for id, payload := range map[string][]byte{"names": names, "large": append(large, `"}`...), "far": []byte(`{"at": "10000-01-01"}`)} {
		p.exec("INSERT INTO event (event_id, type, subject, payload, occurred_at, expires_at) VALUES ($1, 'shipment.updated', $2, $3, '10000-01-01', '294276-12-31')", id, oddSubject, payload)
	}
	p.exec("INSERT INTO lane (id, name, rate, burst, max_in_flight) VALUES (2, 'Shared', 0.5, 1, 2)")
	p.exec(`INSERT INTO destination (id, name, url, lane_id, state, state_reason, tenant) SELECT g, (ARRAY['Acme', 'Ünïcödé', 'x'])[g - 1] || repeat('w', 50 * (g - 2)),
		'https://acme.example/' || repeat('path/', 20 * (g - 2)), 2, (ARRAY['active', 'paused', 'disabled'])[g - 1], 'by hand', 'acme' FROM generate_series(2, 4) g`)
	p.exec(`INSERT INTO delivery (id, event_id, destination_id, lane_id, state, attempts, expires_at, reason, last_status, last_error_class, settled_at)
		SELECT 1000 + g, e.id, 2 + (g / 3) % 3, 2, s, 1, '10000-01-01', 'refused', 422, 'status_4xx', CASE WHEN s NOT IN ('pending', 'retrying') THEN now() END
		FROM (SELECT row_number() OVER () AS g, s, (ARRAY['names', 'large', 'far'])[1 + (row_number() OVER ()) % 3] AS event
			FROM unnest(ARRAY['pending', 'retrying', 'delivered', 'expired', 'dead_lettered', 'superseded', 'cancelled']) s) x JOIN event e ON e.event_id = x.event`)
	p.exec(`INSERT INTO attempt (delivery_id, no, lane_id, process, started_at, lease_until, finished_at, verdict, status, took_us, reason, excerpt)
		SELECT 1002, g, 2, 'p', now(), now(), now(), 'retry', 503, 120000, 'busy', 'Service Unavailable' FROM generate_series(1, 3) g`)
	p.exec("INSERT INTO saved_view (operator_id, name, query, shared) SELECT id, $1, 'state=expired', true FROM operator", xssName)
	p.exec(`INSERT INTO dead_letter_group (id, destination_id, state, status, error_class, type, reason, open, total, first_seen, last_seen, opened_at)
		OVERRIDING SYSTEM VALUE VALUES (1, 1, 'dead_lettered', 500, '<u>', $1, $2, 2, 2, now(), now(), now())`, xssName, xssReason)
	p.exec("INSERT INTO dead_letter (delivery_id, group_id, seq, ended_at) VALUES (1000, 1, 1, now()), (1005, 1, 2, now())")
	p.exec(`INSERT INTO dead_letter_history (group_id, kind, actor, note) SELECT 1, k, $1, $2 FROM unnest(ARRAY['opened', 'assigned', 'note', 'snoozed', 'woke']) k`, xssName, xssReason)
	p.exec("INSERT INTO destination_note (destination_id, author, body) VALUES (1, $1, $2)", xssName, xssReason)
	p.exec(`INSERT INTO tally (destination_id, step_s, at, requests, ok, server_error, delivered, retried)
		SELECT d, s, date_trunc('hour', now()) - g * interval '1 hour', 50, 40, 10, 40, 10 FROM generate_series(0, 20) g, unnest(ARRAY[0, 2]) d, unnest(ARRAY[60, 3600]) s`)
}

// Every page, in light and dark, on a telephone and on a desk, with hostile data: the audit finds nothing, nothing is wider than the window,
// and nothing moves by itself. Each question that a page can ask is asked, too.
func TestEveryPageIsAccessibleInABrowser(t *testing.T) {
	t.Parallel()
	ctx, _ := newBrowser(t)
	p := newPanel(t).signIn()
	fillPanel(p)
	p.enter(ctx)
	for _, script := range []string{axe, watchShifts} {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		require.NoError(t, err)
	}

	found := map[string][]string{} // where each violation is
	look := func(where, what, rules string) {
		t.Helper()
		violations, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](fmt.Sprintf(auditPage, what, rules), chromedp.EvalAwaitPromise))
		require.NoError(t, err, where)
		for _, v := range violations {
			found[v] = append(found[v], where)
		}
		strange, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.querySelectorAll("main script, main img, main iframe, main [onload], main [onerror], main a[href^='javascript:']").length`))
		require.NoError(t, err)
		wide, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.documentElement.scrollWidth - document.documentElement.clientWidth`))
		require.NoError(t, err)
		if strange > 0 || wide > 0 {
			found[fmt.Sprintf("%d elements of others, %d px wider than the window", strange, wide)] = append(found[fmt.Sprintf("%d elements of others, %d px wider than the window", strange, wide)], where)
		}
	}
	still := func(where string) {
		t.Helper()
		moved, err := chromedp.Run(ctx, chromedp.Evaluate[string](shiftsNow, chromedp.EvalAwaitPromise))
		require.NoError(t, err, where)
		if moved != "" {
			found["what is there moves by "+moved] = append(found["what is there moves by "+moved], where)
		}
	}
	begun := time.Now()
	for _, path := range pagesOf(t, p.server.panelRoutes()) {
		width, since := int64(0), time.Now()
		for _, as := range []struct {
			theme string
			width int64
		}{{"light", 1280}, {"dark", 1280}, {"dark", 390}, {"light", 390}} {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: as.theme}, {Name: "prefers-reduced-motion", Value: "reduce"},
			}})
			require.NoError(t, err)
			fresh := as.width != width
			if fresh {
				width = as.width
				require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, 900), chromedp.Navigate(p.url+path)), path)
			}
			// What is light or dark has other colours, and nothing else.
			rules := `runOnly: ["color-contrast"]`
			if as.theme == "light" {
				rules = `rules: {"color-contrast": {enabled: ` + strconv.FormatBool(width == 1280) + `}}`
			}
			look(fmt.Sprintf("%s %s %d", path, as.theme, width), "document", rules)
			if fresh {
				still(fmt.Sprintf("%s %d", path, width))
			}
		}
		asks, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.querySelectorAll("details.confirm > summary").length`))
		require.NoError(t, err)
		for i := range asks {
			_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(`(document.querySelector("dialog[open]")?.close(), document.querySelectorAll("details.confirm > summary")[%d].click(), true)`, i)))
			require.NoError(t, err)
			look(fmt.Sprintf("%s question %d", path, i), `"dialog[open]"`, "")
		}
		t.Logf("%5d ms, %d questions: %s", time.Since(since).Milliseconds(), asks, path)
	}
	for _, open := range []string{"palette", "keys"} {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(`(document.querySelector("dialog[open]")?.close(), document.querySelector("[data-open=%s]").click(), true)`, open)))
		require.NoError(t, err)
		look(open, `"dialog[open]"`, "")
		still(open)
	}
	t.Logf("looked for %s", time.Since(begun))
	for violation, where := range found {
		t.Errorf("%s\n    on %d: %s", violation, len(where), strings.Join(where[:min(4, len(where))], ", "))
	}
}
