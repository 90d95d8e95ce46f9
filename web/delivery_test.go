package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbsqlc"
)

const (
	eventually = 10 * time.Second
	tick       = 20 * time.Millisecond
)

func TestDeliveries(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.work(t)
	good := b.destination(t, `, "subscriptions": [{"types": ["good.*"]}]`)
	bad := b.destination(t, `, "subscriptions": [{"types": ["bad.*"]}], "retry": {"schedule": []}, "responses": [{"status": "200", "verdict": "reject"}]`)
	settled := func(t *testing.T, event string) EventDetail {
		t.Helper()
		var detail EventDetail
		require.Eventually(t, func() bool {
			require.NoError(t, json.Unmarshal(b.ok(t, 200, "GET", "/events/"+event, "").body, &detail))
			return detail.Settled
		}, eventually, tick)
		return detail
	}

	t.Run("show what came of an event, attempt by attempt", func(t *testing.T) {
		b.ok(t, 202, "POST", "/events", `{"id": "g1", "type": "good.one", "subject": "s1", "payload": 1}`)
		detail := settled(t, "g1")
		require.Len(t, detail.Deliveries, 1)
		d := detail.Deliveries[0]
		require.Equal(t, "delivered", d.State)
		require.Equal(t, good, d.DestinationID)
		require.Empty(t, d.WaitingFor)
		require.Nil(t, d.NextAttemptAt)
		require.NotNil(t, d.SettledAt)

		a := b.ok(t, 200, "GET", "/deliveries/"+d.ID, "")
		require.InDelta(t, 200, a.field(t, "attempt_log.0.status"), 0)
		require.Equal(t, "delivered", a.field(t, "attempt_log.0.verdict"))
		require.Equal(t, "<b>answer</b>", a.field(t, "attempt_log.0.response_excerpt"))
		require.Greater(t, a.field(t, "attempt_log.0.took_ms"), 0.0)
		b.ok(t, 404, "GET", "/deliveries/dlv_999999999", "")
	})

	t.Run("are found by state, destination, event and subject", func(t *testing.T) {
		for i := range 5 {
			b.ok(t, 202, "POST", "/events", fmt.Sprintf(`{"id": "b%d", "type": "bad.one", "subject": "s%d", "payload": 1}`, i, i%2))
		}
		for i := range 5 {
			settled(t, fmt.Sprintf("b%d", i))
		}
		count := func(query string) int {
			n := 0
			for cursor := ""; ; {
				a := b.ok(t, 200, "GET", "/deliveries?limit=2&"+query+"&cursor="+cursor, "")
				var page Page[Delivery]
				require.NoError(t, json.Unmarshal(a.body, &page))
				n += len(page.Items)
				if page.NextCursor == nil {
					return n
				}
				cursor = *page.NextCursor
			}
		}
		for query, want := range map[string]int{
			"": 6, "state=dead_lettered": 5, "state=delivered": 1, "state=pending": 0, "state=retrying": 0, "destination=" + bad: 5, "destination=" + good: 1,
			"destination=" + bad + "&state=dead_lettered": 5, "destination=" + good + "&state=dead_lettered": 0, "destination=" + bad + "&state=delivered": 0,
			"event=b1": 1, "event=b1&destination=" + good: 0, "event=b1&state=dead_lettered&subject=s1": 1, "event=b1&subject=s0": 0,
			"subject=s1": 3, "subject=s1&state=delivered": 1, "subject=s1&destination=" + bad: 2, "subject=nobody": 0,
		} {
			require.Equal(t, want, count(query), query)
		}
	})

	t.Run("of a dead letter can be sent again, and only then", func(t *testing.T) {
		a := b.ok(t, 200, "POST", "/replays", `{"event": "b0", "preview": true}`)
		require.Nil(t, a.field(t, "id"))
		require.InDelta(t, 1, a.field(t, "sent"), 0)
		require.Equal(t, "dead_lettered", a.field(t, "items.0.state"))

		b.ok(t, 200, "PATCH", "/destinations/"+bad, `{"responses": []}`)
		a = b.ok(t, 200, "POST", "/replays", fmt.Sprintf(`{"event": "b0", "destination": %q, "reason": "mended"}`, bad))
		require.InDelta(t, 1, a.field(t, "sent"), 0)
		replay := a.field(t, "id").(string)
		require.Eventually(t, func() bool {
			return b.ok(t, 200, "GET", "/events/b0", "").field(t, "deliveries.0.state") == "delivered"
		}, eventually, tick)
		a = b.ok(t, 200, "GET", "/replays/"+replay, "")
		require.Equal(t, "mended", a.field(t, "reason"))
		require.Equal(t, "token admin", a.field(t, "actor"))
		require.Equal(t, "delivered", a.field(t, "items.0.state"))

		b.refused(t, "POST", "/replays", `{}`, "event", "missing")
		b.refused(t, "POST", "/replays", `{"event": "b0", "destination": "dst_x"}`, "destination", "want the id")
		b.ok(t, 404, "POST", "/replays", `{"event": "nothing"}`)
		b.ok(t, 404, "GET", "/replays/rpl_999", "")
	})

	t.Run("to a paused or deleted destination are not sent again, and nothing changes", func(t *testing.T) {
		b.ok(t, 200, "POST", "/destinations/"+bad+"/pause", `{"reason": "maintenance"}`)
		a := b.ok(t, 409, "POST", "/replays", `{"event": "b1"}`)
		require.Contains(t, a.field(t, "detail"), "paused")
		require.Contains(t, a.field(t, "errors.0.message"), "paused")
		b.ok(t, 204, "DELETE", "/destinations/"+bad, "")
		a = b.ok(t, 409, "POST", "/replays", `{"event": "b1"}`)
		require.Contains(t, a.field(t, "detail"), "deleted")
		require.Equal(t, "dead_lettered", b.ok(t, 200, "GET", "/events/b1", "").field(t, "deliveries.0.state"))
		b.ok(t, 404, "GET", "/destinations/"+bad, "")
		b.ok(t, 404, "DELETE", "/destinations/"+bad, "")
		b.ok(t, 404, "POST", "/destinations/"+bad+"/pause", "")
		require.NotContains(t, string(b.ok(t, 200, "GET", "/destinations", "").body), bad)
	})
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.work(t)
	id := b.destination(t, "")
	a := b.ok(t, 200, "POST", "/destinations/"+id+"/pause", `{"reason": "their maintenance"}`)
	require.Equal(t, "paused", a.field(t, "state"))
	require.Equal(t, "their maintenance", a.field(t, "state_reason"))
	b.ok(t, 409, "POST", "/destinations/"+id+"/pause", "")
	b.ok(t, 202, "POST", "/events", `{"id": "p1", "type": "a", "subject": "", "payload": 1}`)

	var delivery string
	require.Eventually(t, func() bool {
		page := b.ok(t, 200, "GET", "/deliveries?event=p1", "")
		var items Page[Delivery]
		require.NoError(t, json.Unmarshal(page.body, &items))
		if len(items.Items) == 0 {
			return false
		}
		delivery = items.Items[0].ID
		return items.Items[0].WaitingFor == "the destination is paused: their maintenance"
	}, eventually, tick)
	require.Equal(t, false, b.ok(t, 200, "GET", "/events/p1", "").field(t, "settled"))

	b.ok(t, 200, "POST", "/destinations/"+id+"/resume", "")
	require.Eventually(t, func() bool {
		return b.ok(t, 200, "GET", "/deliveries/"+delivery, "").field(t, "state") == "delivered"
	}, eventually, tick)
	b.ok(t, 409, "POST", "/destinations/"+id+"/resume", "")
	b.ok(t, 404, "POST", "/destinations/dst_999/resume", "")
}

