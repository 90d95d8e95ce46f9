package web

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// destinationFields are a form that is right, with changes.
func destinationFields(change ...string) url.Values {
	form := url.Values{
		"name": {"Acme warehouse"}, "url": {"http://127.0.0.1:9/hook"}, "subscriptions": {"shipment.*\r\ncustoms.cleared tenant=acme\r\n"}, "rate": {"5"},
		"burst": {"2"}, "max_in_flight": {""}, "timeout": {"15s"}, "ttl": {"24h"}, "schedule": {"5s 30s, 5m"}, "jitter": {"10"},
		"responses": {"409 delivered\n404 retry"}, "headers": {"X-Api-Key: top-secret-value"}, "tenant": {""},
	}
	for i := 0; i+1 < len(change); i += 2 {
		form.Set(change[i], change[i+1])
	}
	return form
}

var secretText = regexp.MustCompile(`whsec_[A-Za-z0-9+/=]+`)

func TestDestinationPages(t *testing.T) {
	t.Parallel()

	t.Run("OneIsMadeItsSecretShownOnceChangedAndDeleted", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		require.Contains(t, p.get("/destinations").Body, "Add a destination")

		made := p.do(p.client, http.MethodPost, "/destinations", destinationFields())
		require.Equal(t, http.StatusOK, made.Status, made.Body)
		secret := secretText.FindString(made.Body)
		require.NotEmpty(t, secret)
		require.Contains(t, made.Body, "shows it once")

		for _, path := range []string{"/destinations", "/destinations/dst_1", "/destinations/dst_1/edit", "/"} {
			page := p.get(path)
			require.Equal(t, http.StatusOK, page.Status, path)
			require.NotContains(t, page.Body, secret, path)
			require.NotContains(t, page.Body, "top-secret-value", path)
		}
		detail := p.get("/destinations/dst_1").Body
		require.Contains(t, detail, "…"+secret[len(secret)-4:])
		require.Contains(t, detail, "5/s, burst 2")
		require.Contains(t, detail, "5s · 30s · 5m")
		require.Contains(t, detail, "customs.cleared tenant=acme")
		require.Contains(t, detail, "X-Api-Key")

		// Saving what the form shows changes nothing that it does not show: the header's value, and what the lane has spent.
		p.exec("UPDATE lane SET tat_us = 4102444800000000")
		edit := destinationFields("name", "Acme west", "headers", "", "shown_subscriptions", "shipment.*\ncustoms.cleared tenant=acme")
		edit.Set("keep", "X-Api-Key")
		saved := p.do(p.client, http.MethodPost, "/destinations/dst_1", edit)
		require.Equal(t, http.StatusSeeOther, saved.Status, saved.Body)
		require.Equal(t, 1, p.count("SELECT count(*) FROM header"))
		require.Equal(t, 2, p.count("SELECT count(*) FROM subscription"))
		require.Equal(t, 1, p.count("SELECT count(*) FROM lane WHERE tat_us = 4102444800000000"), "an unchanged budget forgives nothing")
		require.Contains(t, p.get("/destinations/dst_1").Body, "Acme west")

		rotated := p.post("/destinations/dst_1/rotate", "overlap", "24h")
		require.Equal(t, http.StatusOK, rotated.Status, rotated.Body)
		require.NotEqual(t, secret, secretText.FindString(rotated.Body))
		require.Contains(t, p.post("/destinations/dst_1/rotate", "overlap", "soon").Location, "/destinations/dst_1")
		require.Contains(t, p.get("/destinations/dst_1").Body, "Nothing was done")

		require.Equal(t, "/destinations/dst_1", p.post("/destinations/dst_1/pause", "reason", "maintenance").Location)
		require.Contains(t, p.get("/destinations/dst_1").Body, "maintenance")
		require.Equal(t, "/destinations/dst_1", p.post("/destinations/dst_1/pause", "reason", "again").Location)
		require.Contains(t, p.get("/destinations/dst_1").Body, "Nothing was done", "no action answers ok that did nothing")
		require.Equal(t, "/destinations/dst_1", p.post("/destinations/dst_1/resume").Location)

		test := p.post("/destinations/dst_1/test")
		require.True(t, strings.HasPrefix(test.Location, "/destinations/dst_1/tests/dlv_"), test.Location)
		require.Contains(t, p.get(test.Location).Body, "weir.test")

		require.Equal(t, "/destinations", p.post("/destinations/dst_1/delete").Location)
		require.Equal(t, http.StatusNotFound, p.get("/destinations/dst_1").Status)
		require.NotContains(t, p.log.String(), "top-secret-value")
		require.NotContains(t, p.log.String(), secret)
	})

	t.Run("WhatIsWrongIsSaidBesideTheFieldAndTheInputKept", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		for _, tc := range []struct{ field, value, says string }{
			{"name", "", "Is missing."},
			{"url", "javascript:alert(1)", ""},
			{"url", "https://user:pw@acme.example/", ""},
			{"rate", "fast", "Want a number"},
			{"rate", "0", "pause the destination"},
			{"burst", "0", "Want 1 to 1000000."},
			{"max_in_flight", "-1", "Want 1 to 10000"},
			{"timeout", "2h", "Want 1s to 1m."},
			{"ttl", "soon", "Want a duration"},
			{"schedule", "5s later", "Entry 2: want a duration"},
			{"jitter", "101", "Want 0 to 100."},
			{"responses", "409 delivered\n999x maybe", "Line 2:"},
			{"subscriptions", "shipment.*\nno such thing at all", "Line 2:"},
			{"headers", "webhook-id: x", "webhook-id"},
			{"headers", "nonsense", "Line 1: want a name"},
			{"tenant", "a/b", "slash"},
			{"secret", "short", ""},
		} {
			res := p.do(p.client, http.MethodPost, "/destinations", destinationFields(tc.field, tc.value))
			require.Equal(t, http.StatusUnprocessableEntity, res.Status, "%s=%q: %s", tc.field, tc.value, res.Body)
			require.Contains(t, res.Body, `id="`+tc.field+`-error"`, "%s=%q", tc.field, tc.value)
			require.Contains(t, res.Body, `href="#`+tc.field+`"`, "%s=%q", tc.field, tc.value)
			require.Contains(t, res.Body, tc.says, "%s=%q", tc.field, tc.value)
			require.Contains(t, res.Body, "5s 30s", "the rest of the input is kept")
		}
		require.Equal(t, 0, p.count("SELECT count(*) FROM destination"))

		require.Equal(t, http.StatusOK, p.do(p.client, http.MethodPost, "/destinations", destinationFields()).Status)
		taken := p.do(p.client, http.MethodPost, "/destinations", destinationFields())
		require.Equal(t, http.StatusUnprocessableEntity, taken.Status)
		require.Contains(t, taken.Body, "Another destination has this name.")
	})
}

func TestTokenPage(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	require.Equal(t, http.StatusUnprocessableEntity, p.post("/tokens", "name", "app").Status, "a token needs a scope")
	made := p.post("/tokens", "name", "app", "scopes", "publish", "scopes", "read")
	require.Equal(t, http.StatusOK, made.Status)
	token := regexp.MustCompile(`weir_[A-Za-z0-9_-]{43}`).FindString(made.Body)
	require.NotEmpty(t, token)
	list := p.get("/tokens").Body
	require.NotContains(t, list, token)
	require.Contains(t, list, "…"+token[len(token)-4:])

	use := func() int {
		return p.do(p.browser(), http.MethodGet, "/api/v1/destinations", nil, "Authorization", "Bearer "+token).Status
	}
	require.Equal(t, http.StatusOK, use())
	require.Equal(t, "/tokens", p.post("/tokens/tok_1/revoke").Location)
	require.Equal(t, http.StatusUnauthorized, use())
	require.Equal(t, http.StatusNotFound, p.post("/tokens/tok_1/revoke").Status)
}
