package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/jobs"
	"weir/jobs/webhook"
)

func TestDestination(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	url := b.receiver.URL + "/hook"

	t.Run("has the defaults where a field is left out", func(t *testing.T) {
		a := b.ok(t, 201, "POST", "/destinations", fmt.Sprintf(`{"name": " Acme ", "url": " %s "}`, url))
		var d createdDestination
		require.NoError(t, json.Unmarshal(a.body, &d))
		require.Equal(t, "/api/v1/destinations/"+d.ID, a.header.Get("Location"))
		require.Equal(t, "Acme", d.Name)
		require.Equal(t, url, d.URL)
		require.Equal(t, "active", d.State)
		require.InDelta(t, 10, *d.Lane.Rate, 0)
		require.EqualValues(t, 10, d.Lane.Burst)
		require.EqualValues(t, 4, *d.Lane.MaxInFlight)
		require.Equal(t, []Subscription{{Types: []string{"*"}}}, d.Subscriptions)
		require.Equal(t, Retry{[]string{"5s", "30s", "5m", "30m", "2h", "6h", "12h"}, 0.2}, d.Retry)
		require.Equal(t, []string{"10s", "72h", "all"}, []string{d.Timeout, d.TTL, d.Ordering})
		require.Empty(t, d.Warnings)
		require.Empty(t, d.Responses)
	})

	t.Run("keeps what is given, an empty schedule and zero waits included", func(t *testing.T) {
		a := b.ok(t, 201, "POST", "/destinations", fmt.Sprintf(`{"name": "whole", "url": %q, "tenant": "acme",
			"lane": {"name": "Acme account", "rate": 0.1, "burst": 3, "max_in_flight": null},
			"subscriptions": [{"types": ["shipment.*", "order.paid"], "tenant": "acme", "filter": null}],
			"timeout": "1500ms", "ttl": "90m", "ordering": "latest", "retry": {"schedule": [], "jitter": 0},
			"responses": [{"status": "409", "verdict": "delivered"}], "headers": {"X-Api-Key": "hidden-value"}}`, url))
		require.Equal(t, "Acme account", a.field(t, "lane.name"))
		require.InDelta(t, 0.1, a.field(t, "lane.rate"), 0)
		require.Nil(t, a.field(t, "lane.max_in_flight"))
		require.Empty(t, a.field(t, "retry.schedule"))
		require.Equal(t, "1.5s", a.field(t, "timeout"))
		require.Equal(t, "1h30m", a.field(t, "ttl"))
		require.Equal(t, "shipment.*", a.field(t, "subscriptions.0.types.0"))
		require.Equal(t, "acme", a.field(t, "subscriptions.0.tenant"))
		require.Equal(t, "409", a.field(t, "responses.0.status"))
		require.NotContains(t, string(a.body), "hidden-value")

		a = b.ok(t, 201, "POST", "/destinations", fmt.Sprintf(`{"name": "at once", "url": %q, "lane": {"rate": null}, "retry": {"schedule": ["0s", "0s"]}}`, url))
		require.Equal(t, []any{"0s", "0s"}, a.field(t, "retry.schedule"))
		require.Nil(t, a.field(t, "lane.rate"))
	})

	t.Run("is refused with the path of the first field that is wrong", func(t *testing.T) {
		for _, c := range []struct{ body, field, says string }{
			{`{"url": "URL"}`, "name", "missing"},
			{`{"name": "  ", "url": "URL"}`, "name", "missing"},
			{`{"name": "a\u0000b", "url": "URL"}`, "name", "control"},
			{`{"name": "x"}`, "url", "missing"},
			{`{"name": "x", "url": "ftp://rx/"}`, "url", "https"},
			{`{"name": "x", "url": "https://rx.example.test/#x"}`, "url", "fragment"},
			{`{"name": "x", "url": "https://hookuser:hookpass@rx.example.test/in"}`, "url", "header"},
			{`{"name": "x", "url": "http://10.0.0.1/"}`, "url", "WEIR_ALLOW_NETWORKS"},
			{`{"name": "x", "url": "https://rx.example.test/` + strings.Repeat("a", 1990) + `"}`, "url", "longer"},
			{`{"name": "x", "url": "URL", "tenant": ""}`, "tenant", "null"},
			{`{"name": "x", "url": "URL", "lane": {"rate": 0}}`, "lane.rate", "pause the destination instead"},
			{`{"name": "x", "url": "URL", "lane": {"rate": -1}}`, "lane.rate", "want"},
			{`{"name": "x", "url": "URL", "lane": {"rate": 1e9}}`, "lane.rate", "want"},
			{`{"name": "x", "url": "URL", "lane": {"burst": 0}}`, "lane.burst", "want"},
			{`{"name": "x", "url": "URL", "lane": {"max_in_flight": 0}}`, "lane.max_in_flight", "pause"},
			{`{"name": "x", "url": "URL", "lane": {"id": "lane_99999"}}`, "lane.id", "no such lane"},
			{`{"name": "x", "url": "URL", "lane": {"id": "garbage"}}`, "lane.id", "want the id"},
			{`{"name": "x", "url": "URL", "lane": {"id": "lane_1", "rate": 5}}`, "lane.id", "/lanes/"},
			{`{"name": "x", "url": "URL", "subscriptions": [{"types": ["a", "b..c"]}]}`, "subscriptions[0].types[1]", "want"},
			{`{"name": "x", "url": "URL", "subscriptions": [{"types": ["*"]}, {}]}`, "subscriptions[1].types", "missing"},
			{`{"name": "x", "url": "URL", "subscriptions": [{"types": ["*"], "filter": "a > 1"}]}`, "subscriptions[0].filter", "not available yet"},
			{`{"name": "x", "url": "URL", "timeout": "100ms"}`, "timeout", "want 1s to 1m"},
			{`{"name": "x", "url": "URL", "timeout": "soon"}`, "timeout", "duration"},
			{`{"name": "x", "url": "URL", "ttl": "0s"}`, "ttl", "want 1s"},
			{`{"name": "x", "url": "URL", "ordering": "newest"}`, "ordering", "\"serial\""},
			{`{"name": "x", "url": "URL", "retry": {"schedule": ["1s", "1s", "-5s"]}}`, "retry.schedule[2]", "negative"},
			{`{"name": "x", "url": "URL", "retry": {"jitter": 1.5}}`, "retry.jitter", "0 to 1"},
			{`{"name": "x", "url": "URL", "responses": [{"status": "409", "verdict": "delivered"}, {"status": "abc", "verdict": "retry"}]}`, "responses[1]", "status"},
			{`{"name": "x", "url": "URL", "headers": {"Webhook-Id": "x"}}`, "headers.Webhook-Id", "reserved"},
			{`{"name": "x", "url": "URL", "headers": {"X-A": ""}}`, "headers.X-A", "empty"},
			{`{"name": "x", "url": "URL", "headers": {"X-A": null}}`, "headers.X-A", "kept"},
			{`{"name": "x", "url": "URL", "secret": ""}`, "secret", "empty"},
			{`{"name": "x", "url": "URL", "secret": "   "}`, "secret", "empty"},
			{`{"name": "x", "url": "URL", "secret": "whsec_dG9vIHNob3J0"}`, "secret", "24"},
		} {
			a := b.refused(t, "POST", "/destinations", strings.ReplaceAll(c.body, "URL", url), c.field, c.says)
			require.NotContains(t, string(a.body), "hookpass")
			require.NotContains(t, string(a.body), "dG9vIHNob3J0")
		}
		var n int
		require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT count(*) FROM destination WHERE name = 'x'").Scan(&n))
		require.Zero(t, n)
	})

	t.Run("has a name of its own", func(t *testing.T) {
		body := fmt.Sprintf(`{"name": "taken", "url": %q}`, url)
		b.ok(t, 201, "POST", "/destinations", body)
		a := b.ok(t, 409, "POST", "/destinations", body)
		require.Contains(t, a.field(t, "detail"), "another destination")
	})

	t.Run("shares a lane where it is asked to", func(t *testing.T) {
		first := b.ok(t, 201, "POST", "/destinations", fmt.Sprintf(`{"name": "first", "url": %q}`, url))
		lane := first.field(t, "lane.id").(string)
		second := b.ok(t, 201, "POST", "/destinations", fmt.Sprintf(`{"name": "second", "url": %q, "lane": {"id": %q}}`, url, lane))
		require.Equal(t, lane, second.field(t, "lane.id"))
	})

	t.Run("is warned of a burst that costs rate", func(t *testing.T) {
		a := b.ok(t, 201, "POST", "/destinations", fmt.Sprintf(`{"name": "tight", "url": %q, "lane": {"rate": 5, "burst": 1}}`, url))
		require.Contains(t, a.field(t, "warnings.0"), "4.651")
		require.Contains(t, a.field(t, "warnings.0"), "A burst of 2")
		id := a.field(t, "id").(string)
		a = b.ok(t, 200, "PATCH", "/destinations/"+id, `{"lane": {"burst": 2}}`)
		require.Empty(t, a.field(t, "warnings"))
		require.InDelta(t, 5, a.field(t, "lane.rate"), 0)
	})

	t.Run("lists in pages, by name or URL", func(t *testing.T) {
		seen := map[string]bool{}
		for cursor := ""; ; {
			a := b.ok(t, 200, "GET", "/destinations?limit=2&cursor="+cursor, "")
			var page Page[Destination]
			require.NoError(t, json.Unmarshal(a.body, &page))
			for _, d := range page.Items {
				require.False(t, seen[d.ID])
				seen[d.ID] = true
			}
			if page.NextCursor == nil {
				break
			}
			cursor = *page.NextCursor
		}
		require.Len(t, seen, 7)
		a := b.ok(t, 200, "GET", "/destinations?search=ACME", "")
		require.Len(t, a.field(t, "items"), 1)
	})
}

