package web

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbsqlc"
)

func TestTokensNow(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_000_000_000)
	lane := func(tatAfter time.Duration) dbsqlc.Lane { // 5/s, burst about 10
		return dbsqlc.Lane{PeriodUs: 200_000, TauUs: 1_800_000, TatUs: now.Add(tatAfter).UnixMicro()}
	}
	for _, test := range []struct {
		name  string
		lane  dbsqlc.Lane
		n     int64
		after time.Duration // until the next, where there is none now
	}{
		{"an idle lane has its burst, not more", lane(-time.Hour), 10, 0},
		{"half is used", lane(time.Second), 5, 0},
		{"the last one", lane(1800 * time.Millisecond), 1, 0},
		{"none is left", lane(2500 * time.Millisecond), 0, 700 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n, next, ok := tokensNow(test.lane, now)
			require.True(t, ok)
			require.Equal(t, test.n, n)
			if test.after > 0 {
				require.Equal(t, test.after, next.Sub(now))
			}
		})
	}
	_, _, ok := tokensNow(dbsqlc.Lane{}, now)
	require.False(t, ok, "no pace, no tokens")
}

func TestLanePages(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	require.Contains(t, p.get("/lanes").Body, "No lanes yet")
	for i := range lanePageSize + 2 {
		p.exec("INSERT INTO lane (id, name, rate, burst, max_in_flight, parked) VALUES ($1, $2, 5, 10, 4, $3)", i+1, fmt.Sprintf("lane %02d <b>", i+1), i)
		p.exec("INSERT INTO destination (id, name, url, lane_id) VALUES ($1, $2, 'https://acme.example/', $1)", i+1, fmt.Sprintf("destination %02d", i+1))
	}
	p.exec("INSERT INTO lane (id, name) VALUES (900, 'orphan')")

	t.Run("the list is paged by name and by waiting, and can be searched", func(t *testing.T) {
		first := p.get("/lanes").Body
		require.Contains(t, first, "lane 01 &lt;b&gt;")
		require.NotContains(t, first, "lane 51")
		require.NotContains(t, first, "orphan", "nobody uses it")
		second := p.get("/lanes?after=lane+50+%3Cb%3E&id=lane_50").Body
		require.Contains(t, second, "lane 51")
		require.Contains(t, second, "lane 52")
		require.NotContains(t, second, "lane 50")
		busiest := p.get("/lanes?sort=waiting").Body
		require.Contains(t, busiest, "lane 52")
		require.NotContains(t, busiest, "lane 01")
		require.Contains(t, p.get("/lanes?sort=waiting&after=2&id=lane_3").Body, "lane 02")
		found := p.get("/lanes?q=LANE+07").Body
		require.Contains(t, found, "lane 07")
		require.NotContains(t, found, "lane 08")
		require.Contains(t, p.get("/lanes?q=nothing").Body, "No lane has that in its name")
		require.Equal(t, 200, p.get("/lanes?after=%00&id=lane_x&sort=waiting").Status, "an address that was tampered with is the beginning")
	})

	t.Run("a lane says what holds it, who shares it and what it was used for", func(t *testing.T) {
		p.exec("UPDATE lane SET in_flight = 3, open = 5, parked = 1200, slow_since = now(), held_us = extract(epoch FROM now() + interval '1 hour') * 1e6, held_reason = 'Retry-After <i>' WHERE id = 1")
		p.exec("INSERT INTO destination (id, name, url, lane_id, state, state_reason) VALUES (900, 'second', 'https://acme.example/', 1, 'paused', 'moving <b>')")
		p.exec("INSERT INTO tally (destination_id, step_s, at, requests, ok, arrived) SELECT d, 60, date_trunc('minute', now() - interval '5 minutes'), 60, 60, 30 FROM unnest('{1,900}'::int[]) d")
		page := p.get("/lanes/lane_1").Body
		require.Contains(t, page, "3 of 4")
		require.Contains(t, page, "2 of 8 in the window")
		require.Contains(t, page, "Held until")
		require.Contains(t, page, "Retry-After &lt;i&gt;")
		require.Contains(t, page, "second")
		require.Contains(t, page, "2 destinations draw on one budget")
		require.Contains(t, page, "moving &lt;b&gt;")
		require.Contains(t, page, "2xx 2/s", "120 requests of both in a minute")
		require.Contains(t, page, "allowed now")

		p.exec("UPDATE lane SET held_us = 0 WHERE id = 1")
		require.Regexp(t, `It is allowed 5/s, arriving [0-9./min]+: 1,202 wait, drains in \d min`, p.get("/lanes/lane_1").Body)
		require.Equal(t, 404, p.get("/lanes/lane_12345").Status)
	})
}

