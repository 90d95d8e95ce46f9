package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/web/ui"
)

// as is a browser of somebody with the role, signed in.
func (p *panel) as(role ui.Role, name string) *http.Client {
	p.t.Helper()
	hash, err := p.server.hashPassword(p.t.Context(), testPassword)
	require.NoError(p.t, err)
	p.exec("INSERT INTO operator (name, password_hash, role) VALUES ($1, $2, $3)", name, hash, role.String())
	client := p.browser()
	res := p.do(client, http.MethodPost, "/login", url.Values{"name": {name}, "password": {testPassword}})
	require.Equal(p.t, http.StatusSeeOther, res.Status, res.Body)
	return client
}

var pathParameter = regexp.MustCompile(`:[a-z_]+|\{[a-z_]+\}`)

// somewhere puts something that can be an id, and belongs to nothing, in place of a route's parameters.
func somewhere(path string) string {
	prefix := "dst_"
	for part, of := range map[string]string{"deliveries": idDelivery, "tokens": idToken, "lanes": idLane, "replays": idReplay} {
		if strings.Contains(path, "/"+part) {
			prefix = of
		}
	}
	return pathParameter.ReplaceAllString(path, prefix+"987654321")
}

// Every address of the panel, with every role: it is refused to whoever has less than its role, and to nobody else.
func TestEveryRouteAsksForItsRole(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()

	known := []string{"GET /login", "POST /login", "GET /welcome", "POST /welcome", "POST /logout", "GET /static/*", "GET /favicon.ico", "GET /healthz", "GET /readyz", "GET /metrics"}
	for _, r := range p.server.panelRoutes() {
		require.NotEqual(t, ui.Nobody, r.least, "%s %s asks for no role", r.method, r.path)
		known = append(known, r.method+" "+r.path)
	}
	for _, r := range p.server.echo.Routes() {
		if isAPI(r.Path) || strings.HasPrefix(r.Method, "echo_") {
			continue
		}
		require.Contains(t, known, r.Method+" "+r.Path, "a route outside panelRoutes asks for no role")
	}

	visitor := p.browser()
	for _, r := range p.server.panelRoutes() {
		res := p.do(visitor, r.method, somewhere(r.path), formFor(r.method))
		require.Equal(t, http.StatusSeeOther, res.Status, "%s %s", r.method, r.path)
		require.True(t, strings.HasPrefix(res.Location, "/login"), "%s %s: %s", r.method, r.path, res.Location)
	}
	for _, role := range ui.Roles {
		client := p.as(role, "a "+role.String())
		for _, r := range p.server.panelRoutes() {
			res := p.do(client, r.method, somewhere(r.path), formFor(r.method))
			what := role.String() + ": " + r.method + " " + r.path
			if role < r.least {
				require.Equal(t, http.StatusForbidden, res.Status, what)
				require.Contains(t, res.Body, "needs the role "+r.least.String(), what)
				continue
			}
			require.NotEqual(t, http.StatusForbidden, res.Status, what)
			require.Less(t, res.Status, http.StatusInternalServerError, what)
			require.False(t, strings.HasPrefix(res.Location, "/login"), what)
		}
	}
}

func formFor(method string) url.Values {
	if method == http.MethodPost {
		return url.Values{}
	}
	return nil
}

// What somebody may not do is not offered.
func TestPagesOfferWhatTheRoleMayDo(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	p.exec("INSERT INTO lane (id, name) VALUES (1, 'l')")
	p.exec("INSERT INTO destination (id, name, url, lane_id) VALUES (1, 'Acme', 'https://acme.example/', 1)")
	viewer, operator, administrator := p.as(ui.Viewer, "Vera"), p.as(ui.Operator, "Otto"), p.as(ui.Administrator, "Anna")
	for _, page := range []string{"/", "/destinations", "/destinations/dst_1", "/deliveries", "/discovery"} {
		for _, action := range regexp.MustCompile(`(?:action|href)="(/[^"]*)"`).FindAllStringSubmatch(p.do(viewer, http.MethodGet, page, nil).Body, -1) {
			require.NotRegexp(t, `/(pause|resume|test|rotate|delete|edit|new|replay|people|tokens|settings|audit)$`, action[1], page)
		}
	}
	page := p.do(operator, http.MethodGet, "/destinations/dst_1", nil).Body
	require.Contains(t, page, "/destinations/dst_1/pause")
	require.NotContains(t, page, "/destinations/dst_1/rotate")
	require.Contains(t, p.do(administrator, http.MethodGet, "/destinations/dst_1", nil).Body, "/destinations/dst_1/rotate")

	// A role that was changed counts from the next request on.
	p.exec("UPDATE operator SET role = 'viewer' WHERE name = 'Otto'")
	require.Equal(t, http.StatusForbidden, p.do(operator, http.MethodPost, "/destinations/dst_1/pause", url.Values{}).Status)
	p.exec("UPDATE operator SET deactivated_at = now() WHERE name = 'Otto'")
	require.Equal(t, "/login?next=%2Fdestinations", p.do(operator, http.MethodGet, "/destinations", nil).Location)
	require.Equal(t, 1, p.count("SELECT count(*) FROM destination WHERE state = 'active'"))
}

// Every operation of the OpenAPI document, with a token of every scope: it is refused to whoever lacks the scope that the document names,
// and to nobody else.
func TestEveryOperationAsksForItsScope(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	operate, err := CreateToken(t.Context(), b.pool, "operate", []string{ScopeOperate})
	require.NoError(t, err)
	tokens := map[string]string{ScopePublish: b.publish, ScopeRead: b.read, ScopeOperate: operate, ScopeAdmin: b.admin}

	var document struct {
		Paths map[string]map[string]struct {
			Security []map[string][]string `json:"security"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(b.call(t, "", http.MethodGet, apiPrefix+"/openapi.json", "").body, &document))
	require.Greater(t, len(document.Paths), 15)
	asked := map[string]int{}
	for path, operations := range document.Paths {
		for method, op := range operations {
			what := strings.ToUpper(method) + " " + path
			require.Len(t, op.Security, 1, what)
			wanted := op.Security[0]["token"]
			require.Len(t, wanted, 1, what)
			require.True(t, slices.Contains(scopes, wanted[0]), what)
			asked[wanted[0]]++
			target, method := apiPrefix+somewhere(path), strings.ToUpper(method)
			body := ""
			if method == http.MethodPost || method == http.MethodPatch {
				body = `{"no_such_field": 1}`
			}
			require.Equal(t, http.StatusUnauthorized, b.call(t, "", method, target, body).status, what)
			for scope, token := range tokens {
				res := b.call(t, token, method, target, body)
				if scope == wanted[0] || scope == ScopeAdmin {
					require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, res.status, "%s with %s", what, scope)
					require.Less(t, res.status, http.StatusInternalServerError, "%s with %s: %s", what, scope, res.body)
				} else {
					require.Equal(t, http.StatusForbidden, res.status, "%s with %s", what, scope)
				}
			}
		}
	}
	for _, scope := range scopes {
		require.Positive(t, asked[scope], "no operation asks for %s", scope)
	}
}
