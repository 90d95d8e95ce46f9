package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type auditLine struct {
	Kind, Actor, Role, Action, Object, Name, Note, Address string
	Before, After                                          map[string]any
}

// auditOf is the log's newest entries with the action, newest first.
func (p *panel) auditOf(action string) []auditLine {
	p.t.Helper()
	rows, err := p.pool.Query(p.t.Context(), `SELECT actor_kind, actor, role, action, object_id, object_name, note, address, before, after
		FROM audit WHERE action = $1 ORDER BY id DESC LIMIT 20`, action)
	require.NoError(p.t, err)
	defer rows.Close()
	var lines []auditLine
	for rows.Next() {
		var l auditLine
		var before, after []byte
		require.NoError(p.t, rows.Scan(&l.Kind, &l.Actor, &l.Role, &l.Action, &l.Object, &l.Name, &l.Note, &l.Address, &before, &after))
		if before != nil {
			require.NoError(p.t, json.Unmarshal(before, &l.Before))
		}
		if after != nil {
			require.NoError(p.t, json.Unmarshal(after, &l.After))
		}
		lines = append(lines, l)
	}
	require.NoError(p.t, rows.Err())
	return lines
}

func (p *panel) call(token, method, path, body string) reply {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+apiPrefix+path, strings.NewReader(body))
	require.NoError(p.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := p.client.Do(req)
	require.NoError(p.t, err)
	require.NoError(p.t, res.Body.Close())
	return reply{Status: res.StatusCode}
}