func TestDestinationUpdate(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	url := b.receiver.URL + "/hook"
	created := b.ok(t, 201, "POST", "/destinations", fmt.Sprintf(`{"name": "one", "url": %q, "tenant": "acme", "headers": {"X-A": "first", "X-B": "second"},
		"retry": {"schedule": ["1s"], "jitter": 0.5}, "lane": {"rate": 3}}`, url))
	id := created.field(t, "id").(string)
	version := func() (v int64) {
		require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT version FROM destination WHERE id = $1", strings.TrimPrefix(id, "dst_")).Scan(&v))
		return v
	}
	header := func(name string) string {
		number := strings.TrimPrefix(id, "dst_")
		var sealed []byte
		require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT sealed FROM header WHERE destination_id = $1 AND name = $2", number, name).Scan(&sealed))
		plain, err := b.keyring.Open(sealed, "header/"+number+"/"+strings.ToLower(name))
		require.NoError(t, err)
		return string(plain)
	}

	t.Run("changes only what is given, and the senders see it", func(t *testing.T) {
		before := version()
		a := b.ok(t, 200, "PATCH", "/destinations/"+id, `{"timeout": "20s"}`)
		require.Greater(t, version(), before)
		require.Equal(t, "20s", a.field(t, "timeout"))
		require.Equal(t, []any{"1s"}, a.field(t, "retry.schedule"))
		require.InDelta(t, 0.5, a.field(t, "retry.jitter"), 0)
		require.Equal(t, "acme", a.field(t, "tenant"))
		require.InDelta(t, 3, a.field(t, "lane.rate"), 0)
		require.Len(t, a.field(t, "headers"), 2)
		require.Len(t, a.field(t, "subscriptions"), 1)
	})

	t.Run("tells null from left out", func(t *testing.T) {
		a := b.ok(t, 200, "PATCH", "/destinations/"+id, `{"tenant": null, "lane": {"rate": null, "max_in_flight": null}, "retry": {"schedule": []}}`)
		require.Nil(t, a.field(t, "tenant"))
		require.Nil(t, a.field(t, "lane.rate"))
		require.Empty(t, a.field(t, "retry.schedule"))
		require.InDelta(t, 0.5, a.field(t, "retry.jitter"), 0)
		a = b.ok(t, 200, "PATCH", "/destinations/"+id, `{"lane": {"rate": 7}}`)
		require.InDelta(t, 7, a.field(t, "lane.rate"), 0)
	})

	t.Run("replaces headers as a whole, and a null keeps what is stored", func(t *testing.T) {
		a := b.ok(t, 200, "PATCH", "/destinations/"+id, `{"headers": {"x-a": null, "X-C": "third"}}`)
		require.Len(t, a.field(t, "headers"), 2)
		require.Equal(t, "first", header("X-A"))
		require.Equal(t, "third", header("X-C"))
		b.refused(t, "PATCH", "/destinations/"+id, `{"headers": {"X-B": null}}`, "headers.X-B", "kept")
		require.Equal(t, "first", header("X-A"), "what is refused changes nothing")
		shown := b.ok(t, 200, "GET", "/destinations/"+id, "").field(t, "headers").(map[string]any)
		raw, err := json.Marshal(shown)
		require.NoError(t, err)
		b.ok(t, 200, "PATCH", "/destinations/"+id, `{"headers": `+string(raw)+`}`)
		require.Equal(t, "third", header("X-C"), "what is shown can be handed in again")
		a = b.ok(t, 200, "PATCH", "/destinations/"+id, `{"headers": {}, "subscriptions": []}`)
		require.Empty(t, a.field(t, "headers"))
		require.Empty(t, a.field(t, "subscriptions"))
	})

	t.Run("refuses what cannot be changed here", func(t *testing.T) {
		b.refused(t, "PATCH", "/destinations/"+id, `{"secret": "whsec_x"}`, "secret", "rotate")
		b.refused(t, "PATCH", "/destinations/"+id, `{"lane": {"id": "lane_999"}}`, "lane.id", "keeps the lane")
		b.refused(t, "PATCH", "/destinations/"+id, `{"state": "paused"}`, "state", "not a field")
		b.refused(t, "PATCH", "/destinations/"+id, `{"lane": {"rate": 0}}`, "lane.rate", "pause")
		b.ok(t, 404, "PATCH", "/destinations/dst_999", `{"timeout": "20s"}`)
	})
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	created := b.ok(t, 201, "POST", "/destinations", fmt.Sprintf(`{"name": "one", "url": %q, "headers": {"X-Api-Key": "hidden-value"}}`, b.receiver.URL))
	id, secret := created.field(t, "id").(string), created.field(t, "secret").(string)
	_, err := webhook.ParseSecret(secret)
	require.NoError(t, err)

	t.Run("are never shown again, nor stored in the clear", func(t *testing.T) {
		for _, path := range []string{"/destinations", "/destinations/" + id} {
			a := b.ok(t, 200, "GET", path, "")
			require.NotContains(t, string(a.body), secret)
			require.NotContains(t, string(a.body), "hidden-value")
			require.Contains(t, string(a.body), `"hint":"`+secret[len(secret)-4:]+`"`)
		}
		rows, err := b.pool.Query(t.Context(), "SELECT sealed FROM secret UNION ALL SELECT sealed FROM header")
		require.NoError(t, err)
		for rows.Next() {
			var sealed []byte
			require.NoError(t, rows.Scan(&sealed))
			require.False(t, bytes.Contains(sealed, []byte(secret)) || bytes.Contains(sealed, []byte("hidden-value")))
		}
		require.NoError(t, rows.Err())
	})

	t.Run("are sealed to their row", func(t *testing.T) {
		var rowID int64
		var sealed []byte
		require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT id, sealed FROM secret").Scan(&rowID, &sealed))
		plain, err := b.keyring.Open(sealed, fmt.Sprintf("secret/%d", rowID))
		require.NoError(t, err)
		require.Equal(t, secret, string(plain))
		_, err = b.keyring.Open(sealed, fmt.Sprintf("secret/%d", rowID+1))
		require.Error(t, err)
	})

	t.Run("rotate: both sign for the overlap, and none at once with 0s", func(t *testing.T) {
		next := b.ok(t, 200, "POST", "/destinations/"+id+"/secrets/rotate", "").field(t, "secret").(string)
		require.NotEqual(t, secret, next)
		var d Destination
		require.NoError(t, json.Unmarshal(b.ok(t, 200, "GET", "/destinations/"+id, "").body, &d))
		require.Len(t, d.Secrets, 2)
		require.Nil(t, d.Secrets[0].ExpiresAt)
		require.WithinDuration(t, time.Now().Add(24*time.Hour), *d.Secrets[1].ExpiresAt, time.Minute)

		b.ok(t, 200, "POST", "/destinations/"+id+"/secrets/rotate", `{"overlap": "1h"}`)
		require.NoError(t, json.Unmarshal(b.ok(t, 200, "GET", "/destinations/"+id, "").body, &d))
		require.Len(t, d.Secrets, 3)
		require.WithinDuration(t, time.Now().Add(time.Hour), *d.Secrets[2].ExpiresAt, time.Minute, "none signs longer than it would have")

		b.ok(t, 200, "POST", "/destinations/"+id+"/secrets/rotate", `{"overlap": "0s"}`)
		require.NoError(t, json.Unmarshal(b.ok(t, 200, "GET", "/destinations/"+id, "").body, &d))
		require.Len(t, d.Secrets, 1)
	})

	t.Run("rotate within bounds", func(t *testing.T) {
		b.refused(t, "POST", "/destinations/"+id+"/secrets/rotate", `{"overlap": "169h"}`, "overlap", "168h")
		b.refused(t, "POST", "/destinations/"+id+"/secrets/rotate", `{"overlap": "-1h"}`, "overlap", "negative")
		for range maxSecrets - 1 {
			b.ok(t, 200, "POST", "/destinations/"+id+"/secrets/rotate", "")
		}
		b.ok(t, 409, "POST", "/destinations/"+id+"/secrets/rotate", "")
		b.ok(t, 404, "POST", "/destinations/dst_999/secrets/rotate", "")
	})

	t.Run("null and left out make one", func(t *testing.T) {
		a := b.ok(t, 201, "POST", "/destinations", fmt.Sprintf(`{"name": "two", "url": %q, "secret": null}`, b.receiver.URL))
		require.NotEmpty(t, a.field(t, "secret"))
		given := webhook.NewSigningKey()
		a = b.ok(t, 201, "POST", "/destinations", fmt.Sprintf(`{"name": "three", "url": %q, "secret": %q}`, b.receiver.URL, given))
		require.Equal(t, given, a.field(t, "secret"))
		require.Equal(t, "v1a", a.field(t, "secrets.0.scheme"))
	})
}

