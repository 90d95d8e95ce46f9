package web

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/web/ui"
)

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)

func hiddenFields(body string) url.Values {
	form := url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(body, -1) {
		form.Add(m[1], html.UnescapeString(m[2]))
	}
	return form
}

func TestReplayPages(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	require.Contains(t, p.get("/replays").Body, "No replays yet")
	seedHostile(p)
	p.exec("INSERT INTO event (id, event_id, type, subject, payload, occurred_at) SELECT g, 'evt_' || g, 'shipment.updated', 'shp_' || g % 7, '{}', now() FROM generate_series(2, 121) g")
	p.exec(`INSERT INTO delivery (id, event_id, destination_id, lane_id, state, reason, attempts, expires_at, settled_at)
		SELECT 1000 + g, g, 1, 1, CASE WHEN g <= 11 THEN 'delivered' ELSE 'dead_lettered' END, $1, 1, now(), now() FROM generate_series(2, 121) g`, xssReason)

	link := "/replays/new?state=dead_lettered&destination=dst_1&reason=" + url.QueryEscape("<script>")
	form := p.get(link).Body
	require.Contains(t, form, `value="dead_lettered" checked`)
	require.NotContains(t, form, `value="expired" checked`)
	require.Contains(t, form, `value="dst_1" selected`)
	require.Contains(t, form, `value="&lt;script&gt;"`)

	preview := p.get("/replays/preview?state=dead_lettered&state=delivered&subject=shp_3&share=25")
	require.Equal(t, http.StatusOK, preview.Status)
	require.Contains(t, preview.Body, "Nothing was changed.")
	require.Contains(t, preview.Body, "were delivered already")
	require.Contains(t, preview.Body, "wait: its destination is paused")
	require.NotContains(t, preview.Body, xssName, "names are text")
	require.Equal(t, 1, p.count("SELECT count(*) FROM replay"), "the hostile one")

	// Ten identical clicks.
	fields := hiddenFields(preview.Body)
	require.Equal(t, []string{"dead_lettered", "delivered"}, fields["state"])
	fields.Set("share", "25")
	fields.Set("why", xssReason)
	replies := make(chan reply, 10)
	for range 10 {
		go func() { replies <- p.do(p.client, http.MethodPost, "/replays", fields) }()
	}
	places := map[string]bool{}
	for range 10 {
		places[(<-replies).Location] = true
	}
	require.Len(t, places, 1)
	require.Equal(t, 2, p.count("SELECT count(*) FROM replay"))
	require.Equal(t, 1, p.count("SELECT count(*) FROM audit WHERE action = 'replay.start'"))
	require.Equal(t, 17, p.count("SELECT count(*) FROM replay_item WHERE state = 'waiting'"))
	var here string
	for here = range places {
	}

	page := p.get(here).Body
	require.Contains(t, page, "1 destination is paused or disabled: 17 deliveries wait until that is resumed.")
	require.Contains(t, page, "25 % of each lane")
	require.Contains(t, page, "dead-lettered, delivered · subject shp_3")
	require.NotContains(t, page, "<img src=x")
	fragment := p.do(p.client, http.MethodGet, here, nil, fragmentHeader, "1").Body
	require.NotContains(t, fragment, "<html")
	require.Equal(t, 17, strings.Count(p.get(here+"/items").Body, `data-testid="item"`))
	require.Contains(t, p.get(here+"/items?bad=1").Body, "None here")
	require.Contains(t, p.get("/replays").Body, "subject shp_3")

	require.Equal(t, here, p.post(here+"/pause").Location)
	page = p.get(here).Body
	require.Contains(t, page, "Paused by operator Ada: 17 deliveries wait until it is resumed.")
	require.Equal(t, here, p.post(here+"/pause").Location)
	require.Contains(t, p.get(here).Body, "Nothing was done: it is paused already.")
	require.Equal(t, here, p.post(here+"/resume").Location)
	require.Equal(t, here, p.post(here+"/stop").Location)
	page = p.get(here).Body
	require.Contains(t, page, "Stopped. What was not sent is as it was.")
	require.Regexp(t, `data-testid="count-left">17<`, page)
	require.Equal(t, 1, p.count("SELECT count(*) FROM audit WHERE action = 'replay.stop'"))

	for query, said := range map[string]string{
		"share=0": "want per cent", "status=x": "want the status", "settled_from=soon": "want a time", "state=pending": "want some of", "destination=acme": "want the id",
	} {
		res := p.get("/replays/preview?" + query)
		require.Equal(t, http.StatusUnprocessableEntity, res.Status, query)
		require.Contains(t, strings.ToLower(res.Body), said, query)
		require.Contains(t, res.Body, "Nothing was started.", query)
	}
	require.Contains(t, p.get("/replays/preview?subject=nobody").Body, "No delivery is like that")
	require.Equal(t, http.StatusNotFound, p.get("/replays/rpl_99").Status)
	require.Equal(t, http.StatusOK, p.get("/replays?cursor=garbage").Status)

	viewer := p.as(ui.Viewer, "a viewer")
	require.NotContains(t, p.do(viewer, http.MethodGet, "/replays", nil).Body, "New replay")
	require.Equal(t, http.StatusForbidden, p.do(viewer, http.MethodPost, here+"/stop", url.Values{}).Status)
}
