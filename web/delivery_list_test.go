package web

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seedLedger makes 600 deliveries of 200 events to three destinations in two lanes, of every state, an event a minute.
func seedLedger(exec func(string, ...any)) {
	exec("INSERT INTO lane (id, name) VALUES (1, 'one'), (2, 'two')")
	exec("INSERT INTO destination (id, name, url, lane_id) SELECT g, 'D' || g, 'https://a.example/', 1 + g % 2 FROM generate_series(1, 3) g")
	exec(`INSERT INTO event (id, event_id, tenant, type, subject, payload, occurred_at, created_at)
		SELECT g, 'evt_' || g, (ARRAY['', 'acme', 'globex'])[1 + g % 3], (ARRAY['shipment.updated', 'shipment.returned', 'shipmentx', 'order.paid'])[1 + g % 4],
			'shp_' || g % 9, '{}', now(), '2026-11-30T10:00:00Z'::timestamptz + g * interval '1 minute' FROM generate_series(1, 200) g`)
	exec(`INSERT INTO delivery (id, event_id, destination_id, lane_id, state, expires_at, created_at, last_status, last_error_class, reason, settled_at)
		SELECT 1000 + (n * 7919) % 600, e, d, 1 + d % 2, state, now(), '2026-11-30T10:00:00Z'::timestamptz + e * interval '1 minute',
			CASE WHEN state IN ('dead_lettered', 'retrying') THEN (ARRAY[404, 429, 503, 500, NULL])[1 + n % 5] WHEN state = 'delivered' THEN 200 END,
			CASE WHEN state IN ('dead_lettered', 'retrying') THEN (ARRAY['status_4xx', 'status_429', 'status_5xx', 'status_5xx', 'timeout'])[1 + n % 5] ELSE '' END,
			'=because', CASE WHEN state NOT IN ('pending', 'retrying') THEN now() END
		FROM (SELECT n, 1 + n / 3 AS e, 1 + n % 3 AS d,
			(ARRAY['pending', 'retrying', 'delivered', 'expired', 'dead_lettered', 'superseded', 'cancelled'])[1 + (n * 31) % 7] AS state
			FROM generate_series(0, 599) n) x`)
}

// row is what the test knows of a delivery, to filter by itself.
type row struct {
	id, event, state, kind, subject, tenant, class string
	destination, lane                              int
	status                                         *int32
	came                                           time.Time
}

func TestFiltersOfDeliveriesCombine(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	seedLedger(func(sql string, args ...any) {
		_, err := b.pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	})
	found, err := b.pool.Query(t.Context(), `SELECT d.id, e.event_id, d.state, e.type, e.subject, e.tenant, d.last_error_class, d.destination_id, d.lane_id, d.last_status,
		e.created_at FROM delivery d JOIN event e ON e.id = d.event_id`)
	require.NoError(t, err)
	var all []row
	for found.Next() {
		r, id := row{}, int64(0)
		require.NoError(t, found.Scan(&id, &r.event, &r.state, &r.kind, &r.subject, &r.tenant, &r.class, &r.destination, &r.lane, &r.status, &r.came))
		r.id = formatID(idDelivery, id)
		all = append(all, r)
	}
	require.Len(t, all, 600)

	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	conditions := []map[string]func(row) bool{
		{"": nil, "state=dead_lettered": func(r row) bool { return r.state == "dead_lettered" }, "state=pending": func(r row) bool { return r.state == "pending" }},
		{"": nil, "destination=dst_2": func(r row) bool { return r.destination == 2 }, "lane=lane_2": func(r row) bool { return r.lane == 2 }},
		{"": nil, "type=shipment.*": func(r row) bool { return strings.HasPrefix(r.kind, "shipment.") }, "type=order.paid": func(r row) bool { return r.kind == "order.paid" }, "tenant=acme": func(r row) bool { return r.tenant == "acme" }},
		{"": nil, "status=5xx": func(r row) bool { return r.status != nil && *r.status >= 500 }, "status=429": func(r row) bool { return r.status != nil && *r.status == 429 }, "status=none": func(r row) bool { return r.status == nil }, "error_class=timeout": func(r row) bool { return r.class == "timeout" }},
		{"": nil, "subject=shp_4": func(r row) bool { return r.subject == "shp_4" }, "event=evt_40": func(r row) bool { return r.event == "evt_40" }},
		{"": nil, "from=2026-11-30T12:00:00Z": func(r row) bool { return !r.came.Before(noon) }, "until=2026-11-30T12:00:00Z": func(r row) bool { return r.came.Before(noon) }},
	}
	tried := 0
	var try func(query string, matches []func(row) bool, rest []map[string]func(row) bool)
	try = func(query string, matches []func(row) bool, rest []map[string]func(row) bool) {
		if len(rest) > 0 {
			for condition, match := range rest[0] {
				if match == nil {
					try(query, matches, rest[1:])
				} else {
					try(query+"&"+condition, append(slices.Clip(matches), match), rest[1:])
				}
			}
			return
		}
		if tried++; tried%13 != 0 { // of 1,620 combinations, in a random order, every thirteenth
			return
		}
		var want, got []string
		for _, r := range all {
			if !slices.ContainsFunc(matches, func(match func(row) bool) bool { return !match(r) }) {
				want = append(want, r.id)
			}
		}
		for cursor, pages := "", 0; ; pages++ {
			require.Less(t, pages, 20, query)
			var page Page[Delivery]
			require.NoError(t, json.Unmarshal(b.ok(t, 200, "GET", "/deliveries?limit=90"+query+"&cursor="+cursor, "").body, &page))
			for _, d := range page.Items {
				got = append(got, d.ID)
			}
			if page.NextCursor == nil {
				break
			}
			cursor = *page.NextCursor
		}
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(t, want, got, query)
	}
	try("", nil, conditions)
	require.Equal(t, 1620, tried)

	for query, field := range map[string]string{
		"status=6xx": "status", "status=abc": "status", "since=yesterday": "since", "from=12:00": "from", "lane=x": "lane", "destination=7": "destination",
	} {
		b.refused(t, "GET", "/deliveries?"+query, "", field, "want")
	}
	b.refused(t, "GET", "/deliveries?subject=shp_1&cursor="+newest(false).cursor(), "", "cursor", "not a cursor of this list")
}