func TestOverviewNamesTheConstraint(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.exec("INSERT INTO process (id, roles) VALUES ('w', '{work,discover}')")
	p.exec("INSERT INTO discovery_run (job_id, source, started_at) VALUES (1, 'outbox', now())")
	p.exec("INSERT INTO lane (id, name, rate, burst) VALUES (1, 'l', 5, 10)")
	p.exec("INSERT INTO destination (id, name, url, lane_id) VALUES (1, 'Acme', 'https://acme.example/', 1)")
	p.exec("INSERT INTO tally (destination_id, step_s, at, requests, ok, delivered) VALUES (0, 60, date_trunc('minute', now()), 1, 1, 1)")
	well := p.get("/").Body
	require.Contains(t, well, "All is well: deliveries got through within the last minute, nothing waits beyond its time, and 1 worker is alive.")
	require.NotContains(t, well, `data-testid="attention"`)

	// A line at the gate: its front was due an hour ago and expires in half an hour, its end is new.
	p.exec("INSERT INTO event (id, event_id, type, payload, occurred_at) VALUES (1, 'e', 'shipment.returned', '{}', now())")
	p.exec("INSERT INTO delivery (id, event_id, destination_id, lane_id, parked, due_at, expires_at) VALUES (1000, 1, 1, 1, true, now() - interval '1 hour', now() + interval '30 minutes')")
	p.exec("UPDATE lane SET parked = 36000 WHERE id = 1")
	p.exec("UPDATE destination SET ttl_s = 5400 WHERE id = 1")
	p.exec("INSERT INTO dead_letter_group (destination_id, state, status, error_class, type, open, first_seen, last_seen) VALUES (1, 'dead_lettered', 422, '', 'shipment.returned', 3, now(), now())")
	p.exec("INSERT INTO dead_letter_group (destination_id, state, status, error_class, type, open, first_seen, last_seen, snoozed_until) VALUES (1, 'dead_lettered', 500, '', '', 7, now(), now(), now() + interval '1 hour')")
	page := p.get("/").Body
	require.Contains(t, page, "is allowed 5/s, none arriving: 36,000 wait, drains in 2 h, and about 9,000 will expire first.")
	require.Contains(t, page, "refused every “shipment.returned” with 422 since")
	require.NotContains(t, page, "7 dead letters", "snoozed: nobody wants to be told")
	require.NotContains(t, page, "All is well")

	p.exec("INSERT INTO tally (destination_id, step_s, at, requests, ok, server_error) VALUES (1, 60, date_trunc('minute', now()), 10, 0, 10), (1, 3600, date_trunc('hour', now()), 10, 0, 10)")
	page = p.get("/?range=24h").Body
	require.Contains(t, page, "answers 5xx since")
	require.NotContains(t, page, "drains in", "the receiver is to blame, not the pace")
	require.Contains(t, page, `data-testid="worst"`)
	fragment := p.do(p.client, "GET", "/?range=24h&part=time", nil, fragmentHeader, "1").Body
	require.NotContains(t, fragment, "<html")
	require.Contains(t, fragment, "Outcomes every 30 min")
	require.NotContains(t, fragment, "Needs attention")
}
