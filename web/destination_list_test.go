package web

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbsqlc"
)

var listedDestination = regexp.MustCompile(`(?s)data-testid="destination".*?/destinations/dst_\d+"[^>]*><bdi>([^<]*)</bdi>`)

func (p *panel) listed(path string) (names []string) {
	p.t.Helper()
	res := p.get(path)
	require.Equal(p.t, http.StatusOK, res.Status, path)
	for _, match := range listedDestination.FindAllStringSubmatch(res.Body, -1) {
		names = append(names, match[1])
	}
	return names
}

func TestDestinationList(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.exec("INSERT INTO lane (id, name, parked, held_us) SELECT i, 'l', CASE i WHEN 3 THEN 7 ELSE 0 END, CASE i WHEN 4 THEN 4102444800000000 ELSE 0 END FROM generate_series(1, 5) i")
	p.exec(`INSERT INTO destination (id, name, url, lane_id, state, draining_since) VALUES
		(1, 'Amber', 'https://amber.example/', 1, 'active', NULL), (2, 'Birch', 'https://birch.example/in', 2, 'paused', NULL),
		(3, 'Cedar', 'https://cedar.example/in', 3, 'active', now()), (4, 'Drift 100%', 'https://drift.example/', 4, 'disabled', NULL), (5, 'Elder', 'https://elder.example/', 5, 'active', NULL)`)
	p.exec(`INSERT INTO tally (destination_id, step_s, at, requests, ok) SELECT id, 3600, date_trunc('hour', now()), n, ok
		FROM (VALUES (1, 1000, 1000), (2, 1000, 985), (3, 1000, 899), (4, 10, 0)) x (id, n, ok)`)

	for path, want := range map[string]string{
		"":                         "Amber Birch Cedar Drift 100% Elder",
		"?sort=worst":              "Drift 100% Cedar Birch Amber Elder",
		"?sort=waiting":            "Cedar Amber Birch Drift 100% Elder",
		"?sort=newest":             "Elder Drift 100% Cedar Birch Amber",
		"?q=BIRCH":                 "Birch",
		"?q=example/in":            "Birch Cedar",
		"?q=0%25":                  "Drift 100%",
		"?q=_":                     "",
		"?state=active":            "Amber Cedar Elder",
		"?state=draining":          "Cedar",
		"?health=failing":          "Cedar Drift 100%",
		"?health=unsteady":         "Birch",
		"?health=well":             "Amber",
		"?health=quiet":            "Elder",
		"?health=held":             "Drift 100%",
		"?health=waiting":          "Cedar",
		"?health=failing&q=c":      "Cedar",
		"?state=nonsense&sort=x":   "Amber Birch Cedar Drift 100% Elder",
		"?after=nonsense":          "Amber Birch Cedar Drift 100% Elder",
		"?q=%00":                   "Amber Birch Cedar Drift 100% Elder",
		"?sort=worst&health=quiet": "Elder",
	} {
		require.Equal(t, want, strings.Join(p.listed("/destinations"+path), " "), path)
	}
	body := p.get("/destinations?q=cedar").Body
	require.Contains(t, body, "failing, 89.9 %")
	require.Contains(t, body, "1 destination matches")
	require.Contains(t, body, "draining")
	require.Contains(t, p.get("/destinations?q=nobody").Body, "No destination matches")
}

func TestDestinationListPages(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.exec("INSERT INTO lane (id, name) SELECT i, 'l' FROM generate_series(1, 1200) i")
	p.exec("INSERT INTO destination (id, name, url, lane_id) SELECT i, 'Shop ' || lpad(i::text, 4, '0'), 'https://shop.example/', i FROM generate_series(1, 1200) i")
	p.exec("INSERT INTO tally (destination_id, step_s, at, requests, ok) SELECT i, 3600, date_trunc('hour', now()), 10, i % 3 FROM generate_series(1, 1200) i")
	p.exec("ANALYZE lane, destination, tally")
	for _, sort := range []string{"", "worst", "newest"} {
		seen, pages := map[string]bool{}, 0
		for path := query("/destinations", "sort", sort); path != ""; pages++ {
			res := p.get(path)
			for _, match := range listedDestination.FindAllStringSubmatch(res.Body, -1) {
				require.False(t, seen[match[1]], "%s is on two pages", match[1])
				seen[match[1]] = true
			}
			path = linkWithRel(res.Body, "next")
		}
		require.Len(t, seen, 1200, sort)
		require.Equal(t, 24, pages)
	}
	began := time.Now()
	_, err := p.server.queries.DestinationPage(t.Context(), p.pool, dbsqlc.DestinationPageParams{Sort: "worst", Weigh: true, AfterRank: destinationListStart.Rank, Max: 51})
	require.NoError(t, err)
	t.Logf("a page of 1,200 took %s", time.Since(began))
	require.Less(t, time.Since(began), 2*time.Second, "two thousand rows are looked at, not two million")
}