func TestDeliveryListPageCountsExportsAndSaves(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	seedLedger(p.exec)
	page := p.get("/deliveries?state=dead_lettered&status=5xx").Body
	require.Contains(t, page, ">34 deliveries.<")
	require.Contains(t, p.get("/deliveries").Body, ">600 deliveries.<")

	t.Run("the export has every row, and no formula", func(t *testing.T) {
		file := p.get("/deliveries/export?format=csv&state=dead_lettered")
		require.Equal(t, http.StatusOK, file.Status)
		require.Contains(t, file.Header.Get("Content-Disposition"), ".csv")
		lines, err := csv.NewReader(strings.NewReader(file.Body)).ReadAll()
		require.NoError(t, err)
		require.Equal(t, csvHead, lines[0])
		require.Len(t, lines, 1+p.count("SELECT count(*) FROM delivery WHERE state = 'dead_lettered'"))
		require.Equal(t, "'=because", lines[1][11])

		file = p.get("/deliveries/export?format=ndjson")
		require.Equal(t, 600, strings.Count(file.Body, "\n"))
		var line exportedDelivery
		first, _, _ := strings.Cut(file.Body, "\n")
		require.NoError(t, json.Unmarshal([]byte(first), &line))
		require.Equal(t, "=because", line.Reason)
		require.Equal(t, http.StatusBadRequest, p.get("/deliveries/export?format=pdf").Status)
		require.Equal(t, http.StatusBadRequest, p.get("/deliveries/export?format=csv&state=nope").Status)
	})

	t.Run("a view is kept under its name, for oneself or for all", func(t *testing.T) {
		refused := p.post("/views", "query", "", "name", "nothing")
		require.Equal(t, "/deliveries", refused.Location)
		require.Contains(t, p.get("/deliveries").Body, "nothing is filtered")
		saved := p.post("/views", "query", "status=5xx&state=dead_lettered&cursor=abc&evil=1", "name", `<b>"failing"`)
		require.Equal(t, "/deliveries?state=dead_lettered&status=5xx", saved.Location, "only what is a filter is kept")
		page := p.get(saved.Location).Body
		require.Contains(t, page, "The view is saved.")
		require.Contains(t, page, `&lt;b&gt;&#34;failing&#34;`)
		require.Contains(t, page, `aria-current="true"`)

		p.exec("INSERT INTO operator (name, password_hash, role) VALUES ('Grace', 'x', 'viewer')")
		p.exec("INSERT INTO saved_view (operator_id, shared, name, query) SELECT id, false, 'private to Grace', 'state=expired' FROM operator WHERE name = 'Grace'")
		p.exec("INSERT INTO saved_view (operator_id, shared, name, query) SELECT id, true, 'for all', 'state=expired' FROM operator WHERE name = 'Grace'")
		page = p.get("/deliveries").Body
		require.NotContains(t, page, "private to Grace")
		require.Contains(t, page, "for all")
		require.Equal(t, http.StatusNotFound, p.post("/views/3/delete").Status, "somebody else's stays")
		require.Equal(t, "/deliveries", p.post("/views/1/delete").Location)
		require.NotContains(t, p.get("/deliveries").Body, "failing")
	})
}

func TestAPageThatIsCutShortSaysSo(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	seedLedger(p.exec)
	// A walk with no time at all stops after its first stretch; more rows than that, none of which matches.
	p.exec(`INSERT INTO event (id, event_id, type, payload, occurred_at) SELECT g, 'more_' || g, 'other', '{}', now() FROM generate_series(1001, 2500) g`)
	p.exec(`INSERT INTO delivery (id, event_id, destination_id, lane_id, expires_at) SELECT 10000 + g, g, 1, 1, now() FROM generate_series(1001, 2500) g`)
	f := deliveryFilter{Tenant: "acme"}
	w, err := p.server.plan(t.Context(), f)
	require.NoError(t, err)
	page, err := p.server.walkDeliveries(t.Context(), w, 50, 0)
	require.NoError(t, err)
	require.Empty(t, page.IDs)
	require.NotNil(t, page.SearchedTo)
	require.NotNil(t, page.Next)

	m := deliveryListModel{SearchedTo: page.SearchedTo, Older: "/deliveries?" + url.Values{"cursor": {*page.cursor()}}.Encode(), Now: time.Now()}
	var out strings.Builder
	require.NoError(t, deliveryListRegion(m).Render(t.Context(), &out))
	require.Contains(t, out.String(), "Searched back to")
	require.Contains(t, out.String(), "Continue")
	require.Equal(t, "At least 3: counted back to "+page.SearchedTo.UTC().Format("2006-01-02 15:04:05")+".", deliveryCount{N: 3, More: true, Since: page.SearchedTo}.words())
	require.Equal(t, "10,000 deliveries or more.", deliveryCount{N: 10_000, More: true}.words())
	require.Equal(t, "About 5,012,000 deliveries.", fmt.Sprint(deliveryCount{N: 5_012_000, Estimate: true}.words()))
}
