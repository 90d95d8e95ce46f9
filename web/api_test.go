package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"weir/db"
	"weir/db/dbfactory"
	"weir/db/dbtest"
	"weir/jobs"
	"weir/jobs/webhook"
)

// apiBundle is a whole server over real HTTP, with a token of every scope, and a receiver that answers what the test says.
type apiBundle struct {
	pool     *pgxpool.Pool
	engine   *jobs.Engine
	keyring  *db.Keyring
	server   *Server
	url      string
	admin    string
	read     string
	publish  string
	receiver *httptest.Server
	status   atomic.Int32
	serial   atomic.Int32
}

func setupAPI(t *testing.T) *apiBundle {
	t.Helper()
	b := &apiBundle{pool: dbtest.Pool(t), keyring: dbfactory.Keyring(t)}
	b.status.Store(http.StatusOK)
	b.receiver = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(int(b.status.Load()))
		_, _ = io.WriteString(w, "<b>answer</b>")
	}))
	t.Cleanup(b.receiver.Close)

	guard := webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	var err error
	b.engine, err = jobs.New(jobs.Options{
		Pool: b.pool, Keyring: b.keyring, Sender: webhook.NewSender(webhook.SenderOptions{Guard: guard}), Log: log, Workers: 50, DiscoveryInterval: time.Hour,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, b.engine.Stop(ctx))
	})
	b.server, err = New(Options{Pool: b.pool, Engine: b.engine, Keyring: b.keyring, Guard: guard, Log: log})
	require.NoError(t, err)
	listener := httptest.NewServer(b.server.Handler())
	t.Cleanup(listener.Close)
	b.url = listener.URL

	for scope, into := range map[string]*string{ScopeAdmin: &b.admin, ScopeRead: &b.read, ScopePublish: &b.publish} {
		*into, err = CreateToken(t.Context(), b.pool, scope, []string{scope})
		require.NoError(t, err)
	}
	return b
}

// work starts the engine; without it nothing is sent.
func (b *apiBundle) work(t *testing.T) {
	t.Helper()
	require.NoError(t, b.engine.Start(t.Context()))
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) field(t *testing.T, path string) any {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal(a.body, &value), "%s", a.body)
	for part := range strings.SplitSeq(path, ".") {
		switch at := value.(type) {
		case map[string]any:
			value = at[part]
		case []any:
			var i int
			_, err := fmt.Sscan(part, &i)
			require.NoError(t, err)
			require.Less(t, i, len(at), "%s", a.body)
			value = at[i]
		default:
			require.Failf(t, "no such field", "%s in %s", path, a.body)
		}
	}
	return value
}

func (b *apiBundle) call(t *testing.T, token, method, path, body string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(body))
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{response.StatusCode, response.Header, raw}
}

func (b *apiBundle) do(t *testing.T, method, path, body string) answer {
	t.Helper()
	return b.call(t, b.admin, method, "/api/v1"+path, body)
}

// ok is do for a call that has to answer this status.
func (b *apiBundle) ok(t *testing.T, status int, method, path, body string) answer {
	t.Helper()
	a := b.do(t, method, path, body)
	require.Equal(t, status, a.status, "%s %s: %s", method, path, a.body)
	return a
}

// refused is do for a call whose problem has to name this field.
func (b *apiBundle) refused(t *testing.T, method, path, body, field, says string) answer {
	t.Helper()
	a := b.ok(t, http.StatusBadRequest, method, path, body)
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	require.Equal(t, field, a.field(t, "errors.0.field"), "%s", a.body)
	require.Contains(t, a.field(t, "errors.0.message"), says)
	require.Contains(t, a.field(t, "detail"), field)
	return a
}

func (b *apiBundle) destination(t *testing.T, extra string) string {
	t.Helper()
	a := b.ok(t, 201, "POST", "/destinations", fmt.Sprintf(`{"name": "Destination %d", "url": %q%s}`, b.serial.Add(1), b.receiver.URL+"/hook", extra))
	return a.field(t, "id").(string)
}

