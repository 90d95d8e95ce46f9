package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db"
	"weir/db/dbtest"
)

// The promise of the whole product: whatever moment the process dies at, each event is applied once by a receiver that keeps an inbox.
func TestKill(t *testing.T) {
	t.Parallel()
	const n = 2000
	inbox := dbtest.DSN(t)
	rcv, url := subscriber(t, inbox)
	p := serveProgram(t, dbtest.DSN(t))
	_, secret := p.subscribe(url+"/inbox", map[string]any{"lane": map[string]any{"rate": 1000, "burst": 200, "max_in_flight": 50}})
	require.NoError(t, rcv.SetSecret("/inbox", secret))

	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"evt-%d","type":"shipment.updated","subject":"SHP-%d","payload":{"n":%d}}`+"\n", i, i, i)
	}
	status, answer := p.api(http.MethodPost, "/events/batch", "application/x-ndjson", []byte(lines.String()))
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, n, strings.Count(string(answer), `"duplicate":false`))

	kills := 0
	for _, at := range []int{50, 300, 700, 1200} {
		require.Eventually(t, func() bool { return rcv.Counts("/inbox").Effects >= int64(at) }, time.Minute, 5*time.Millisecond)
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond) // any moment: not the one right after an arrival
		p.kill()
		p.start()
		kills++
	}
	restarted := time.Now()
	pool := p.pool()
	require.Eventually(t, func() bool {
		var left int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM delivery WHERE state <> 'delivered'").Scan(&left))
		return left == 0
	}, time.Minute, 100*time.Millisecond, "a delivery is stuck for longer than a minute")
	t.Logf("%d kills; everything delivered %s after the last restart; %+v", kills, time.Since(restarted).Round(time.Second), rcv.Counts("/inbox"))

	// What the receiver's database holds counts: a kill can cut the connection between its commit and its own counting.
	receiverPool, err := db.Open(t.Context(), inbox, db.Options{MaxConns: 2})
	require.NoError(t, err)
	defer receiverPool.Close()
	var effects, distinct int
	require.NoError(t, receiverPool.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT event_id) FROM receiver.effect").Scan(&effects, &distinct))
	require.Equal(t, n, distinct, "each event applied")
	require.Equal(t, n, effects, "each event applied once")
	var attempts, unfinished int
	require.NoError(t, pool.QueryRow(t.Context(),
		"SELECT count(*), count(*) FILTER (WHERE finished_at IS NULL) FROM attempt").Scan(&attempts, &unfinished))
	require.Zero(t, unfinished)
	require.GreaterOrEqual(t, attempts, int(rcv.Counts("/inbox").Requests), "no request without its row")
	require.NoError(t, p.stop())
}