func TestAudit(t *testing.T) {
	t.Parallel()

	t.Run("EachChangeIsRecordedWithWhoAndWhatChanged", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		token, err := CreateToken(AsCommand(t.Context(), "grace"), p.pool, "shop", []string{ScopeAdmin})
		require.NoError(t, err)
		made := p.auditOf("token.create")[0]
		require.Equal(t, []string{"cli", "grace", "tok_1", "shop"}, []string{made.Kind, made.Actor, made.Object, made.Name})
		require.Equal(t, []any{"admin"}, made.After["scopes"])

		secret := "whsec_" + strings.Repeat("A", 32)
		res := p.call(token, "POST", "/destinations", `{"name": "Acme", "url": "http://127.0.0.1:9/hook?key=hunter3", "secret": "`+secret+`", "headers": {"X-Key": "hunter4"}}`)
		require.Equal(t, http.StatusCreated, res.Status)
		created := p.auditOf("destination.create")[0]
		require.Equal(t, []string{"token", "shop", "admin", "dst_1", "Acme", "127.0.0.1"}, []string{created.Kind, created.Actor, created.Role, created.Object, created.Name, created.Address})
		require.Nil(t, created.Before)
		require.Equal(t, []any{"X-Key"}, created.After["headers"])

		require.Equal(t, 200, p.call(token, "PATCH", "/destinations/dst_1", `{"timeout": "20s", "lane": {"rate": 3}, "headers": {"X-Key": "hunter5"}}`).Status)
		changed := p.auditOf("destination.update")[0]
		require.Equal(t, map[string]any{"timeout": "10s", "lane.rate": 10.0}, changed.Before, "only what changed")
		require.Equal(t, map[string]any{"timeout": "20s", "lane.rate": 3.0, "headers set": []any{"X-Key"}}, changed.After)
		require.Equal(t, map[string]any{"rate": 3.0}, p.auditOf("lane.update")[0].After)
		require.Equal(t, 200, p.call(token, "PATCH", "/destinations/dst_1", `{"timeout": "20s"}`).Status)
		require.Len(t, p.auditOf("destination.update"), 1, "what changes nothing is no change")
		require.Equal(t, 200, p.call(token, "PATCH", "/destinations/dst_1", `{"url": "http://127.0.0.1:9/hook?key=hunter6"}`).Status)
		require.Contains(t, p.auditOf("destination.update")[0].After["url"], "a part that is not shown")
		require.Equal(t, 200, p.call(token, "PATCH", "/lanes/lane_1", `{"burst": 5}`).Status)
		require.Equal(t, map[string]any{"burst": 10.0}, p.auditOf("lane.update")[0].Before)

		require.Equal(t, http.StatusSeeOther, p.post("/destinations/dst_1/pause", "reason", "their maintenance").Status)
		paused := p.auditOf("destination.pause")[0]
		require.Equal(t, []string{"operator", "Ada", "administrator", "dst_1", "their maintenance"}, []string{paused.Kind, paused.Actor, paused.Role, paused.Object, paused.Note})
		require.Equal(t, map[string]any{"state": "active"}, paused.Before)
		require.Equal(t, http.StatusSeeOther, p.post("/destinations/dst_1/pause").Status)
		require.Len(t, p.auditOf("destination.pause"), 1, "what was refused is not recorded as done")
		require.Equal(t, http.StatusSeeOther, p.post("/destinations/dst_1/resume").Status)
		require.Equal(t, http.StatusOK, p.post("/destinations/dst_1/rotate", "overlap", "1h").Status)
		require.Len(t, p.auditOf("secret.rotate")[0].After["secrets"], 2)
		require.Equal(t, http.StatusSeeOther, p.post("/destinations/dst_1/test").Status)
		require.Len(t, p.auditOf("destination.test"), 1)
		p.exec("UPDATE delivery SET state = 'cancelled', reason = 'by hand', settled_at = now(), in_window = false, parked = false")
		require.Equal(t, http.StatusSeeOther, p.post("/deliveries/"+formatID(idDelivery, int64(p.count("SELECT id FROM delivery")))+"/replay", "reason", "again").Status)
		require.Equal(t, "rpl_1", p.auditOf("replay.start")[0].Object)
		require.Equal(t, http.StatusSeeOther, p.post("/destinations/dst_1/delete").Status)
		require.Equal(t, "Acme", p.auditOf("destination.delete")[0].Before["name"])
		require.Equal(t, http.StatusSeeOther, p.post("/tokens/tok_1/revoke").Status)
		require.Len(t, p.auditOf("token.revoke"), 1)
		require.Equal(t, http.StatusSeeOther, p.post("/logout").Status)

		var log string
		require.NoError(t, p.pool.QueryRow(t.Context(), "SELECT string_agg(audit::text, ' ') FROM audit").Scan(&log))
		require.NotContains(t, log, "hunter")
		require.NotContains(t, log, secret)
		require.NotContains(t, log, token)
		require.Equal(t, []string{"person.create", "sign_in", "token.create"}, strings.Split(p.text("SELECT string_agg(action, ',' ORDER BY id) FROM (SELECT * FROM audit ORDER BY id LIMIT 3) a"), ","))
		require.Len(t, p.auditOf("sign_out"), 1)
	})

	t.Run("WithoutItsEntryThereIsNoChange", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		p.exec("INSERT INTO lane (id, name) OVERRIDING SYSTEM VALUE VALUES (1, 'l')")
		p.exec("INSERT INTO destination (id, name, url, lane_id) OVERRIDING SYSTEM VALUE VALUES (1, 'Acme', 'https://acme.example/', 1)")
		p.exec("ALTER TABLE audit ADD CONSTRAINT full_disk CHECK (action = 'sign_in') NOT VALID")
		for _, action := range []string{"/destinations/dst_1/pause", "/destinations/dst_1/rotate", "/destinations/dst_1/delete", "/tokens"} {
			require.Equal(t, http.StatusInternalServerError, p.post(action, "overlap", "1h", "name", "x", "scopes", "read").Status, action)
		}
		require.Equal(t, 1, p.count("SELECT count(*) FROM destination WHERE state = 'active'"))
		require.Equal(t, 0, p.count("SELECT count(*) FROM secret"))
		require.Equal(t, 0, p.count("SELECT count(*) FROM api_token"))
	})

	t.Run("ItIsAppendOnly", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		for _, sql := range []string{"UPDATE audit SET actor = 'Eve'", "DELETE FROM audit", "TRUNCATE audit"} {
			_, err := p.pool.Exec(t.Context(), sql)
			require.ErrorContains(t, err, "append-only", sql)
		}
		p.exec("INSERT INTO audit (at, actor_kind, actor, action) SELECT now() - n * interval '1 day', 'cli', 'old', 'x' FROM generate_series(19, 59, 10) n")
		require.Equal(t, 3, p.count("SELECT audit_prune(interval '1 day', 100)"), "nothing younger than 30 days goes")
		require.Equal(t, 2, p.count("SELECT count(*) FROM audit WHERE actor = 'old'"))
		p.server.AuditDays = 30
		require.NoError(t, p.server.Maintain(t.Context()))
		_, err := p.pool.Exec(t.Context(), "DELETE FROM audit")
		require.ErrorContains(t, err, "append-only", "pruning leaves no door open")
	})

	t.Run("FailedSignInsAreRecordedWithoutWhatWasTyped", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		visitor := p.browser()
		for _, name := range []string{"Ada", "my secret password"} {
			p.do(visitor, http.MethodPost, "/login", url.Values{"name": {name}, "password": {"wrong"}})
		}
		failed := p.auditOf("sign_in_failed")
		require.Len(t, failed, 2)
		require.Equal(t, []string{"visitor", "unknown name", ""}, []string{failed[0].Kind, failed[0].Note, failed[0].Name})
		require.Equal(t, []string{"visitor", "wrong password", "Ada", "127.0.0.1"}, []string{failed[1].Kind, failed[1].Note, failed[1].Name, failed[1].Address})
		require.Equal(t, 0, p.count("SELECT count(*) FROM audit WHERE audit::text LIKE '%secret password%'"))
	})
}

func (p *panel) text(sql string) (s string) {
	p.t.Helper()
	require.NoError(p.t, p.pool.QueryRow(p.t.Context(), sql).Scan(&s))
	return s
}

func TestRedactURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://a.example/hook":               "https://a.example/hook",
		"https://u:p@a.example/?b=1&a=2#x":     "https://u:redacted@a.example/?a=redacted&b=redacted#x",
		"https://a.example/?just-a-key":        "https://a.example/?just-a-key=redacted",
		"http://[::1:80/":                      redacted,
		"https://a.example/h?k=v;w=z&ok=%zz&b": "https://a.example/h?b=redacted",
	} {
		require.Equal(t, want, redactURL(raw), raw)
	}
}