func TestLane(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.destination(t, "")

	a := b.ok(t, 200, "GET", "/lanes", "")
	id := a.field(t, "items.0.id").(string)
	a = b.ok(t, 200, "PATCH", "/lanes/"+id, `{"name": "account", "rate": 50, "burst": 1}`)
	require.Equal(t, "account", a.field(t, "name"))
	require.InDelta(t, 4, a.field(t, "max_in_flight"), 0)
	require.Len(t, a.field(t, "warnings"), 1)
	b.refused(t, "PATCH", "/lanes/"+id, `{"rate": 0}`, "rate", "pause the destination instead")
	b.refused(t, "PATCH", "/lanes/"+id, `{"in_flight": 0}`, "in_flight", "not a field")
	b.ok(t, 404, "PATCH", "/lanes/lane_999", `{"rate": 1}`)

	_, err := b.pool.Exec(t.Context(), "UPDATE lane SET held_us = (extract(epoch FROM now() + interval '1 hour') * 1e6)::bigint, held_reason = 'asked'")
	require.NoError(t, err)
	a = b.ok(t, 200, "GET", "/lanes/"+id, "")
	require.Equal(t, "asked", a.field(t, "held_reason"))
	require.NotNil(t, a.field(t, "held_until"))
}

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"0s": "0s", "72h": "72h", "1h30m": "1h30m", "90s": "1m30s", "5m": "5m", "1500ms": "1.5s", "100h0m1s": "100h0m1s"} {
		d, err := time.ParseDuration(text)
		require.NoError(t, err)
		require.Equal(t, want, formatDuration(d))
		back, err := time.ParseDuration(formatDuration(d))
		require.NoError(t, err)
		require.Equal(t, d, back)
	}
}

