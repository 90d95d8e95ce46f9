package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"weir/web/ui"
)

func TestDeadLettersAPI(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.status.Store(422)
	b.work(t)
	to := b.destination(t, `, "retry": {"schedule": []}`)
	require.Empty(t, b.ok(t, 200, "GET", "/dead-letters", "").field(t, "items"))
	for i := range 4 {
		b.ok(t, 202, "POST", "/events", fmt.Sprintf(`{"id": "e%d", "type": "order.paid", "subject": "s%d", "payload": 1}`, i, i))
	}
	is := func(path, field string, want any) func() bool {
		return func() bool {
			a := b.do(t, "GET", path, "")
			return a.status == 200 && strings.Contains(string(a.body), `"id"`) && fmt.Sprint(a.field(t, field)) == fmt.Sprint(want)
		}
	}
	require.Eventually(t, is("/dead-letters", "items.0.open", 4), eventually, tick)
	g := b.ok(t, 200, "GET", "/dead-letters?destination="+to, "")
	require.Equal(t, "order.paid refused with 422", g.field(t, "items.0.title"))
	require.InDelta(t, 4, g.field(t, "items.0.last_hour"), 0)
	require.Nil(t, g.field(t, "next_cursor"))
	here := "/dead-letters/" + g.field(t, "items.0.id").(string)
	page := b.ok(t, 200, "GET", here+"/deliveries?limit=3", "")
	require.Len(t, page.field(t, "items"), 3)
	require.Equal(t, "<b>answer</b>", page.field(t, "items.0.response_excerpt"), "what the receiver answered")
	require.Len(t, b.ok(t, 200, "GET", here+"/deliveries?limit=3&cursor="+page.field(t, "next_cursor").(string), "").field(t, "items"), 1)

	b.refused(t, "POST", here+"/resolve", `{}`, "reason", "missing")
	b.refused(t, "POST", here+"/resolve", `{"reason": "x", "deliveries": ["e1"]}`, "deliveries", "want the id")
	b.refused(t, "GET", "/dead-letters?cursor=x", "", "cursor", "not a cursor")
	b.ok(t, 404, "GET", "/dead-letters/dlg_99", "")
	one := page.field(t, "items.0.delivery_id").(string)
	a := b.ok(t, 200, "POST", here+"/resolve", fmt.Sprintf(`{"reason": "a duplicate", "deliveries": [%q]}`, one))
	require.InDelta(t, 1, a.field(t, "resolved"), 0)
	require.InDelta(t, 3, a.field(t, "group.open"), 0)
	b.ok(t, 409, "POST", here+"/resolve", fmt.Sprintf(`{"reason": "again", "deliveries": [%q]}`, one))

	b.status.Store(200)
	a = b.ok(t, 200, "POST", here+"/replay", `{"reason": "mended", "share": 1}`)
	require.InDelta(t, 3, a.field(t, "run.counts.selected"), 0)
	require.Eventually(t, is(here, "open", 0), eventually, tick)
	require.Empty(t, b.ok(t, 200, "GET", "/dead-letters", "").field(t, "items"))
	require.Len(t, b.ok(t, 200, "GET", "/dead-letters?show=resolved", "").field(t, "items"), 1)
	require.Empty(t, b.ok(t, 200, "GET", here+"/deliveries", "").field(t, "items"))
	left := map[any]int{}
	for i := range 4 {
		left[b.ok(t, 200, "GET", here+"/deliveries?all=true", "").field(t, fmt.Sprintf("items.%d.left", i))]++
	}
	require.Equal(t, map[any]int{"resolved": 1, "delivered": 3}, left)
	history := b.ok(t, 200, "GET", here+"/history", "")
	require.Equal(t, "delivered", history.field(t, "items.0.kind"))
	require.InDelta(t, 3, history.field(t, "items.0.count"), 0)
	require.Equal(t, a.field(t, "run.id"), history.field(t, "items.0.replay"))
	require.Equal(t, "mended", history.field(t, "items.1.note"), "the replay itself")
	require.Equal(t, "token admin", history.field(t, "items.2.actor"))
}

