package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Requests that come together are answered by one reading of their tokens: each as if it had come alone.
func TestTokensOfManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	made := b.ok(t, 201, "POST", "/tokens", `{"name": "revoked", "scopes": ["read"]}`)
	id, text := made.field(t, "id").(string), made.field(t, "token").(string)
	other := b.ok(t, 201, "POST", "/tokens", `{"name": "other", "scopes": ["publish"]}`).field(t, "token").(string)
	ask := func(token string) int {
		request := httptest.NewRequest(http.MethodGet, apiPrefix+"/lanes", nil)
		request.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		b.server.Handler().ServeHTTP(answer, request)
		return answer.Code
	}
	want := map[string]int{text: 200, other: 403, "weir_unknown": 401}

	var revoked atomic.Bool
	var clients sync.WaitGroup
	wrong := make(chan string, 3*4)
	ctx, stop := context.WithCancel(t.Context())
	for token, status := range want {
		for range 4 {
			clients.Go(func() {
				for ctx.Err() == nil {
					after := revoked.Load() // before the request begins
					got := ask(token)
					if got != status && (token != text || got != http.StatusUnauthorized) || after && token == text && got != http.StatusUnauthorized {
						wrong <- fmt.Sprintf("got %d, want %d; revoked: %t", got, status, after)
						return
					}
				}
			})
		}
	}
	for range 50 {
		require.Equal(t, 200, ask(text))
	}
	b.ok(t, 204, "DELETE", "/tokens/"+id, "")
	revoked.Store(true)
	for range 50 {
		require.Equal(t, 401, ask(text), "at once, whatever was being read")
	}
	stop()
	clients.Wait()
	close(wrong)
	for problem := range wrong {
		t.Error(problem)
	}
}
