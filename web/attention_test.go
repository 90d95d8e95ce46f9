package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbsqlc"
)

// attentionNow is a Wednesday night.
var attentionNow = time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return attentionNow.Add(-d) }

func TestLineConcern(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		line     line
		tone     string
		sentence string // empty: nothing to tell
	}{
		{"nothing waits", line{Allowed: 5, Arriving: 8}, "", ""},
		{"what a limit is for", line{Waiting: 100, Allowed: 5, Arriving: 1}, "", ""},
		{"no limit", line{Waiting: 1000, Arriving: 8}, "", ""},
		{"it drains", line{Waiting: 1200, Allowed: 5, Arriving: 3}, "warn", "is allowed 5/s, arriving 3/s: 1,200 wait, drains in 10 min."},
		{"nothing comes any more", line{Waiting: 1200, Allowed: 5}, "warn", "is allowed 5/s, none arriving: 1,200 wait, drains in 4 min."},
		{"it grows", line{Waiting: 72_000, Allowed: 5, Arriving: 8}, "warn", "is allowed 5/s, arriving 8/s: 72,000 wait, 4 h of work and growing."},
		{"as much comes as leaves", line{Waiting: 3000, Allowed: 5, Arriving: 5}, "warn", "is allowed 5/s, arriving 5/s: 3,000 wait, 10 min of work and growing."},
		{"slow paces are told by the hour", line{Waiting: 10, Allowed: 1. / 360, Arriving: 0}, "warn", "is allowed 10/h, none arriving: 10 wait, drains in 1 h."},
		{
			"answers that take their time are the limit", line{Waiting: 600, Allowed: 10, AtOnce: 4, Took: 2 * time.Second, Arriving: 1}, "warn",
			"is allowed 4 requests at once, each taking 2.0 s, which makes 2/s, arriving 1/s: 600 wait, drains in 10 min.",
		},
		{
			// 36,000 came evenly in an hour (10/s); 5/s leave. The first has an hour left: the front reaches its expiry after two hours, the
			// last one's time.
			"all are served in time", line{Waiting: 36_000, Allowed: 5, Arriving: 10, TTL: 2 * time.Hour, Remaining: time.Hour, Known: true}, "warn",
			"is allowed 5/s, arriving 10/s: 36,000 wait, 2 h of work and growing.",
		},
		{
			// The front reaches its expiry after an hour; for the half hour until the last one's, 5/s more fall due than leave.
			"some will expire", line{Waiting: 36_000, Allowed: 5, Arriving: 10, TTL: 90 * time.Minute, Remaining: 30 * time.Minute, Known: true}, "bad",
			"is allowed 5/s, arriving 10/s: 36,000 wait, 2 h of work and growing, and about 9,000 will expire first.",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, ok := test.line.concern()
			require.Equal(t, test.sentence != "", ok)
			require.Equal(t, test.sentence, c.Sentence)
			require.Equal(t, test.tone, c.Tone)
		})
	}
}

