package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db"
	"weir/db/dbtest"
)

func TestServe(t *testing.T) {
	t.Parallel()

	t.Run("two processes hold one destination's limit together", func(t *testing.T) {
		t.Parallel()
		rcv, url := subscriber(t, "")
		first := serveProgram(t, dbtest.DSN(t))
		second := serveProgram(t, first.dsn)
		_, secret := first.subscribe(url+"/slow", map[string]any{"lane": map[string]any{"rate": 5, "burst": 1, "max_in_flight": 4}})
		require.NoError(t, rcv.SetSecret("/slow", secret))
		began := time.Now()
		for i := range 100 {
			p := []*program{first, second}[i%2]
			status, answer := p.api(http.MethodPost, "/events", "application/json", fmt.Appendf(nil, `{"id":"evt-%d","type":"t","payload":%d}`, i, i))
			require.Equal(t, http.StatusAccepted, status, string(answer))
		}
		require.Eventually(t, func() bool { return rcv.Counts("/slow").Effects == 100 }, time.Minute, 20*time.Millisecond)
		took, counts := time.Since(began), rcv.Counts("/slow")
		t.Logf("%s, at most %d in any second", took.Round(100*time.Millisecond), counts.MaxPerSecond)
		require.LessOrEqual(t, counts.MaxPerSecond, 6)
		require.EqualValues(t, 100, counts.Requests)
		require.Greater(t, took, 19*time.Second)
		require.NoError(t, second.stop())
	})

	t.Run("refuses a key that does not fit the database", func(t *testing.T) {
		t.Parallel()
		p := serveProgram(t, dbtest.DSN(t))
		require.NoError(t, p.stop())
		cmd := exec.CommandContext(t.Context(), os.Args[0], "serve")
		cmd.Env = append(environment(p.dsn), "WEIR_SECRET_KEY="+db.GenerateKey())
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "WEIR_SECRET_KEY")
		require.NotContains(t, string(out), testKey)
	})

	t.Run("names every setting that is wrong and quotes none", func(t *testing.T) {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "serve")
		cmd.Env = append(os.Environ(), "WEIR_TEST_PROGRAM=1", "WEIR_BODY_LIMIT=0", "WEIR_ALLOW_NETWORKS=hunter2", "WEIR_WORKERS=-1")
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		for _, name := range []string{"WEIR_BODY_LIMIT", "WEIR_ALLOW_NETWORKS", "WEIR_WORKERS"} {
			require.Contains(t, string(out), name)
		}
	})

	t.Run("a process without the discover role leaves the outbox to the one that has it", func(t *testing.T) {
		t.Parallel()
		rcv, url := subscriber(t, "")
		p := serveProgram(t, dbtest.DSN(t))
		_, secret := p.subscribe(url+"/a", nil)
		require.NoError(t, rcv.SetSecret("/a", secret))
		require.NoError(t, p.stop())

		worker := exec.Command(os.Args[0], "serve", "--roles", "work")
		worker.Env = environment(p.dsn)
		require.NoError(t, worker.Start())
		defer func() { _ = worker.Process.Kill(); _ = worker.Wait() }()
		_, err := p.pool().Exec(t.Context(), "SELECT publish('t', 's', '{}')")
		require.NoError(t, err)
		p.start() // it may never lead: the leader's tick is enough
		require.Eventually(t, func() bool { return rcv.Counts("/a").Effects == 1 }, 30*time.Second, 20*time.Millisecond)
	})
}

func TestReplayCommand(t *testing.T) {
	t.Parallel()
	rcv, url := subscriber(t, "")
	p := serveProgram(t, dbtest.DSN(t))
	id, secret := p.subscribe(url+"/a", nil)
	require.NoError(t, rcv.SetSecret("/a", secret))
	out, err := p.runWith(strings.NewReader(`{"id":"evt-1","type":"t","payload":{}}
{"type":"no payload"}

{"id":"evt-1","type":"t","payload":{}}
`), "publish", "-")
	require.ErrorContains(t, err, "exit status 1")
	require.Contains(t, out, "1\ttaken\tevt-1\n2\trefused\tpayload: is missing\n4\tduplicate\tevt-1\n")
	require.Eventually(t, func() bool { return rcv.Counts("/a").Effects == 1 }, 10*time.Second, 10*time.Millisecond)

	require.Eventually(t, func() bool {
		out, err = p.run("replay", "--event", "evt-1", "--dry-run")
		return err == nil // refused until the answer is in the ledger
	}, 10*time.Second, 10*time.Millisecond)
	require.Contains(t, out, "would send")
	require.Contains(t, out, "Nothing was changed")
	out, err = p.run("replay", "--event", "evt-1", "--destination", id, "--reason", "rehearsal")
	require.NoError(t, err, out)
	require.Contains(t, out, "Recorded as replay 1")
	require.Eventually(t, func() bool { return rcv.Counts("/a").Requests == 2 }, 10*time.Second, 10*time.Millisecond)
	require.EqualValues(t, 1, rcv.Counts("/a").Effects)

	out, err = p.run("replay", "--event", "never")
	require.Error(t, err)
	require.Contains(t, out, `event "never" not found`)
	out, err = p.run("replay", "--event", "evt-1", "--destination", "acme")
	require.Error(t, err)
	require.Contains(t, out, "want an id such as dst_12")
}