func TestAPI(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)

	t.Run("describes itself, and the description names every operation", func(t *testing.T) {
		a := b.call(t, "", "GET", "/api/v1/openapi.json", "")
		require.Equal(t, 200, a.status)
		require.Contains(t, a.field(t, "openapi"), "3.1")
		for _, path := range []string{"/events", "/events/batch", "/events/{id}", "/events/{id}/payload", "/destinations", "/destinations/{id}/secrets/rotate",
			"/lanes/{id}", "/deliveries", "/replays", "/discovery/runs", "/discovery/refused", "/tokens/{id}"} {
			require.Contains(t, a.field(t, "paths"), path)
		}
		require.NotContains(t, string(a.body), "$schema")
		require.Contains(t, a.field(t, "paths./destinations.post.requestBody.content.application/json"), "schema")
	})

	t.Run("asks for a token, and for the right scope", func(t *testing.T) {
		a := b.call(t, "", "GET", "/api/v1/events", "")
		require.Equal(t, 401, a.status)
		require.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer")
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
		for _, wrong := range []string{"weir_nonsense", "x", strings.Repeat("weir_", 1000), b.admin + "x"} {
			require.Equal(t, 401, b.call(t, wrong, "GET", "/api/v1/events", "").status)
		}
		for _, c := range []struct {
			token, method, path string
			status              int
		}{
			{b.publish, "GET", "/events", 403}, {b.read, "GET", "/events", 200}, {b.admin, "GET", "/events", 200},
			{b.read, "POST", "/events", 403}, {b.read, "POST", "/events/batch", 403}, {b.publish, "POST", "/events/batch", 200},
			{b.read, "POST", "/destinations", 403}, {b.publish, "POST", "/destinations", 403}, {b.read, "GET", "/tokens", 403},
			{b.read, "POST", "/replays", 403}, {b.read, "PATCH", "/lanes/lane_1", 403}, {b.read, "GET", "/lanes", 200},
		} {
			require.Equal(t, c.status, b.call(t, c.token, c.method, "/api/v1"+c.path, "").status, "%s %s", c.method, c.path)
		}
	})

	t.Run("answers problems for what is not there and what is not allowed", func(t *testing.T) {
		for path, status := range map[string]int{"/api": 404, "/api/v1": 404, "/api/v1/nothing": 404, "/api/v1/events/a/b/c": 404} {
			a := b.call(t, b.admin, "GET", path, "")
			require.Equal(t, status, a.status, path)
			require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), path)
			require.InDelta(t, status, a.field(t, "status"), 0)
		}
		a := b.call(t, b.admin, "PUT", "/api/v1/events", "{}")
		require.Equal(t, 405, a.status)
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	})

	t.Run("answers 404 to ids that cannot be, and never 500", func(t *testing.T) {
		for _, id := range []string{"dst_", "dst_99999999999999999999", "dst_-1", "dst_0", "dst_01", "dlv_x", "dst_1%00", "%FF", "'", "dst_999", "lane_1x"} {
			for _, path := range []string{"/destinations/", "/lanes/", "/deliveries/", "/replays/", "/events/"} {
				require.Equal(t, 404, b.do(t, "GET", path+id, "").status, path+id)
			}
		}
	})

	t.Run("answers 400 to parameters that cannot be, and never 500", func(t *testing.T) {
		for _, query := range []string{"limit=0", "limit=-1", "limit=1000000", "limit=x", "limit=99999999999999999999", "cursor=x", "cursor=aTE", "cursor=aS0x",
			"state=nope", "subject=%00", "subject=%FF", "event=%00", "destination=dst_x", "destination=1"} {
			a := b.do(t, "GET", "/deliveries?"+query, "")
			want := 400
			if query == "cursor=aTE" { // i1: a real cursor, of a row that is long gone
				want = 200
			}
			require.Equal(t, want, a.status, "%s: %s", query, a.body)
		}
		for _, query := range []string{"type=%00", "tenant=%FF", "subject=%01", "cursor=..", "limit=201"} {
			require.Equal(t, 400, b.do(t, "GET", "/events?"+query, "").status, query)
		}
		for _, query := range []string{"subject='", "page=-1", "sort=drop", "event=nothing"} {
			require.Equal(t, 200, b.do(t, "GET", "/deliveries?"+query, "").status, query)
		}
		for _, list := range []string{"/events", "/destinations", "/lanes", "/discovery/runs", "/discovery/refused", "/tokens"} {
			require.Equal(t, 400, b.do(t, "GET", list+"?limit=0", "").status, list)
			require.Equal(t, 200, b.do(t, "GET", list+"?limit=1", "").status, list)
			require.Equal(t, 400, b.do(t, "GET", list+"?cursor=x", "").status, list)
		}
		require.Equal(t, 400, b.do(t, "GET", "/destinations?search=%00", "").status)
		require.Equal(t, 200, b.do(t, "GET", "/destinations?search=%25_'", "").status)
	})

	t.Run("names the field of a body that cannot be taken, and does not repeat it", func(t *testing.T) {
		for body, field := range map[string]string{
			`{"name": 5}`: "name", `{"lane": {"rate": "s3cret"}}`: "lane.rate", `{"lane": {"max_in_flight": 1.5}}`: "lane.max_in_flight",
			`{"subscriptions": {}}`: "subscriptions", `{"nonsense": "s3cret"}`: "nonsense", `[]`: "body", `{"name": "s3cret`: "body", `{} s3cret`: "body",
			`{"retry": {"schedule": "s3cret"}}`: "retry.schedule", `{"headers": {"X-A": 5}}`: "headers",
		} {
			a := b.refused(t, "POST", "/destinations", body, field, "")
			require.NotContains(t, string(a.body), "s3cret", body)
		}
		require.Equal(t, 413, b.do(t, "POST", "/destinations", `{"name": "`+strings.Repeat("x", maxSmallBody)+`"}`).status)
	})
}