func TestTestDestination(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.work(t)
	id := b.destination(t, `, "subscriptions": []`)

	a := b.ok(t, 200, "POST", "/destinations/"+id+"/test", "")
	require.InDelta(t, 200, a.field(t, "attempt.status"), 0)
	require.Equal(t, "delivered", a.field(t, "delivery.state"))

	b.status.Store(http.StatusInternalServerError)
	a = b.ok(t, 200, "POST", "/destinations/"+id+"/test", "")
	require.InDelta(t, 500, a.field(t, "attempt.status"), 0)
	require.Equal(t, "retry", a.field(t, "attempt.verdict"))
	require.Contains(t, a.field(t, "delivery.waiting_for"), "the next try at ")
	require.Contains(t, a.field(t, "delivery.waiting_for"), "after a 500")

	b.ok(t, 200, "POST", "/destinations/"+id+"/pause", "")
	b.ok(t, 409, "POST", "/destinations/"+id+"/test", "")
	b.ok(t, 404, "POST", "/destinations/dst_999/test", "")
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	ctx := t.Context()
	_, err := b.pool.Exec(ctx, `INSERT INTO discovery_run (job_id, source, started_at, read, new, duplicate) SELECT n, 'outbox', now(), 3, 2, 1 FROM generate_series(1, 5) n`)
	require.NoError(t, err)
	_, err = b.pool.Exec(ctx, `INSERT INTO outbox (type, subject, payload, refused_at, refused_reason) VALUES ('no good', 's', 'hidden payload', now(), 'type: want letters')`)
	require.NoError(t, err)

	a := b.ok(t, 200, "GET", "/discovery/runs?limit=2", "")
	require.Len(t, a.field(t, "items"), 2)
	require.InDelta(t, 5, a.field(t, "items.0.id"), 0)
	a = b.ok(t, 200, "GET", "/discovery/runs?limit=4&cursor="+a.field(t, "next_cursor").(string), "")
	require.Len(t, a.field(t, "items"), 3)
	require.Nil(t, a.field(t, "next_cursor"))

	a = b.ok(t, 200, "GET", "/discovery/refused", "")
	require.Equal(t, "type: want letters", a.field(t, "items.0.reason"))
	require.NotContains(t, string(a.body), "hidden payload")
}

