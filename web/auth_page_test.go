package web

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"weir/db"
	"weir/db/dbtest"
	"weir/jobs"
	"weir/jobs/webhook"
)

const testPassword = "correct horse battery"

// panel is a server with its own database, seen by one browser with a cookie jar.
type panel struct {
	t      *testing.T
	pool   *pgxpool.Pool
	server *Server
	url    string
	client *http.Client
	log    *strings.Builder
}

func newPanel(t *testing.T) *panel {
	t.Helper()
	return newPanelOf(t, jobs.RoleWeb)
}

// newPanelOf has an engine with these roles; with work and discover, what is published is delivered.
func newPanelOf(t *testing.T, roles ...string) *panel {
	t.Helper()
	guard := webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	pool := dbtest.Pool(t)
	ring, err := db.ParseKeyring(db.GenerateKey())
	require.NoError(t, err)
	logged := &strings.Builder{}
	log := slog.New(slog.NewTextHandler(&lockedWriter{w: logged}, nil))
	engine, err := jobs.New(jobs.Options{Pool: pool, Keyring: ring, Sender: webhook.NewSender(webhook.SenderOptions{Guard: guard}), Roles: roles})
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, engine.Stop(ctx))
	})
	server, err := New(Options{
		Pool: pool, Engine: engine, Keyring: ring, Log: log, Version: "test", Guard: guard,
	})
	require.NoError(t, err)
	p := &panel{t: t, pool: pool, log: logged}
	p.serve(server)
	return p
}

// serve answers at an address of its own, to a browser of its own.
func (p *panel) serve(server *Server) {
	web := httptest.NewServer(server.Handler())
	p.t.Cleanup(func() {
		server.CloseStreams() // else Close waits for them
		web.Close()
	})
	p.server, p.url = server, web.URL
	p.client = p.browser()
}

// browser is a client of its own, with its own cookies; it does not follow redirects.
func (p *panel) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(p.t, err)
	transport := &http.Transport{}
	p.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// lockedWriter lets the handlers of several requests log at once.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

type reply struct {
	Status   int
	Body     string
	Location string
	Header   http.Header
}

func (p *panel) do(client *http.Client, method, path string, form url.Values, header ...string) reply {
	p.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, body)
	require.NoError(p.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	require.NoError(p.t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	return reply{res.StatusCode, string(raw), res.Header.Get("Location"), res.Header}
}

func (p *panel) get(path string) reply {
	p.t.Helper()
	return p.do(p.client, http.MethodGet, path, nil)
}

func (p *panel) post(path string, pairs ...string) reply {
	p.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return p.do(p.client, http.MethodPost, path, form)
}

// invite makes the first administrator's link and returns its token.
func (p *panel) invite() string {
	p.t.Helper()
	path, err := p.server.InviteFirstAdministrator(p.t.Context())
	require.NoError(p.t, err)
	require.True(p.t, strings.HasPrefix(path, "/welcome?token="), path)
	return strings.TrimPrefix(path, "/welcome?token=")
}

func (p *panel) signIn() *panel {
	p.t.Helper()
	res := p.post("/welcome", "token", p.invite(), "name", "Ada", "password", testPassword)
	require.Equal(p.t, http.StatusSeeOther, res.Status, res.Body)
	require.Equal(p.t, "/", res.Location)
	return p
}

func (p *panel) count(sql string, args ...any) int {
	p.t.Helper()
	var n int
	require.NoError(p.t, p.pool.QueryRow(p.t.Context(), sql, args...).Scan(&n))
	return n
}

func (p *panel) exec(sql string, args ...any) {
	p.t.Helper()
	_, err := p.pool.Exec(p.t.Context(), sql, args...)
	require.NoError(p.t, err)
}

func TestWelcome(t *testing.T) {
	t.Parallel()

	t.Run("TheLinkMakesTheFirstAdministratorOnce", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t)
		token := p.invite()

		require.Contains(t, p.get("/welcome?token="+token).Body, "Create the account")
		short := p.post("/welcome", "token", token, "name", "Ada", "password", "elevenchars")
		require.Equal(t, http.StatusUnprocessableEntity, short.Status)
		require.Contains(t, short.Body, "at least 12 characters")
		require.Contains(t, short.Body, `value="Ada"`, "what was typed stays")
		require.NotContains(t, short.Body, "elevenchars")

		res := p.post("/welcome", "token", token, "name", "Ada", "password", testPassword)
		require.Equal(t, http.StatusSeeOther, res.Status)
		home := p.get("/")
		require.Equal(t, http.StatusOK, home.Status)
		require.Contains(t, home.Body, "Welcome, Ada")

		other := p.browser()
		again := p.do(other, http.MethodPost, "/welcome", url.Values{"token": {token}, "name": {"Eve"}, "password": {testPassword}})
		require.Equal(t, http.StatusGone, again.Status)
		require.Contains(t, again.Body, "has been used")
		require.Equal(t, 1, p.count("SELECT count(*) FROM operator"))
		path, err := p.server.InviteFirstAdministrator(t.Context())
		require.NoError(t, err)
		require.Empty(t, path, "with an operator there is no further link")
		require.NotContains(t, p.log.String(), token, "the log must not hold the link's token")
	})

	t.Run("OfTwoAtOnceOneWins", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t)
		tokens := []string{p.invite(), p.invite()}
		statuses := make(chan int, 4)
		for i := range 4 {
			go func() {
				res := p.do(p.browser(), http.MethodPost, "/welcome", url.Values{"token": {tokens[i%2]}, "name": {"Ada"}, "password": {testPassword}})
				statuses <- res.Status
			}()
		}
		won := 0
		for range 4 {
			if <-statuses == http.StatusSeeOther {
				won++
			}
		}
		require.Equal(t, 1, won)
		require.Equal(t, 1, p.count("SELECT count(*) FROM operator"))
	})

	t.Run("AnExpiredLinkSaysHowToGetANewOne", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t)
		token := p.invite()
		p.exec("UPDATE invitation SET expires_at = now() - interval '1 second'")
		res := p.get("/welcome?token=" + token)
		require.Equal(t, http.StatusGone, res.Status)
		require.Contains(t, res.Body, "has expired")
		require.Contains(t, res.Body, "restart <code>weir serve</code>")
	})
}

