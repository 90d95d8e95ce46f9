package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.work(t)
	id := b.destination(t, "")
	b.ok(t, 202, "POST", "/events", `{"id": "hidden-event-id", "type": "a", "subject": "Jane Student", "payload": {"name": "Jane Student"}}`)
	require.Eventually(t, func() bool { return b.ok(t, 200, "GET", "/events/hidden-event-id", "").field(t, "settled") == true }, eventually, tick)
	series := func(text string) (n int) {
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "#") {
				n++
			}
		}
		return n
	}

	t.Run("say how things stand, and nothing about events", func(t *testing.T) {
		a := b.call(t, "", "GET", "/metrics", "")
		require.Equal(t, 200, a.status)
		text := string(a.body)
		for _, want := range []string{
			"weir_metrics_database_up 1", `weir_deliveries_parked{destination="` + id + `"} 0`, "weir_oldest_waiting_seconds 0", `weir_processes_alive{role="work"} 1`,
			`weir_deliveries_attention{state="dead_lettered"} 0`, "go_goroutines ",
			`weir_http_requests_total{method="POST",route="/api/v1/events",status="202"} 1`,
		} {
			require.Contains(t, text, want)
		}
		require.NotContains(t, text, "hidden-event-id")
		require.NotContains(t, text, "Jane")
		require.NotContains(t, text, b.receiver.URL)
	})

	t.Run("do not grow with what is asked for", func(t *testing.T) {
		before := series(string(b.call(t, "", "GET", "/metrics", "").body))
		for i := range 50 {
			b.do(t, "GET", fmt.Sprintf("/events/e%d", i), "")
			b.do(t, "GET", fmt.Sprintf("/nothing/%d", i), "")
			b.call(t, "", "GET", fmt.Sprintf("/nowhere/%d", i), "")
		}
		after := series(string(b.call(t, "", "GET", "/metrics", "").body))
		require.Less(t, after-before, 8)
	})

	t.Run("are for callers on this machine, and others with a token", func(t *testing.T) {
		get := func(remote, token string, header ...string) int {
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			r.RemoteAddr = remote
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			for _, name := range header {
				r.Header.Set(name, "203.0.113.9")
			}
			w := httptest.NewRecorder()
			b.server.Handler().ServeHTTP(w, r)
			return w.Code
		}
		require.Equal(t, http.StatusOK, get("127.0.0.1:1234", ""))
		require.Equal(t, http.StatusOK, get("[::1]:1234", ""))
		require.Equal(t, http.StatusUnauthorized, get("192.0.2.1:1234", ""))
		require.Equal(t, http.StatusUnauthorized, get("127.0.0.1:1234", "", "X-Forwarded-For"), "a proxy on this machine")
		require.Equal(t, http.StatusForbidden, get("192.0.2.1:1234", b.publish))
		require.Equal(t, http.StatusOK, get("192.0.2.1:1234", b.read))
	})
}
