package web

import (
	"net/http"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbsqlc"
)

func TestSettingsPage(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.server.Settings = []Setting{{Name: "WEIR_WORKERS", Value: "1000", Doc: "how many"}, {Name: "DATABASE_URL", Value: "set, not shown", Set: true}}
	p.exec("INSERT INTO process (id, roles, beat_at) VALUES ('gone-1', '{work}', now() - interval '1 minute')")
	require.Equal(t, http.StatusOK, p.post("/destinations", "name", "Acme", "url", "http://127.0.0.1:9/", "burst", "10", "timeout", "10s", "ttl", "72h", "jitter", "20").Status)
	body := p.get("/settings").Body
	require.Contains(t, body, "No process alive has the role work or discover.", "the test's engine is web alone")
	require.Contains(t, body, "gone-1")
	require.Contains(t, body, "lost")
	require.Contains(t, body, "1 secret, 0 headers")
	require.Contains(t, body, "set, not shown")

	// A value that was sealed with a key that this process does not have.
	p.exec("UPDATE secret SET sealed = overlay(sealed placing convert_to(repeat('x', get_byte(sealed, 1)), 'UTF8') from 3)")
	require.Contains(t, p.get("/settings").Body, "missing")
}

func TestKeyLines(t *testing.T) {
	t.Parallel()
	lines := keyLines([]string{"new", "old"}, []dbsqlc.SettingCountSealedRow{{Kind: "header", KeyID: "old", Sealed: 2}, {Kind: "secret", KeyID: "new", Sealed: 3}, {Kind: "secret", KeyID: "lost", Sealed: 1}})
	require.Equal(t, []keyLine{{"new", true, true, 3, 0}, {"old", false, true, 0, 2}, {"lost", false, false, 1, 0}}, lines)
}

func TestForwardedHeadersCountOnlyFromTrustedProxies(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		p := newPanel(t)
		if trusted {
			server, err := New(Options{Pool: p.pool, Engine: p.server.Engine, Keyring: p.server.Keyring, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
			require.NoError(t, err)
			p.serve(server)
		}
		p.signIn()
		res := p.do(p.browser(), http.MethodPost, "/login", url.Values{"name": {"Ada"}, "password": {testPassword}},
			"X-Forwarded-For", "10.0.0.1, 203.0.113.77", "X-Forwarded-Proto", "https")
		require.Equal(t, http.StatusSeeOther, res.Status)
		entry := p.auditOf("sign_in")[0]
		if trusted {
			require.Contains(t, res.Header.Get("Set-Cookie"), "; Secure")
			require.Equal(t, "203.0.113.77", entry.Address, "what the trusted proxy saw, not what its client wrote")
			require.Equal(t, 1, p.count("SELECT count(*) FROM session WHERE address = '203.0.113.0/24'"))
		} else {
			require.NotContains(t, res.Header.Get("Set-Cookie"), "; Secure")
			require.Equal(t, "127.0.0.1", entry.Address)
		}
	}
}

func TestTokensExpire(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	soon := time.Now().Add(time.Hour)
	token, err := CreateTokenUntil(t.Context(), p.pool, "shop", []string{ScopeRead}, &soon)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, p.call(token, http.MethodGet, "/destinations", "").Status)
	p.exec("UPDATE api_token SET expires_at = now()")
	require.Equal(t, http.StatusUnauthorized, p.call(token, http.MethodGet, "/destinations", "").Status)
	require.Contains(t, p.get("/tokens").Body, "expired")
	past := time.Now()
	_, err = CreateTokenUntil(t.Context(), p.pool, "shop", []string{ScopeRead}, &past)
	require.ErrorContains(t, err, "a minute from now")
	require.Contains(t, p.post("/tokens", "name", "n", "scopes", "read", "days", "30").Body, "is made")
	require.Equal(t, 1, p.count("SELECT count(*) FROM api_token WHERE name = 'n' AND created_by = 'Ada' AND expires_at BETWEEN now() + interval '29 days' AND now() + interval '31 days'"))
}
