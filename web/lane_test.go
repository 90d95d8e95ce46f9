package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// suggest records what learning would: a lane at this rate that got too many refusals.
const suggest = `INSERT INTO lane_change (lane_id, kind, rate_before, rate_after, reason)
	VALUES ($1, 'suggested', 50, 35, '429 on 12 % of 240 answers in the last 30 s: 50/s → 35/s')`

func TestLaneLearning(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.destination(t, "")
	id := b.ok(t, 200, "GET", "/lanes", "").field(t, "items.0.id").(string)
	lane, err := parseID(idLane, id)
	require.NoError(t, err)
	path := "/lanes/" + id
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := b.pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}

	a := b.ok(t, 200, "GET", path, "")
	require.Equal(t, "off", a.field(t, "learning"))
	require.InDelta(t, 10, a.field(t, "effective_rate"), 0)
	require.Nil(t, a.field(t, "learned_rate"))
	require.Nil(t, a.field(t, "slow_since"))
	b.refused(t, "PATCH", path, `{"learning": "always"}`, "learning", "off, suggest or on")
	b.refused(t, "PATCH", path, `{"learning": "on", "rate": null}`, "learning", "needs a rate")
	b.ok(t, 409, "POST", path+"/adopt", "")

	b.ok(t, 200, "PATCH", path, `{"learning": "suggest", "rate": 50}`)
	b.refused(t, "PATCH", path, `{"rate": null}`, "rate", "set learning to off")
	exec(suggest, lane)
	a = b.ok(t, 200, "POST", path+"/adopt", "")
	require.InDelta(t, 50, a.field(t, "rate"), 0, "the ceiling stays")
	require.InDelta(t, 35, a.field(t, "learned_rate"), 0)
	require.InDelta(t, 35, a.field(t, "effective_rate"), 0)
	b.ok(t, 409, "POST", path+"/adopt", "")
	b.ok(t, 404, "POST", "/lanes/lane_999/adopt", "")

	b.ok(t, 200, "PATCH", path, `{"burst": 9, "name": "account"}`)
	require.InDelta(t, 35, b.ok(t, 200, "GET", path, "").field(t, "learned_rate"), 0, "neither rate nor learning changed")
	a = b.ok(t, 200, "PATCH", path, `{"rate": 40}`)
	require.Nil(t, a.field(t, "learned_rate"))
	exec("UPDATE lane SET slow_since = now()")
	require.NotNil(t, b.ok(t, 200, "GET", path, "").field(t, "slow_since"))

	first := b.ok(t, 200, "GET", path+"/changes?limit=2", "")
	require.Len(t, first.field(t, "items"), 2)
	require.Equal(t, "rate 50/s → 40/s, the learned rate of 35/s is forgotten", first.field(t, "items.0.reason"))
	require.Equal(t, "policy", first.field(t, "items.0.kind"))
	require.NotEmpty(t, first.field(t, "items.0.actor"))
	require.Equal(t, "learned", first.field(t, "items.1.kind"))
	rest := b.ok(t, 200, "GET", path+"/changes?cursor="+first.field(t, "next_cursor").(string), "")
	require.Len(t, rest.field(t, "items"), 2)
	require.Equal(t, "rate 10/s → 50/s, learning off → suggest", rest.field(t, "items.1.reason"))
	require.Nil(t, rest.field(t, "next_cursor"))
	b.ok(t, 404, "GET", "/lanes/lane_999/changes", "")
}

func TestPaceOnTheDestinationPage(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	require.Equal(t, http.StatusOK, p.do(p.client, http.MethodPost, "/destinations", destinationFields("rate", "50", "learning", "suggest")).Status)
	require.Equal(t, 1, p.count("SELECT count(*) FROM lane WHERE learning = 'suggest'"))
	require.NotContains(t, p.get("/destinations/dst_1").Body, "What changed its pace")
	require.Contains(t, p.get("/destinations/dst_1/edit").Body, `value="suggest" selected`)

	p.exec(suggest, 1)
	p.exec("UPDATE lane SET slow_since = now()")
	p.exec("INSERT INTO lane_change (lane_id, kind, reason) VALUES (1, 'slow', 'answers took 3.1 s on average over the last 12 <script>')")
	page := p.get("/destinations/dst_1").Body
	require.Contains(t, page, "429 on 12 % of 240 answers in the last 30 s: 50/s → 35/s")
	require.Contains(t, page, "Adopt 35/s")
	require.Contains(t, page, "Answers took 3.1 s on average over the last 12 &lt;script&gt;.")

	require.Equal(t, "/destinations/dst_1", p.post("/destinations/dst_1/adopt").Location)
	page = p.get("/destinations/dst_1").Body
	require.Contains(t, page, "adopted: 429 on 12 %")
	require.NotContains(t, page, "Adopt 35/s")
	p.post("/destinations/dst_1/adopt")
	require.Contains(t, p.get("/destinations/dst_1").Body, "Nothing was done: nothing was suggested")

	unlimited := p.do(p.client, http.MethodPost, "/destinations/dst_1", destinationFields("rate", "", "learning", "on"))
	require.Equal(t, http.StatusUnprocessableEntity, unlimited.Status)
	require.Contains(t, unlimited.Body, "Needs a rate")
	p.exec("UPDATE lane SET tat_us = 4102444800000000")
	saved := p.do(p.client, http.MethodPost, "/destinations/dst_1", destinationFields("rate", "50", "learning", "on"))
	require.Equal(t, http.StatusSeeOther, saved.Status, saved.Body)
	require.Equal(t, 1, p.count("SELECT count(*) FROM lane WHERE learning = 'on' AND learned_rate IS NULL"))
	require.Equal(t, 1, p.count("SELECT count(*) FROM lane_change WHERE kind = 'policy' AND actor <> '' AND reason LIKE 'learning suggest → on, %'"))
}