func TestSignIn(t *testing.T) {
	t.Parallel()

	t.Run("AWrongPasswordAndAnUnknownNameLookAlike", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		visitor := p.browser()
		try := func(name, password string) reply {
			return p.do(visitor, http.MethodPost, "/login", url.Values{"name": {name}, "password": {password}, "next": {"/deliveries"}})
		}
		wrong, unknown := try("Ada", "not the password"), try("Bob", "not the password")
		require.Equal(t, http.StatusUnprocessableEntity, wrong.Status)
		require.Equal(t, wrong.Status, unknown.Status)
		strip := func(body, name string) string {
			_, rest, _ := strings.Cut(body, "<main")
			return strings.ReplaceAll(rest, name, "")
		}
		require.Equal(t, strip(wrong.Body, "Ada"), strip(unknown.Body, "Bob"))

		right := try("Ada", testPassword)
		require.Equal(t, http.StatusSeeOther, right.Status)
		require.Equal(t, "/deliveries", right.Location)
		cookie := right.Header.Get("Set-Cookie")
		require.Contains(t, cookie, "HttpOnly")
		require.Contains(t, cookie, "SameSite=Lax")
		require.Equal(t, 0, p.count("SELECT count(*) FROM session WHERE token_hash = $1", strings.SplitN(strings.TrimPrefix(cookie, "weir_session="), ";", 2)[0]))

		require.Equal(t, http.StatusSeeOther, p.do(visitor, http.MethodPost, "/logout", url.Values{}).Status)
		require.Equal(t, "/login?next=%2Fdeliveries", p.do(visitor, http.MethodGet, "/deliveries", nil).Location)
	})

	t.Run("TenWrongInARowLockTheAccount", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		for range 10 {
			_, ok, err := p.server.authenticate(t.Context(), "Ada", "not the password")
			require.NoError(t, err)
			require.False(t, ok)
		}
		_, ok, err := p.server.authenticate(t.Context(), "Ada", testPassword)
		require.NoError(t, err)
		require.False(t, ok, "locked: the right password does not open it either")
		require.Equal(t, 1, p.count("SELECT count(*) FROM operator WHERE locked_until BETWEEN now() + interval '50 s' AND now() + interval '61 s'"))

		p.exec("UPDATE operator SET locked_until = now()")
		_, ok, err = p.server.authenticate(t.Context(), "Ada", "not the password")
		require.NoError(t, err)
		require.False(t, ok)
		require.Equal(t, 1, p.count("SELECT count(*) FROM operator WHERE locked_until > now() + interval '110 s'"), "the next lock is twice as long")

		p.exec("UPDATE operator SET locked_until = now()")
		_, ok, err = p.server.authenticate(t.Context(), "Ada", testPassword)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, 0, p.count("SELECT failures FROM operator"))
	})

	t.Run("AnAddressHasTwentyTriesAtOnce", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t)
		last := reply{}
		for range 22 {
			last = p.post("/login", "name", "", "password", "x")
		}
		require.Equal(t, http.StatusTooManyRequests, last.Status)
		require.NotEmpty(t, last.Header.Get("Retry-After"))
	})

	t.Run("ItNeverLeadsElsewhere", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		for _, next := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "javascript:alert(1)", "/\t/evil.example", "evil"} {
			require.Equal(t, "/", p.get("/login?next="+url.QueryEscape(next)).Location, next)
		}
		require.Equal(t, "/deliveries?state=retrying", p.get("/login?next="+url.QueryEscape("/deliveries?state=retrying")).Location)
	})
}