func TestDestinationConcerns(t *testing.T) {
	t.Parallel()
	type row = dbsqlc.AttentionListDestinationRow
	slow := ago(20 * time.Minute)
	minute := func(back int, requests, failed int64) answersAt {
		return answersAt{ago(time.Duration(back) * time.Minute), requests, failed}
	}
	for _, test := range []struct {
		name string
		f    figures
		want []string // tone, what it is about, sentence
	}{
		{"well", figures{AttentionListDestinationRow: row{State: "active", Requests: 100, Ok: 100, Waiting: 3}}, nil},
		{
			"paused", figures{AttentionListDestinationRow: row{State: "paused", StateSince: ago(time.Hour), StateReason: "moving house", Waiting: 412}},
			[]string{"warn", aboutState, "is paused since 02:00 (moving house): 412 deliveries wait."},
		},
		{
			"disabled", figures{AttentionListDestinationRow: row{State: "disabled", StateSince: ago(30 * time.Hour), StateReason: "the receiver answered 410 Gone"}},
			[]string{"bad", aboutState, "is disabled since Monday 21:00 (the receiver answered 410 Gone)."},
		},
		{
			"held", figures{AttentionListDestinationRow: row{State: "active", Held: true, HeldUntil: attentionNow.Add(3 * time.Minute), HeldReason: "Retry-After", Waiting: 1}},
			[]string{"warn", aboutReceiver, "is held until 03:03 (Retry-After): 1 delivery waits."},
		},
		{
			"slow", figures{AttentionListDestinationRow: row{State: "active", SlowSince: &slow, Requests: 2, Ok: 2, TookUs: 9_000_000}},
			[]string{"warn", aboutReceiver, "answers slowly since 02:40, 4.5 s on average; it is worked apart, so that nobody else waits for it."},
		},
		{
			"5xx, not always", figures{
				AttentionListDestinationRow: row{State: "active", Requests: 100, Ok: 62, ServerError: 36, TimedOut: 2},
				History:                     []answersAt{minute(1, 10, 4), minute(2, 10, 0), minute(46, 10, 5), minute(47, 10, 0), minute(48, 10, 0), minute(49, 9, 0), minute(50, 9, 9)},
			},
			[]string{"warn", aboutReceiver, "answers 5xx since 02:14, 38 % of attempts."},
		},
		{
			"no connection at all, for days", figures{
				AttentionListDestinationRow: row{State: "active", Requests: 1, Network: 1},
				History:                     []answersAt{minute(1, 1, 1), {ago(50 * time.Hour), 3, 3}, {ago(51 * time.Hour), 3, 3}},
			},
			[]string{"bad", aboutReceiver, "cannot be connected to since Monday 00:00, every attempt."},
		},
		{"one timeout among many is noise", figures{AttentionListDestinationRow: row{State: "active", Requests: 100, Ok: 99, TimedOut: 1}}, nil},
		{
			"a type is refused", figures{AttentionListDestinationRow: row{State: "active"}, Dead: []deadGroup{{Type: "shipment.returned", Status: 422, N: 181, First: ago(20 * time.Hour), Last: attentionNow}}},
			[]string{"bad", aboutPayload, "refused every “shipment.returned” with 422 since Tuesday 07:00: 181 dead-lettered."},
		},
		{
			"some of a type are refused", figures{AttentionListDestinationRow: row{State: "active"}, Dead: []deadGroup{{Type: "a", Status: 400, N: 4, Passed: 3, First: ago(time.Hour), Last: attentionNow}}},
			[]string{"bad", aboutPayload, "refused 4 “a” with 400 since 02:00; others of that type get through."},
		},
		{
			"dead letters of other kinds are one sentence", figures{AttentionListDestinationRow: row{State: "active"}, Dead: []deadGroup{
				{Type: "a", Status: 500, N: 2, First: ago(time.Hour), Last: ago(time.Minute)}, {Type: "b", Class: "timeout", N: 1, First: ago(2 * time.Hour), Last: ago(time.Hour)},
				{Type: "c", Status: 422, N: 1, First: ago(time.Hour), Last: ago(time.Hour)},
			}},
			[]string{"bad", aboutDead, "has 4 dead letters since 01:00, the last after a 500."},
		},
		{
			"old ones are less pressing", figures{AttentionListDestinationRow: row{State: "active"}, Dead: []deadGroup{{Class: "timeout", N: 1, First: ago(240 * time.Hour), Last: ago(25 * time.Hour)}}},
			[]string{"warn", aboutDead, "has 1 dead letter since 22 Nov 03:00, the last after: timeout."},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range destinationConcerns(test.f, attentionNow) {
				got = append(got, c.Tone, c.About, c.Sentence)
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestUsConcerns(t *testing.T) {
	t.Parallel()
	well := machine{Workers: 2, Discoverers: 1, ReadySince: attentionNow, Run: &runRow{FinishedAt: ago(5 * time.Second)}, Interval: 10 * time.Second}
	with := func(change func(*machine)) machine { m := well; change(&m); return m }
	for _, test := range []struct {
		name string
		m    machine
		want []string
	}{
		{"well", well, nil},
		{
			"no worker", with(func(m *machine) {
				m.Workers, m.Processes = 0, []dbsqlc.ProcessListRow{{Roles: []string{"work"}, BeatAt: ago(2 * time.Minute), StoppedAt: &attentionNow}}
			}),
			[]string{"No worker is running: none has fetched for 2 min, so nothing is sent. Start one: weir serve, or weir serve --roles work."},
		},
		{
			"workers that do not fetch", with(func(m *machine) { m.ReadySince = ago(3 * time.Minute) }),
			[]string{"The workers do not keep up: the first delivery in line has been ready for 3 min, and none has fetched it."},
		},
		{
			"discovery is late", with(func(m *machine) { m.RunLate, m.Run = true, &runRow{FinishedAt: ago(5 * time.Minute)} }),
			[]string{"Discovery is late: the last run was 5 min ago, and one is due every 10 s."},
		},
		{
			"nobody discovers", with(func(m *machine) { m.Discoverers, m.RunLate = 0, true }),
			[]string{"No process looks for new events for an hour or more. Start one: weir serve, or weir serve --roles discover."},
		},
		{
			"a run failed", with(func(m *machine) { m.Run = &runRow{FinishedAt: attentionNow, Error: "no such table."} }),
			[]string{"The last discovery run failed: no such table."},
		},
		{
			"a process is gone", with(func(m *machine) {
				m.Processes = []dbsqlc.ProcessListRow{{ID: "w-1", Roles: []string{"work", "web"}, BeatAt: ago(time.Minute)}}
			}),
			[]string{"A process is gone without a word since 02:59 (work, web): w-1. What it had in hand is taken up by others."},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range usConcerns(test.m, attentionNow) {
				require.Equal(t, aboutUs, c.About)
				got = append(got, c.Sentence)
			}
			require.Equal(t, test.want, got)
		})
	}
	require.Equal(t, "All is well: deliveries got through within the last minute, nothing waits beyond its time, and 2 workers are alive.", wellWords(well, ago(time.Minute), 0, attentionNow))
	require.Equal(t, "All is well: the last delivery was 3 h ago, the oldest waits for 5 s, and 2 workers are alive.", wellWords(well, ago(3*time.Hour), 5*time.Second, attentionNow))
}

func TestWorstFirst(t *testing.T) {
	t.Parallel()
	got := worstFirst([]concern{
		{Tone: "warn", About: aboutUs, Name: "d"}, {Tone: "bad", About: aboutRate, Affected: 5, Name: "c"}, {Tone: "bad", About: aboutPayload, Affected: 9, Name: "b"},
		{Tone: "bad", About: aboutUs, Name: "a"}, {Tone: "warn", About: aboutRate, Affected: 1000, Name: "e"},
	})
	names := ""
	for _, c := range got {
		names += c.Name
	}
	require.Equal(t, "abcde", names)
}

func TestLaneConcernsAreOneForALane(t *testing.T) {
	t.Parallel()
	shared := func(id, arrived int64) figures {
		return figures{AttentionListDestinationRow: dbsqlc.AttentionListDestinationRow{
			ID: id, Name: "one of two", State: "active", LaneID: 7, LaneName: "acme", Sharing: 2, Pace: 5, Waiting: 6000, Arrived: arrived, Requests: 10, Ok: 10, TtlS: 3600,
		}}
	}
	failing := shared(3, 0)
	failing.LaneID, failing.ServerError, failing.Ok = 8, 10, 0
	got := laneConcerns([]figures{shared(1, 900), shared(2, 1800), failing}, 900*time.Second, attentionNow)
	require.Len(t, got, 1, "a line that stands because its receiver fails is not told twice")
	require.Equal(t, "lane acme", got[0].Name)
	require.Equal(t, "is allowed 5/s, arriving 3/s: 6,000 wait, drains in 50 min.", got[0].Sentence)
	require.Equal(t, "/lanes/lane_7", got[0].Href)
}