func TestHealth(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	require.Equal(t, 200, b.call(t, "", "GET", "/healthz", "").status)
	require.Equal(t, 200, b.call(t, "", "GET", "/readyz", "").status)

	_, err := b.pool.Exec(t.Context(), "DELETE FROM schema_migration WHERE version_id = (SELECT max(version_id) FROM schema_migration)")
	require.NoError(t, err)
	require.Equal(t, 503, b.call(t, "", "GET", "/readyz", "").status, "a migration is missing")
	require.Equal(t, 200, b.call(t, "", "GET", "/healthz", "").status)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)

	t.Run("are shown once, and kept only as a hash", func(t *testing.T) {
		a := b.ok(t, 201, "POST", "/tokens", `{"name": "ci", "scopes": ["read", "publish", "read"]}`)
		text := a.field(t, "token").(string)
		require.True(t, strings.HasPrefix(text, "weir_"))
		require.Equal(t, []any{"publish", "read"}, a.field(t, "scopes"))
		list := b.ok(t, 200, "GET", "/tokens", "")
		require.NotContains(t, string(list.body), text)
		require.Contains(t, string(list.body), text[len(text)-4:])
		var found bool
		require.NoError(t, b.pool.QueryRow(t.Context(),
			"SELECT EXISTS (SELECT 1 FROM api_token x WHERE strpos(x::text, $1) > 0 OR strpos(encode(x.token_hash, 'escape'), $1) > 0)", text[5:]).Scan(&found))
		require.False(t, found)
	})

	t.Run("work until they are revoked, and note their use to the minute", func(t *testing.T) {
		a := b.ok(t, 201, "POST", "/tokens", `{"name": "soon gone", "scopes": ["read"]}`)
		id, text := a.field(t, "id").(string), a.field(t, "token").(string)
		require.Equal(t, 200, b.call(t, text, "GET", "/api/v1/lanes", "").status)
		used := func() (at *time.Time) {
			require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT last_used_at FROM api_token WHERE name = 'soon gone'").Scan(&at))
			return at
		}
		first := used()
		require.NotNil(t, first)
		require.Equal(t, 200, b.call(t, text, "GET", "/api/v1/lanes", "").status)
		require.Equal(t, first, used())
		b.ok(t, 204, "DELETE", "/tokens/"+id, "")
		require.Equal(t, 401, b.call(t, text, "GET", "/api/v1/lanes", "").status)
		b.ok(t, 404, "DELETE", "/tokens/"+id, "")
	})

	t.Run("need a name and known scopes", func(t *testing.T) {
		b.refused(t, "POST", "/tokens", `{"scopes": ["read"]}`, "name", "missing")
		b.refused(t, "POST", "/tokens", `{"name": "x", "scopes": []}`, "scopes", "at least one")
		b.refused(t, "POST", "/tokens", `{"name": "x", "scopes": ["read", "root"]}`, "scopes[1]", "want publish")
		b.refused(t, "POST", "/tokens", `{"name": "a\u0000b", "scopes": ["read"]}`, "name", "control")
	})
}

func TestProblem(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := &Server{Options: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}

	p := s.problem(t.Context(), fmt.Errorf("open vault: %w", io.ErrUnexpectedEOF))
	require.Equal(t, 500, p.Status)
	require.NotContains(t, p.Detail, "vault", "what went wrong inside is not shown")
	_, id, _ := strings.Cut(p.Detail, "under ")
	require.Contains(t, log.String(), strings.TrimSuffix(id, "."), "and the log has it under the id that is shown")
	require.Contains(t, log.String(), "vault")

	p = s.problem(t.Context(), fmt.Errorf("x: %w", &http.MaxBytesError{Limit: 77}))
	require.Equal(t, 413, p.Status)
	require.Contains(t, p.Detail, "77")
}