func TestDeadLettersAPIActs(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	seedGroup(t, b.pool, 12)
	_, err := b.pool.Exec(t.Context(), "INSERT INTO operator (name, password_hash, role) VALUES ('Ada', '', 'operator'), ('Vera', '', 'viewer')")
	require.NoError(t, err)
	const here = "/dead-letters/dlg_1"
	for _, act := range []string{"assign", "note", "snooze", "wake", "take-back"} {
		require.Equal(t, 403, b.call(t, b.read, "POST", "/api/v1"+here+"/"+act, "{}").status, "%s needs operate", act)
	}

	require.Equal(t, "Ada", b.ok(t, 200, "POST", here+"/assign", `{"assignee": "Ada"}`).field(t, "assignee"))
	b.ok(t, 409, "POST", here+"/assign", `{"assignee": "Ada"}`)
	b.refused(t, "POST", here+"/assign", `{"assignee": "Vera"}`, "assignee", "operator or an administrator")
	b.refused(t, "POST", here+"/assign", `{}`, "assignee", "missing")
	b.ok(t, 404, "POST", "/dead-letters/dlg_99/assign", `{"assignee": null}`)
	require.Nil(t, b.ok(t, 200, "POST", here+"/assign", `{"assignee": null}`).field(t, "assignee"))

	b.ok(t, 200, "POST", here+"/note", `{"note": "their shop\nis down"}`)
	b.refused(t, "POST", here+"/note", `{}`, "note", "empty")

	b.ok(t, 409, "POST", here+"/wake", "")
	until := time.Now().Add(4 * time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
	require.Equal(t, until, b.ok(t, 200, "POST", here+"/snooze", fmt.Sprintf(`{"until": %q}`, until)).field(t, "snoozed_until"))
	for _, wrong := range []string{"tomorrow", "0001-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"} {
		b.refused(t, "POST", here+"/snooze", fmt.Sprintf(`{"until": %q}`, wrong), "until", "want a time")
	}
	require.Nil(t, b.ok(t, 200, "POST", here+"/wake", "").field(t, "snoozed_until"))

	b.ok(t, 409, "POST", here+"/take-back", "")
	b.ok(t, 200, "POST", here+"/resolve", `{"reason": "agreed"}`)
	a := b.ok(t, 200, "POST", here+"/take-back", "")
	require.InDelta(t, 12, a.field(t, "reopened"), 0)
	require.InDelta(t, 12, a.field(t, "group.open"), 0)

	b.refused(t, "POST", here+"/replay", `{"deliveries": ["dlv_5001", "dlv_4999"]}`, "deliveries", "dlv_4999 does not belong to it")
	b.refused(t, "POST", "/replays", `{"filter": {"dead_letters": "dlg_1", "deliveries": ["dlv_5001", "dlv_4999"]}}`, "filter.deliveries", "dlv_4999 does not belong to it")
	a = b.ok(t, 200, "POST", "/replays", `{"preview": true, "filter": {"dead_letters": "dlg_1", "deliveries": ["dlv_5001", "dlv_5002"]}}`)
	require.InDelta(t, 2, a.field(t, "selection.selected"), 0)

	history := b.ok(t, 200, "GET", here+"/history", "")
	kinds := ""
	for i := range 7 {
		kinds += fmt.Sprint(history.field(t, fmt.Sprintf("items.%d.kind", i)), " ")
		require.Equal(t, "token admin", history.field(t, fmt.Sprintf("items.%d.actor", i)))
	}
	require.Equal(t, "taken_back resolved woke snoozed note unassigned assigned ", kinds)
	require.Len(t, history.field(t, "items"), 7, "what was refused leaves none")
	rows, err := b.pool.Query(t.Context(), "SELECT action FROM audit WHERE object_kind = 'dead_letters' AND actor_kind = 'token' ORDER BY id")
	require.NoError(t, err)
	actions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, "dead_letters.assign dead_letters.assign dead_letters.note dead_letters.snooze dead_letters.wake dead_letters.resolve dead_letters.take_back",
		strings.Join(actions, " "), "as the panel's acts are recorded")
}

// seedLetters puts n dead letters of a destination into one group, without anybody having been asked.
func seedLetters(p *panel, n int) {
	p.t.Helper()
	seedGroup(p.t, p.pool, n)
}

