package web

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/web/ui"
)

func TestAuditPage(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.exec(`INSERT INTO audit (at, actor_kind, actor, role, action, object_kind, object_id, object_name, before, after, note)
		SELECT '2026-01-01'::timestamptz + n * interval '1 hour', 'token', 'shop', 'admin', CASE WHEN n % 2 = 0 THEN 'destination.update' ELSE 'lane.update' END,
			'destination', 'dst_' || n % 3, 'Acme', '{"timeout": "10s"}', '{"timeout": "20s"}', 'n' || n FROM generate_series(1, 130) n`)
	p.exec(`INSERT INTO audit (actor_kind, actor, action, object_kind, object_id, object_name, after, note)
		VALUES ('operator', '<script>alert(1)</script>', 'destination.update', 'destination', 'dst_9', '=1+1', '{"name": "\"><img src=x>"}', E'\u202Eevil')`)

	t.Run("PagesWithoutOverlapAndBack", func(t *testing.T) {
		seen := map[string]int{}
		path, pages := "/audit?actor=shop", 0
		for path != "" {
			body := p.get(path).Body
			for n := 1; n <= 130; n++ {
				if strings.Contains(body, fmt.Sprintf("<bdi>n%d</bdi>", n)) {
					seen[fmt.Sprint("n", n)]++
				}
			}
			pages++
			path = linkWithRel(body, "next")
			require.Equal(t, pages > 1, linkWithRel(body, "prev") != "")
		}
		require.Equal(t, 3, pages)
		require.Len(t, seen, 130)
	})

	t.Run("FiltersCombine", func(t *testing.T) {
		count := func(q string) int { return strings.Count(p.get("/audit?"+q).Body, `data-testid="audit"`) }
		require.Equal(t, 22, count("object=dst_1&action=lane.update"))
		require.Equal(t, 22, count("object=dst_1&action=destination."))
		require.Equal(t, 3, count("actor=shop&since=2026-01-01T03:00&until=2026-01-01T06:00"))
		require.Equal(t, 0, count("actor=nobody"))
		require.Equal(t, 1, count("action=sign_in"))
		res := p.get("/audit?since=tomorrow&actor=shop")
		require.Equal(t, http.StatusOK, res.Status)
		require.Contains(t, res.Body, "wants a time such as")
	})

	t.Run("ForeignTextStaysText", func(t *testing.T) {
		body := p.get("/audit?object=dst_9").Body
		require.NotContains(t, body, "<script>alert")
		require.NotContains(t, body, "<img")
		require.NotContains(t, body, "\u202e")
	})

	t.Run("ExportsWhatTheFilterMatches", func(t *testing.T) {
		res := p.get("/audit/export.csv?object=dst_1")
		require.Contains(t, res.Header.Get("Content-Disposition"), ".csv")
		lines, err := csv.NewReader(strings.NewReader(res.Body)).ReadAll()
		require.NoError(t, err)
		require.Len(t, lines, 1+44)
		require.Contains(t, p.get("/audit/export.csv?object=dst_9").Body, "'=1+1", "no spreadsheet runs it")

		res = p.get("/audit/export.ndjson?actor=shop")
		rows := strings.Split(strings.TrimSpace(res.Body), "\n")
		require.Len(t, rows, 130)
		var entry AuditEntry
		require.NoError(t, json.Unmarshal([]byte(rows[0]), &entry))
		require.Equal(t, "n130", entry.Note)
		require.JSONEq(t, `{"timeout": "20s"}`, string(entry.After))
		require.Equal(t, http.StatusBadRequest, p.get("/audit/export.csv?since=tomorrow").Status)
	})

	t.Run("ADestinationShowsItsHistoryToEverybody", func(t *testing.T) {
		p.exec("INSERT INTO lane (id, name) VALUES (1, 'l')")
		p.exec("INSERT INTO destination (id, name, url, lane_id) VALUES (1, 'Acme', 'https://acme.example/', 1)")
		body := p.get("/destinations/dst_1").Body
		require.Equal(t, historyShown, strings.Count(body, `data-testid="history"`))
		require.Contains(t, body, "/destinations/dst_1/history")
		viewer := p.as(ui.Viewer, "Vera")
		all := p.do(viewer, http.MethodGet, "/destinations/dst_1/history", nil)
		require.Equal(t, 44, strings.Count(all.Body, `data-testid="history"`))
		require.NotContains(t, all.Body, "/audit", "the rest of the log is for administrators")
		require.NotContains(t, all.Body, "10.0.0.", "and so are addresses")
	})
}

// linkWithRel is where the page's link with this relation leads; "" where there is none.
func linkWithRel(body, rel string) string {
	before, _, ok := strings.Cut(body, `rel="`+rel+`"`)
	if !ok {
		return ""
	}
	_, href, _ := strings.Cut(before[strings.LastIndex(before, "<a "):], `href="`)
	href, _, _ = strings.Cut(href, `"`)
	return strings.ReplaceAll(href, "&amp;", "&")
}
