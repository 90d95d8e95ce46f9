package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbtest"
)

// refusedPayloads are those that are no JSON that a receiver could read; whatever way they come, the reason names the payload.
var refusedPayloads = map[string]string{
	"nasty_invalid_utf8.json":     "UTF-8",
	"nasty_bom.json":              "byte order mark",
	"nasty_trailing_garbage.json": "after",
	"nasty_deep_nesting.json":     "depth",
}

// flaky answers the first request of each id with 500, and remembers the checksums of all bodies by id.
type flaky struct {
	mu   sync.Mutex
	sums map[string][]string
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	sum := sha256.Sum256(body)
	f.mu.Lock()
	defer f.mu.Unlock()
	id := r.Header.Get("Webhook-Id")
	if f.sums[id] = append(f.sums[id], hex.EncodeToString(sum[:])); len(f.sums[id]) == 1 {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (f *flaky) of(id string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.sums[id]...)
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	manifest, err := os.ReadFile("testdata/payloads/MANIFEST.tsv")
	require.NoError(t, err)
	receiver := &flaky{sums: map[string][]string{}}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	p := serveProgram(t, dbtest.DSN(t))
	p.subscribe(server.URL, map[string]any{"lane": map[string]any{"rate": nil, "max_in_flight": nil}, "retry": map[string]any{"schedule": []string{"10ms"}, "jitter": 0}})
	pool := p.pool()

	want := map[string]string{} // event id → checksum
	for _, line := range strings.Split(strings.TrimSpace(string(manifest)), "\n")[1:] {
		fields := strings.Split(line, "\t")
		name, sum := fields[0], fields[2]
		payload, err := os.ReadFile(filepath.Join("testdata/payloads", name))
		require.NoError(t, err)
		refusal := refusedPayloads[name]

		for way, publish := range map[string]func(id string) (taken bool, reason string){
			"api": func(id string) (bool, string) {
				status, answer := p.api(http.MethodPost, "/events", "application/json", fmt.Appendf(nil, `{"id":%q,"type":"t","payload":%s}`, id, payload))
				return status == http.StatusAccepted, string(answer)
			},
			"base64": func(id string) (bool, string) {
				body := fmt.Appendf(nil, `{"id":%q,"type":"t","payload_base64":%q}`+"\n", id, base64.StdEncoding.EncodeToString(payload))
				_, answer := p.api(http.MethodPost, "/events/batch", "application/x-ndjson", body)
				var line struct{ ID string }
				require.NoError(t, json.Unmarshal(answer, &line))
				return line.ID != "", string(answer)
			},
			"outbox": func(id string) (bool, string) {
				_, err := pool.Exec(t.Context(), "SELECT publish('t', '', $2::bytea, id => $1)", id, payload)
				require.NoError(t, err)
				var reason *string
				require.Eventually(t, func() bool {
					err := pool.QueryRow(t.Context(), "SELECT refused_reason FROM outbox WHERE event_id = $1", id).Scan(&reason)
					return err != nil || reason != nil // gone, that is taken, or refused
				}, 20*time.Second, 20*time.Millisecond)
				if reason == nil {
					return true, ""
				}
				return false, *reason
			},
		} {
			id := way + "-" + name
			taken, reason := publish(id)
			require.Equal(t, refusal == "", taken, "%s: %s", id, reason)
			if refusal != "" {
				// In an envelope a syntax error is found while that is read; the reason still says where.
				require.Regexp(t, "(?i)"+refusal+"|not valid JSON|body", reason, id)
				continue
			}
			want[id] = sum
		}
	}
	// One by the command line for each: slow to start, so only those that are hardest to carry.
	for _, name := range []string{"nasty_bytes_exact.json", "nasty_nul_escape.json", "easypost_tracker_updated.json"} {
		file := filepath.Join("testdata/payloads", name)
		out, err := p.run("publish", file, "--type", "t", "--id", "cli-"+name)
		require.NoError(t, err, out)
		sum := sha256.Sum256(mustRead(t, file))
		want["cli-"+name] = hex.EncodeToString(sum[:])
	}
	out, err := p.run("publish", "testdata/payloads/nasty_bom.json", "--type", "t")
	require.Error(t, err)
	require.Contains(t, out, "byte order mark")

	awaitBodies(t, receiver, want, 2)
	for id := range want {
		// Refused while the ledger has not yet written the answer that the receiver has just given.
		require.Eventually(t, func() bool {
			status, _ := p.api(http.MethodPost, "/replays", "application/json", fmt.Appendf(nil, `{"event":%q,"reason":"test"}`, id))
			return status < 300
		}, 5*time.Second, 20*time.Millisecond, id)
	}
	awaitBodies(t, receiver, want, 3)
}

// awaitBodies waits until each id has arrived n times (first try, retry, replay) and checks that every body was the file's.
func awaitBodies(t *testing.T, receiver *flaky, want map[string]string, n int) {
	t.Helper()
	for id, sum := range want {
		require.Eventually(t, func() bool { return len(receiver.of(id)) >= n }, 30*time.Second, 20*time.Millisecond, id)
		for _, got := range receiver.of(id) {
			require.Equal(t, sum, got, id)
		}
	}
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return content
}
