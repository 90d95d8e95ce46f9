package web

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/jobs"
)

// cameAnHourAgo tallies a busy day for destination 1: 60 deliveries a minute, and 600 in each minute of the third hour.
const busyDay = `INSERT INTO tally (destination_id, step_s, at, arrived, requests, ok, took_us, delivered)
	SELECT $1, 60, date_trunc('minute', now()) - m * interval '1 minute', n, n, n, n * 100000, n
	FROM (SELECT m, CASE WHEN m BETWEEN 1200 AND 1259 THEN 600 ELSE 60 END AS n FROM generate_series(1, 1440) m) x`

func TestForecastPage(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	require.Equal(t, http.StatusOK, p.do(p.client, http.MethodPost, "/destinations", destinationFields("max_in_flight", "4")).Status)
	edit := p.get("/destinations/dst_1/edit").Body
	require.Regexp(t, `(?s)type="submit">Save</button>.*formaction="/destinations/dst_1/forecast`, edit, "the first button is what Enter presses")
	require.NotContains(t, p.get("/destinations/new").Body, "/forecast", "what is not there yet has no history")

	typed := destinationFields("rate", "2", "burst", "10", "max_in_flight", "3", "name", "typed name", "headers", "X-New: typed-value", "schedule", "7s 9m")
	empty := p.do(p.client, http.MethodPost, "/destinations/dst_1/forecast", typed)
	require.Equal(t, http.StatusOK, empty.Status)
	require.Contains(t, empty.Body, "Nothing came for it in the last 24 h")

	p.exec(busyDay, 1)
	res := p.do(p.client, http.MethodPost, "/destinations/dst_1/forecast", typed)
	require.Equal(t, http.StatusOK, res.Status, res.Body)
	for _, kept := range []string{"typed name", "X-New: typed-value", "7s 9m", `value="2"`, `value="3"`, "shipment.*"} {
		require.Contains(t, res.Body, kept, "everything typed is kept")
	}
	require.Regexp(t, `At 2/s, burst 10, 3 in flight, 3 attempts, the busiest hour \(\d\d:\d\d–\d\d:\d\d, [\d,]+ deliveries\) would have waited up to \d+ h( \d+ min)?; at most [\d,]+ would have waited at once`, res.Body)
	require.Contains(t, res.Body, "The present setting: At 5/s, burst 2, 4 in flight")
	require.Contains(t, res.Body, "What this rests on")
	require.Equal(t, 1, p.count("SELECT count(*) FROM destination WHERE name = 'Acme warehouse'"), "nothing is saved")
	require.Equal(t, 1, p.count("SELECT count(*) FROM lane WHERE rate = 5"))

	same := p.do(p.client, http.MethodPost, "/destinations/dst_1/forecast", destinationFields("max_in_flight", "4"))
	require.Contains(t, same.Body, "That is the present setting")

	wrong := p.do(p.client, http.MethodPost, "/destinations/dst_1/forecast", destinationFields("rate", "fast"))
	require.Equal(t, http.StatusUnprocessableEntity, wrong.Status)
	require.Contains(t, wrong.Body, `id="rate-error"`)
	require.NotContains(t, wrong.Body, `id="forecast-title"`)

	p.exec("DELETE FROM tally")
	p.exec(busyDay+" WHERE m < 10", 1)
	short := p.do(p.client, http.MethodPost, "/destinations/dst_1/forecast", typed)
	require.Regexp(t, regexp.QuoteMeta("Too little is known to tell: the first delivery that was counted came "), short.Body)
}

func TestForecastAPI(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	id := b.destination(t, `, "lane": {"rate": 5, "burst": 10, "max_in_flight": null}, "ttl": "72h"`)
	_, err := b.pool.Exec(t.Context(), busyDay, 1)
	require.NoError(t, err)
	a := b.ok(t, 200, "POST", "/destinations/"+id+"/forecast", `{"lane": {"rate": null}}`)
	require.Empty(t, a.field(t, "too_little_history"))
	require.InDelta(t, 118_740, a.field(t, "proposed.delivered"), 61, "the minute under way is left out")
	require.Equal(t, "0s", a.field(t, "proposed.longest_wait"))
	require.Nil(t, a.field(t, "proposed.peak_at"))
	require.Equal(t, "1h", a.field(t, "present.longest_wait"))
	require.InDelta(t, 17_990, a.field(t, "present.peak_waiting"), 0)
	require.NotNil(t, a.field(t, "present.drained_at"))
	require.Contains(t, a.field(t, "sentence"), "would not have waited for a minute")
	require.InDelta(t, a.field(t, "measured.delivered"), a.field(t, "measured.arrived"), 0)

	a = b.ok(t, 200, "POST", "/destinations/"+id+"/forecast", `{"ttl": "30m"}`)
	require.InDelta(t, 9_290, a.field(t, "proposed.expired"), 0)
	require.InDelta(t, 0, a.field(t, "present.expired"), 0)

	lane := b.ok(t, 200, "GET", "/destinations/"+id, "").field(t, "lane.id").(string)
	a = b.ok(t, 200, "POST", "/lanes/"+lane+"/forecast", `{"rate": 0.5}`)
	require.Positive(t, a.field(t, "proposed.waiting"))
	require.Contains(t, a.field(t, "sentence"), "if nothing more came")

	b.refused(t, "POST", "/destinations/"+id+"/forecast", `{"lane": {"rate": 0}}`, "lane.rate", "pause")
	b.refused(t, "POST", "/destinations/"+id+"/forecast", `{"retry": {"schedule": ["x"]}}`, "retry.schedule[0]", "duration")
	b.ok(t, 404, "POST", "/destinations/dst_99/forecast", `{}`)
	require.InDelta(t, 5, b.ok(t, 200, "GET", "/lanes/"+lane, "").field(t, "rate"), 0, "nothing was changed")
}

func TestForecastSentence(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		clock, err := time.Parse("15:04", text)
		require.NoError(t, err)
		return time.Date(2026, 3, 1, clock.Hour(), clock.Minute(), 0, 0, time.UTC)
	}
	f := jobs.Forecast{
		Arrived: 80_000, Expired: 1_200, DeadLettered: 3, Peak: 8_400, PeakAt: at("02:58"), DrainedAt: at("05:10"), LongestWait: 42 * time.Minute,
		BusiestFrom: at("02:00"), BusiestArrived: 31_000, BusiestWait: 42 * time.Minute,
	}
	require.Equal(t, "At 5/s, the busiest hour (02:00–03:00, 31,000 deliveries) would have waited up to 42 min; 1,200 would have expired; 3 would have been dead-lettered; "+
		"at most 8,400 would have waited at once, at 02:58; the backlog would have drained by 05:10.", forecastSentence("5/s", f, at("09:00")))
	f.Waiting, f.DrainsIn = 10, 95*time.Minute
	require.Contains(t, forecastSentence("5/s", f, at("09:00")), "10 would be waiting now, for another 1 h 35 min if nothing more came")
	f.DrainsIn = -1
	require.Contains(t, forecastSentence("5/s", f, at("09:00")), "and for more than a year to come")
	require.Contains(t, forecastSentence("5/s", f, at("09:00").AddDate(0, 0, 1)), "at 1 Mar 02:58")
	for _, r := range (forecastModel{Proposed: f}).rows() {
		require.NotEmpty(t, r.Label)
		require.False(t, strings.HasPrefix(r.Proposed, "-"), fmt.Sprint(r))
	}
}
