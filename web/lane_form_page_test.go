package web

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/web/ui"
)

func TestLaneForm(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.exec("INSERT INTO lane (id, name, rate, burst, max_in_flight) VALUES (1, 'Acme <b>', 5, 10, 4)")
	p.exec("INSERT INTO destination (id, name, url, lane_id) VALUES (1, 'Acme', 'https://acme.example/', 1), (2, 'Bolt', 'https://bolt.example/', 1)")
	fields := func(more ...string) url.Values {
		v := url.Values{"name": {"Acme"}, "rate": {"5"}, "burst": {"10"}, "max_in_flight": {"4"}, "learning": {"off"}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	send := func(path string, v url.Values) reply { return p.do(p.client, http.MethodPost, path, v) }

	require.Contains(t, p.get("/lanes/lane_1").Body, `href="/lanes/lane_1/edit"`)
	edit := p.get("/lanes/lane_1/edit").Body
	require.Contains(t, edit, "Change Acme &lt;b&gt;")
	require.Contains(t, edit, "2 destinations draw on this budget together")
	require.Regexp(t, `(?s)type="submit">Save</button>.*formaction="/lanes/lane_1/forecast`, edit, "the first button is what Enter presses")

	t.Run("what is wrong stands at its field, with what was typed", func(t *testing.T) {
		for field, typed := range map[string]string{"rate": "fast", "burst": "0", "max_in_flight": "x", "name": " "} {
			wrong := send("/lanes/lane_1", fields(field, typed))
			require.Equal(t, http.StatusUnprocessableEntity, wrong.Status, field)
			require.Contains(t, wrong.Body, `id="`+field+`-error"`)
			require.Contains(t, send("/lanes/lane_1/forecast", fields(field, typed)).Body, `id="`+field+`-error"`)
		}
		require.Contains(t, send("/lanes/lane_1", fields("rate", "", "learning", "on")).Body, "Needs a rate")
		require.Equal(t, 1, p.count("SELECT count(*) FROM lane WHERE name = 'Acme <b>' AND rate = 5 AND burst = 10"))
	})

	t.Run("a forecast keeps what was typed and saves nothing", func(t *testing.T) {
		p.exec(busyDay, 1)
		res := send("/lanes/lane_1/forecast", fields("rate", "2", "name", "typed name"))
		require.Equal(t, http.StatusOK, res.Status)
		require.Regexp(t, `At 2/s, burst 10, 4 in flight, the busiest hour`, res.Body)
		require.Contains(t, res.Body, "The present setting: At 5/s, burst 10, 4 in flight")
		require.Contains(t, res.Body, `value="typed name"`)
		require.Equal(t, 1, p.count("SELECT count(*) FROM lane WHERE rate = 5"))
	})

	t.Run("saved, with an entry that says what was before", func(t *testing.T) {
		require.Equal(t, "/lanes/lane_1", send("/lanes/lane_1", fields("rate", "2.5", "max_in_flight", "", "learning", "suggest")).Location)
		require.Contains(t, p.get("/lanes/lane_1").Body, "Saved.")
		require.Equal(t, 1, p.count("SELECT count(*) FROM lane WHERE name = 'Acme' AND rate = 2.5 AND burst = 10 AND max_in_flight IS NULL AND learning = 'suggest'"))
		entries := p.auditOf("lane.update")
		require.Len(t, entries, 1)
		require.Equal(t, "Ada", entries[0].Actor)
		require.Equal(t, map[string]any{"name": "Acme <b>", "rate": 5.0, "max_in_flight": 4.0, "learning": "off"}, entries[0].Before)

		send("/lanes/lane_1", fields("rate", "2.5", "max_in_flight", "", "learning", "suggest"))
		require.Contains(t, p.get("/lanes/lane_1").Body, "Nothing was changed")
		require.Len(t, p.auditOf("lane.update"), 1)
	})

	t.Run("an operator looks and may not change it, as with the API", func(t *testing.T) {
		operator := p.as(ui.Operator, "Otto")
		require.NotContains(t, p.do(operator, http.MethodGet, "/lanes/lane_1", nil).Body, "/edit")
		require.Equal(t, http.StatusForbidden, p.do(operator, http.MethodPost, "/lanes/lane_1", fields("rate", "9")).Status)
	})
	require.Equal(t, http.StatusNotFound, p.get("/lanes/lane_99/edit").Status)
}
