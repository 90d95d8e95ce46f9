package web

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/web/ui"
)

func TestRiverUI(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.server.Start(t.Context())
	p.exec(`INSERT INTO river_job (args, kind, max_attempts, queue, state) SELECT '{"delivery_id": 5, "try": 1}', 'deliver', 5, 'deliver', 'pending' FROM generate_series(1, 2)`)

	page := p.get("/river/")
	require.Equal(t, http.StatusOK, page.Status, page.Body)
	require.Contains(t, page.Body, "<title>River</title>")
	assets := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page.Body, -1)
	require.NotEmpty(t, assets)
	for _, asset := range assets {
		require.True(t, strings.HasPrefix(asset[1], "/river/"), "%s would come from elsewhere", asset[1])
		if strings.HasSuffix(asset[1], ".js") || strings.HasSuffix(asset[1], ".css") {
			require.Equal(t, http.StatusOK, p.get(asset[1]).Status, asset[1])
		}
	}
	require.Contains(t, p.get("/river/api/jobs?state=pending&limit=10").Body, `"kind":"deliver"`)
	require.Contains(t, p.get("/river/api/states").Body, `"pending":{"accuracy":"exact","count":2`)

	policy := func(client *http.Client, path string) string {
		res := p.do(client, http.MethodGet, path, nil)
		return res.Header.Get("Content-Security-Policy")
	}
	require.Contains(t, policy(p.client, "/river/"), "style-src 'self' 'unsafe-inline'")
	require.NotContains(t, policy(p.client, "/"), "unsafe")
	require.NotContains(t, policy(p.client, "/river/"), "script-src 'self' 'unsafe")

	for _, role := range []ui.Role{ui.Viewer, ui.Operator} {
		require.Equal(t, http.StatusForbidden, p.do(p.as(role, role.String()), http.MethodGet, "/river/api/jobs", nil).Status)
	}
	require.True(t, strings.HasPrefix(p.do(p.browser(), http.MethodGet, "/river/api/jobs", nil).Location, "/login"))
}

func TestRiverUIIsAudited(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.exec(`INSERT INTO river_job (id, args, kind, max_attempts, queue, state) VALUES (77, '{"delivery_id": 5, "try": 1}', 'deliver', 5, 'deliver', 'available')`)
	post := func(path, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		res, err := p.client.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	require.Equal(t, http.StatusOK, post("/river/api/jobs/cancel", `{"ids":["77"]}`))
	require.Equal(t, 1, p.count("SELECT count(*) FROM river_job WHERE id = 77 AND state = 'cancelled'"))
	require.Equal(t, 1, p.count("SELECT count(*) FROM audit WHERE action = 'job.cancel' AND object_kind = 'job' AND object_id = '77' AND actor_kind = 'operator' AND note = 'asked of River for 1: 77'"))
	require.NotEqual(t, http.StatusOK, post("/river/api/nothing", `{}`))
	require.Equal(t, 0, p.count("SELECT count(*) FROM audit WHERE action LIKE 'nothing%'"))
}