func TestBudgetWarnings(t *testing.T) {
	t.Parallel()
	rate := func(r float64) *float64 { return &r }
	require.Empty(t, budgetWarnings(nil, 1))
	require.Empty(t, budgetWarnings(rate(5), 2))
	require.Empty(t, budgetWarnings(rate(1000), 16))
	require.Len(t, budgetWarnings(rate(1000), 15), 1)
	require.Contains(t, budgetWarnings(rate(0.001), 1)[0], "0.001")
}

func TestParseID(t *testing.T) {
	t.Parallel()
	id, err := parseID(idDestination, "dst_42")
	require.NoError(t, err)
	require.EqualValues(t, 42, id)
	for _, text := range []string{"", "dst_", "42", "dst_-1", "dst_+1", "dst_0", "dst_042", "dst_99999999999999999999", "lane_1", "dst_1 "} {
		_, err := parseID(idDestination, text)
		var notFound *jobs.NotFoundError
		require.ErrorAs(t, err, &notFound, text)
		_, err = parseIDField(idDestination, "destination", text)
		var invalid *jobs.InvalidError
		require.ErrorAs(t, err, &invalid, text)
	}
}

func TestLaneRateChange(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.work(t)
	a := b.ok(t, 201, "POST", "/destinations", fmt.Sprintf(`{"name": "slow", "url": %q, "lane": {"rate": 0.0167, "burst": 1}}`, b.receiver.URL))
	lane := a.field(t, "lane.id").(string)
	for i := range 10 {
		b.ok(t, 202, "POST", "/events", fmt.Sprintf(`{"id": "r%d", "type": "a", "subject": "", "payload": 1}`, i))
	}
	delivered := func() int {
		return len(b.ok(t, 200, "GET", "/deliveries?state=delivered", "").field(t, "items").([]any))
	}
	require.Eventually(t, func() bool { return delivered() == 1 }, eventually, tick)
	require.Eventually(t, func() bool {
		return strings.HasPrefix(b.ok(t, 200, "GET", "/events/r9", "").field(t, "deliveries.0.waiting_for").(string), "its turn: ")
	}, eventually, tick)

	b.ok(t, 200, "PATCH", "/lanes/"+lane, `{"rate": 10, "burst": 10}`)
	require.Eventually(t, func() bool { return delivered() == 10 }, 5*time.Second, tick, "what waits goes at the new pace")
}