func TestWaitingFor(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	alive := workers{now: now, alive: true, seen: now}
	rate, most, status := 5.0, int32(4), int32(503)
	at := func(d time.Duration) *time.Time { moment := now.Add(d); return &moment }
	base := dbsqlc.DeliveryListViewRow{State: "pending", DestinationState: "active", DueAt: now.Add(-time.Second), Rate: &rate, MaxInFlight: &most}
	for want, c := range map[string]struct {
		change  func(*dbsqlc.DeliveryListViewRow)
		workers workers
		ahead   int
	}{
		"": {func(r *dbsqlc.DeliveryListViewRow) { r.SettledAt = at(0); r.State = "delivered" }, alive, -1},
		"a request is under way since 13:59:58 UTC": {func(r *dbsqlc.DeliveryListViewRow) {
			r.RequestStartedAt, r.RequestLeaseUntil = at(-2*time.Second), at(time.Second)
		}, alive, -1},
		"its turn: it leaves at 14:00:01 UTC": {func(r *dbsqlc.DeliveryListViewRow) {
			r.RequestStartedAt, r.RequestLeaseUntil = at(time.Second), at(20*time.Second)
		}, alive, -1},
		"the destination is paused": {func(r *dbsqlc.DeliveryListViewRow) { r.DestinationState = "paused" }, workers{now: now}, -1},
		"the destination is disabled: it answered 410": {func(r *dbsqlc.DeliveryListViewRow) {
			r.DestinationState, r.DestinationReason = "disabled", "it answered 410"
		}, alive, -1},
		"the receiver asked to wait until 14:03:20 UTC (503)": {func(r *dbsqlc.DeliveryListViewRow) {
			r.HeldUs, r.LastStatus, r.Parked = now.Add(200*time.Second).UnixMicro(), &status, true
		}, alive, 4},
		"the next try at 14:00:30 UTC, after a 503": {func(r *dbsqlc.DeliveryListViewRow) {
			r.State, r.LastStatus, r.DueAt = "retrying", &status, *at(30 * time.Second)
		}, alive, -1},
		"the next try at 1 Dec 14:00 UTC, after connection refused": {func(r *dbsqlc.DeliveryListViewRow) {
			r.State, r.LastErrorClass, r.DueAt = "retrying", "connection_refused", *at(24 * time.Hour)
		}, alive, -1},
		"a worker: none has been seen yet":                              {func(*dbsqlc.DeliveryListViewRow) {}, workers{now: now}, -1},
		"a worker: none has been seen for 2 min":                        {func(*dbsqlc.DeliveryListViewRow) {}, workers{now: now, seen: now.Add(-150 * time.Second)}, -1},
		"its turn: 412 wait before it at 5/s":                           {func(r *dbsqlc.DeliveryListViewRow) { r.Parked = true }, alive, 412},
		"its turn: 1,412 wait in its lane at 5/s":                       {func(r *dbsqlc.DeliveryListViewRow) { r.Parked, r.LaneParked = true, 1412 }, alive, -1},
		"its turn: more than 10,000 wait before it":                     {func(r *dbsqlc.DeliveryListViewRow) { r.Parked, r.Rate = true, nil }, alive, maxWaiting},
		"a place: 4 requests are under way, as many as the lane allows": {func(r *dbsqlc.DeliveryListViewRow) { r.LaneInFlight = 4 }, alive, -1},
		"a worker: it is next in line":                                  {func(*dbsqlc.DeliveryListViewRow) {}, alive, -1},
	} {
		row := base
		c.change(&row)
		require.Equal(t, want, waitingFor(row, c.workers, c.ahead))
	}
}

func TestScanPage(t *testing.T) {
	t.Parallel()
	// A table of ids 1 to 200000, of which every thousandth matches.
	table := func(before place, length, limit int32) (stretch, error) {
		top := min(before.Major, 200_001)
		s := stretch{Floor: place{max(1, top-int64(length)), -1}, FloorAt: time.Unix(top, 0)}
		s.Scanned = int32(top - s.Floor.Major)
		for id := top - 1; id >= s.Floor.Major && len(s.IDs) < int(limit); id-- {
			if id%1000 == 0 {
				s.IDs, s.Places = append(s.IDs, id), append(s.Places, place{id, -1})
			}
		}
		return s, nil
	}
	for name, budget := range map[string]time.Duration{"all the time there is": time.Hour, "no time": 0} {
		var got []int64
		cut := 0
		for from := newest(false); ; {
			page, err := walkPage(from, 60, true, budget, table)
			require.NoError(t, err)
			got = append(got, page.IDs...)
			if page.SearchedTo != nil {
				cut++
			}
			if page.Next == nil {
				break
			}
			from, err = parsePlace(*page.cursor(), false)
			require.NoError(t, err)
		}
		require.Len(t, got, 200, name)
		require.EqualValues(t, 200_000, got[0])
		require.EqualValues(t, 1000, got[199])
		require.Equal(t, budget == 0, cut > 0, "a page that was cut short says so")
	}
}

func TestExcerptText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a\n\tb\uFFFDc\uFFFD", excerptText([]byte("a\n\tb\x00c\xff")))
	require.Empty(t, excerptText(nil))
	require.True(t, strings.HasPrefix(excerptText([]byte("<script>")), "<"))
}