func seedGroup(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	exec := func(sql string, args ...any) {
		_, err := pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	exec("INSERT INTO lane (id, name) VALUES (1, 'l') ON CONFLICT DO NOTHING")
	exec("INSERT INTO destination (id, name, url, lane_id) VALUES (1, 'Acme', 'https://acme.example/', 1) ON CONFLICT DO NOTHING")
	exec("INSERT INTO event (id, event_id, type, subject, payload, occurred_at) SELECT 5000 + g, 'l_' || g, 'order.paid', 's', '{}', now() FROM generate_series(1, $1::int) g", n)
	exec(`INSERT INTO delivery (id, event_id, destination_id, lane_id, state, last_status, reason, attempts, expires_at, settled_at)
		SELECT 5000 + g, 5000 + g, 1, 1, 'dead_lettered', 422, 'refused', 1, now(), now() FROM generate_series(1, $1::int) g`, n)
	exec(`INSERT INTO dead_letter_group (destination_id, state, status, error_class, type, reason, open, total, first_seen, last_seen, opened_at)
		VALUES (1, 'dead_lettered', 422, 'status_4xx', 'order.paid', 'refused', $1::int, $1::int, now(), now(), now())`, n)
	exec("INSERT INTO dead_letter (delivery_id, group_id, seq, ended_at) SELECT 5000 + g, 1, nextval('dead_letter_seq'), now() FROM generate_series(1, $1::int) g", n)
	exec("INSERT INTO dead_letter_tally (group_id, at, came) VALUES (1, now(), $1::int)", n)
}

func TestDeadLetterPages(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	require.Contains(t, p.get("/dead-letters").Body, "The inbox is empty")
	require.NotContains(t, p.get("/").Body, "mark-count", "nothing is open, nothing is said")
	seedLetters(p, 60)
	list := p.get("/dead-letters").Body
	require.Contains(t, list, "order.paid refused with 422")
	require.Contains(t, list, ">+60 in the last hour")
	require.Contains(t, p.get("/destinations").Body, `<span class="mark-count"><span class="sr">open: </span>1</span>`, "on every page")
	require.Contains(t, p.get("/dead-letters?assignee=me").Body, "None like that")
	require.Equal(t, http.StatusOK, p.get("/dead-letters?cursor=%00&destination=x&assignee=x&show=x").Status)
	require.Equal(t, http.StatusNotFound, p.get("/dead-letters/dlg_9").Status)

	const here = "/dead-letters/dlg_1"
	page := p.get(here).Body
	require.Equal(t, 50, strings.Count(page, `data-testid="letter"`))
	older := p.get(here + "?cursor=" + formatCursor(11)).Body
	require.Equal(t, 10, strings.Count(older, `data-testid="letter"`))
	require.Equal(t, 10, strings.Count(p.get(here+"?all=1&cursor="+formatCursor(11)).Body, `data-testid="letter"`))

	t.Run("a viewer looks, and is offered nothing else", func(t *testing.T) {
		viewer := p.as(ui.Viewer, "Vera")
		body := p.do(viewer, http.MethodGet, here, nil).Body
		require.Contains(t, body, "order.paid refused with 422")
		require.NotContains(t, body, `action="/dead-letters`)
		require.NotContains(t, body, "/replays/preview")
	})

	t.Run("assign, note, snooze, wake", func(t *testing.T) {
		p.post(here+"/assign", "assignee", "usr_1")
		require.Contains(t, p.get("/dead-letters?assignee=me").Body, "order.paid refused with 422")
		require.Equal(t, here, p.post(here+"/assign", "assignee", "usr_99").Location)
		require.Contains(t, p.get(here).Body, "Nothing was done. Assignee want somebody who can sign in")
		p.post(here+"/note", "note", "two\nlines <b>")
		require.Contains(t, p.get(here).Body, "two\nlines &lt;b&gt;")
		p.post(here+"/snooze", "for", "4h")
		require.NotContains(t, p.get("/").Body, "mark-count")
		require.Contains(t, p.get("/dead-letters?show=snoozed").Body, "order.paid refused with 422")
		p.post(here + "/wake")
		require.Contains(t, p.get("/").Body, "mark-count")
	})

	t.Run("resolve chosen ones, then all that was seen, and take it back", func(t *testing.T) {
		p.post(here+"/resolve", "delivery", "dlv_5001", "delivery", "dlv_5002", "why", "a duplicate")
		require.Equal(t, 58, p.count("SELECT open FROM dead_letter_group"))
		p.post(here+"/resolve", "why", "nothing chosen")
		require.Contains(t, p.get(here).Body, "Nothing was done. Deliveries choose from 1 to 200")
		fields := hiddenFields(p.get(here).Body)
		require.Equal(t, "60", fields.Get("through"))
		p.exec("INSERT INTO dead_letter (delivery_id, group_id, seq, ended_at) VALUES (4999, 1, 61, now())")
		p.exec("UPDATE dead_letter_group SET open = open + 1")
		p.post(here+"/resolve", "all", "1", "through", fields.Get("through"), "why", "agreed with the receiver")
		require.Equal(t, 1, p.count("SELECT open FROM dead_letter_group"), "what came since")
		require.Contains(t, p.get(here).Body, "agreed with the receiver")
		p.post(here + "/take-back")
		require.Equal(t, 59, p.count("SELECT open FROM dead_letter_group"))
		p.exec("DELETE FROM dead_letter WHERE delivery_id = 4999")
	})

	t.Run("each act is in the audit log and in the group's history", func(t *testing.T) {
		require.Equal(t, "Ada", p.auditOf("dead_letters.snooze")[0].Actor)
		require.Equal(t, "agreed with the receiver", p.auditOf("dead_letters.resolve")[0].Note)
		for _, action := range []string{"assign", "note", "snooze", "wake", "resolve_some", "resolve", "take_back"} {
			require.Len(t, p.auditOf("dead_letters."+action), 1, action)
			require.NotEmpty(t, auditWords["dead_letters."+action])
		}
		require.Equal(t, 7, p.count("SELECT count(*) FROM dead_letter_history WHERE actor = 'operator Ada'"), "what was refused leaves none")
	})

	t.Run("replays go through the preview", func(t *testing.T) {
		preview := p.get("/replays/preview?dead_letters=dlg_1").Body
		require.Contains(t, preview, "Send 58 again")
		require.Equal(t, "dlg_1", hiddenFields(preview).Get("dead_letters"))
		require.Contains(t, p.get("/replays/new?dead_letters=dlg_1&delivery=dlv_5003").Body, `name="dead_letters" value="dlg_1"`)
		require.Equal(t, "dlg_1", hiddenFields(p.get(here).Body).Get("dead_letters"), "what is chosen is chosen out of the group")
		require.Contains(t, p.get("/replays/preview?dead_letters=dlg_1&delivery=dlv_5003&delivery=dlv_4999").Body, "dlv_4999 does not belong to it")
		chosen := p.get("/replays/preview?dead_letters=dlg_1&delivery=dlv_5003&delivery=dlv_5004&why=mended").Body
		require.Contains(t, chosen, "Send 2 again")
		require.Contains(t, chosen, `value="mended"`, "what was typed as a reason is the replay's")
		started := p.do(p.client, http.MethodPost, "/replays", hiddenFields(chosen))
		require.Contains(t, p.get(started.Location).Body, "2 deliveries chosen one by one")
		require.Contains(t, p.get(here).Body, `href="`+started.Location+`"`, "the group shows the run")
		require.Contains(t, p.get("/replays/preview?delivery=nonsense").Body, "Want the id of a delivery")
	})
}

func TestDeadLettersKeepTheirPlace(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.exec("INSERT INTO lane (id, name) VALUES (1, 'l')")
	p.exec("INSERT INTO destination (id, name, url, lane_id) VALUES (1, $1, 'https://acme.example/', 1)", xssName)
	p.exec(`INSERT INTO dead_letter_group (destination_id, state, status, error_class, type, reason, open, total, first_seen, last_seen, opened_at)
		SELECT 1, 'dead_lettered', 422, '<u>', '<b>' || g, $1, 1, 1, now(), date_trunc('hour', now()), now() FROM generate_series(1, 120) g`, xssReason)
	seen := map[string]bool{}
	for path, pages := "/dead-letters", 0; path != ""; pages++ {
		require.Less(t, pages, 5)
		body := p.get(path).Body
		require.NotContains(t, body, "<b>")
		require.NotContains(t, body, "<img")
		path = ""
		for _, m := range hrefs(body) {
			if strings.HasPrefix(m, "/dead-letters/dlg_") {
				require.False(t, seen[m], m)
				seen[m] = true
			}
			if strings.Contains(m, "cursor=") {
				path = m
			}
		}
	}
	require.Len(t, seen, 120)
}

func hrefs(body string) []string {
	var found []string
	for _, part := range strings.Split(body, `href="`)[1:] {
		link, _, _ := strings.Cut(part, `"`)
		found = append(found, strings.ReplaceAll(link, "&amp;", "&"))
	}
	return found
}

func TestLetterTitles(t *testing.T) {
	t.Parallel()
	for want, in := range map[string][]any{
		"Expired before the first try": {"expired", 0, "", ""}, "Expired; the last answer was 503": {"expired", 503, "status_5xx", ""},
		"Expired; the last try: no answer in time": {"expired", 0, "timeout", ""}, "order.paid refused with 422": {"dead_lettered", 422, "status_4xx", "order.paid"},
		"Refused with 401": {"dead_lettered", 401, "status_4xx", ""}, "Answered 503 on every try": {"dead_lettered", 503, "status_5xx", ""},
		"Gone: answered 410": {"dead_lettered", 410, "gone", ""}, "Redirected with 302, which is not followed": {"dead_lettered", 302, "redirect", ""},
		"Answered 200, which counts as refused here": {"dead_lettered", 200, "status_2xx", ""}, "Blocked by the guard: loopback": {"dead_lettered", 0, "blocked_loopback", ""},
		"Connection refused": {"dead_lettered", 0, "connection_refused", ""}, "Some new class": {"dead_lettered", 0, "some_new_class", ""}, "Ended without a try": {"dead_lettered", 0, "", ""},
	} {
		require.Equal(t, want, letterTitle(in[0].(string), int32(in[1].(int)), in[2].(string), in[3].(string)))
	}
}

func TestGrowthPath(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 10, 0, 0, time.UTC)
	require.Equal(t, "M0 20v-10h1.6v10zM94 20v-20h1.6v20z", growthPath([]letterCount{
		{now.Add(-25 * time.Hour), 99}, {time.Date(2026, 4, 30, 12, 30, 0, 0, time.UTC), 5}, {time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), 10},
	}, now))
}