func TestForeignRequests(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.exec("INSERT INTO lane (id, name) VALUES (1, 'l')")
	p.exec("INSERT INTO destination (id, name, url, lane_id) VALUES (1, 'Acme', 'https://acme.example/', 1)")
	p.exec("INSERT INTO api_token (name, token_hash, hint, scopes) VALUES ('t', sha256('t'), 'abcd', '{read}')")

	actions := []string{
		"/logout", "/destinations/dst_1/pause", "/destinations/dst_1/resume", "/destinations/dst_1/delete", "/destinations/dst_1/rotate",
		"/destinations/dst_1/test", "/deliveries/dlv_1/replay", "/tokens/tok_1/revoke",
	}
	for _, path := range append(actions, "/login", "/welcome", "/destinations", "/tokens", "/destinations/dst_1") {
		res := p.do(p.client, http.MethodPost, path, url.Values{"name": {"x"}}, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		require.Equal(t, http.StatusForbidden, res.Status, path)
	}
	for _, path := range actions {
		require.Equal(t, http.StatusMethodNotAllowed, p.get(path).Status, path)
	}
	require.Equal(t, 1, p.count("SELECT count(*) FROM destination WHERE state = 'active' AND version = 1"))
	require.Equal(t, 0, p.count("SELECT count(*) FROM secret"))
	require.Equal(t, 1, p.count("SELECT count(*) FROM api_token WHERE revoked_at IS NULL"))
	require.Equal(t, http.StatusOK, p.get("/").Status, "still signed in")

	// A form sent after the session ended says so, and leads back.
	p.exec("DELETE FROM session")
	res := p.do(p.client, http.MethodPost, "/destinations/dst_1/pause", url.Values{"reason": {"x"}}, "Referer", p.url+"/destinations/dst_1")
	require.Equal(t, "/login?next=%2Fdestinations%2Fdst_1", res.Location)
	require.Contains(t, p.get(res.Location).Body, "so nothing was done")
	require.Equal(t, http.StatusUnauthorized, p.do(p.client, http.MethodGet, "/", nil, fragmentHeader, "1").Status)
	require.Equal(t, 1, p.count("SELECT count(*) FROM destination WHERE state = 'active'"))
}

func TestHeadersOfAPage(t *testing.T) {
	t.Parallel()
	p := newPanel(t)
	res := p.get("/login")
	csp := res.Header.Get("Content-Security-Policy")
	require.Contains(t, csp, "default-src 'none'")
	require.NotContains(t, csp, "unsafe")
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	require.NotContains(t, res.Body, "style=")
	require.NotContains(t, res.Body, "onclick")
	_, rest, _ := strings.Cut(res.Body, `href="/static/app.`)
	name, _, _ := strings.Cut(rest, `"`)
	sheet := p.get("/static/app." + name)
	require.Equal(t, http.StatusOK, sheet.Status)
	require.Contains(t, sheet.Header.Get("Cache-Control"), "immutable")
	require.Equal(t, http.StatusNotFound, p.get("/static/app.css").Status)
	require.Equal(t, http.StatusNotFound, p.get("/nothing/here").Status)
}
