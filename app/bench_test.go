package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db"
	"weir/db/dbtest"
	"weir/jobs"
)

// benchRun runs the bench on a database and returns what it prints.
func benchRun(t *testing.T, dsn string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"bench"}, args...)...)
	cmd.Env = append(environment(dsn), "WEIR_DATABASE_CONNS=8") // the other tests share the server
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Each part measures something, small as it is here, and the figures that do not depend on the machine are right.
func TestBench(t *testing.T) {
	t.Parallel()
	small := []string{
		"--deliveries", "200", "--seconds", "1", "--others", "1", "--parked", "200", "--storm", "100", "--rows", "500", "--clients", "4", "--destinations", "2100",
		"--processes", "2",
	}
	for only, want := range map[string][]string{
		"a,b,f,h": {"(a)", "(b)", "(b)", "(f)", "(f)", "(f)", "(h)", "(h)", "(h)"},
		"c,d":     {"(c)", "(d)", "(d)", "(d)", "(d)", "(d)", "(d)"},
		"e":       slices.Repeat([]string{"(e)"}, 6),
		"g,i":     {"(g)", "(g)", "(i)"},
	} {
		t.Run(only, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "rows.jsonl")
			out, err := benchRun(t, dbtest.DSN(t), append(small, "--only", only, "--json", file)...)
			require.NoError(t, err, out)
			t.Log("\n" + out)
			require.Equal(t, want, regexp.MustCompile(`(?m)^\([a-i]\)`).FindAllString(out, -1))
			require.NotContains(t, out, "NaN")
			if only != "e" && only != "c,d" {
				require.Contains(t, out, "not ours to see") // the server is not the bench's own
			}
			lines := readBenchRows(t, file)
			require.Len(t, lines, len(want))
			bars := 0
			for i, line := range lines {
				require.True(t, strings.HasPrefix(line.What, want[i]), line.What)
				bars += len(line.Bars)
				checkBenchRow(t, line)
			}
			var reached, missed, unmeasured int
			_, err = fmt.Sscanf(out[strings.LastIndex(out, "bars: "):], "bars: %d reached, %d missed, %d not measured", &reached, &missed, &unmeasured)
			require.NoError(t, err)
			require.Equal(t, bars, reached+missed+unmeasured)
		})
	}
}

// benchLineRow is a row as --json writes it.
type benchLineRow struct {
	What      string             `json:"what"`
	PerSecond float64            `json:"per_second"`
	Figures   map[string]float64 `json:"figures"`
	Bars      []struct {
		What string  `json:"what"`
		Got  float64 `json:"got"`
	} `json:"bars"`
}

func readBenchRows(t *testing.T, file string) (rows []benchLineRow) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var row benchLineRow
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		rows = append(rows, row)
	}
	return rows
}

// checkBenchRow checks what holds on any machine, however busy it is.
func checkBenchRow(t *testing.T, row benchLineRow) {
	t.Helper()
	if !strings.ContainsAny(row.What[1:2], "egh") { // of e and g, perhaps nothing falls into the second that is measured
		require.Positive(t, row.PerSecond, row.What)
	}
	most := 16.0
	switch {
	case strings.HasPrefix(row.What, "(e) cap 4,"):
		most = 4
		fallthrough
	case row.What[1] == 'e':
		require.LessOrEqual(t, row.Figures["most in flight"], most, row.What)
		require.Contains(t, row.Figures, "most in flight")
	case row.What[1] == 'i':
		require.Greater(t, row.Figures["transactions"], 1.0, "wider than a page")
		require.Less(t, row.Figures["largest"], 2100.0)
	case strings.Contains(row.What, "refused once"):
		require.Contains(t, row.Figures, "p99")
	}
}

func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	dsn := dbtest.DSN(t)
	pool, err := db.Open(t.Context(), dsn, db.Options{MaxConns: 1})
	require.NoError(t, err)
	defer pool.Close()
	out, err := benchRun(t, dsn, "--only", "g", "--seconds", "1")
	require.NoError(t, err, out)

	// It leaves the database as it found it, and refuses one that is in use.
	for _, table := range []string{"event", "lane", "destination", "process", "river_job", "api_token", "invitation"} {
		var used bool
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM "+table+")").Scan(&used))
		require.False(t, used, table)
	}
	_, err = pool.Exec(t.Context(), "SELECT publish('t', 's', '{}')")
	require.NoError(t, err)
	out, err = benchRun(t, dsn, "--only", "a", "--deliveries", "100")
	require.Error(t, err)
	require.Contains(t, out, "DATABASE_URL is in use by Weir")
	require.NotContains(t, out, "(a)")

	for _, args := range [][]string{
		{"--deliveries", "99"}, {"--seconds", "0"}, {"--others", "0"}, {"--parked", "0"}, {"--storm", "0"}, {"--rows", "-1"}, {"--clients", "0"}, {"--destinations", "0"},
		{"--only", "a,j"}, {"--processes", "2,0"}, {"--postgres", "fsync=on"},
	} {
		out, err = benchRun(t, dsn, args...)
		require.Error(t, err)
		require.Contains(t, out, args[0]+": want")
	}
}

// Whoever stops a bench gets the database back: empty, and without the processes that worked on it.
func TestBenchStopped(t *testing.T) {
	t.Parallel()
	dsn := dbtest.DSN(t)
	pool, err := db.Open(t.Context(), dsn, db.Options{MaxConns: 1})
	require.NoError(t, err)
	defer pool.Close()
	cmd := exec.Command(os.Args[0], "bench", "--only", "e", "--seconds", "600") // ended below
	cmd.Env = append(environment(dsn), "WEIR_DATABASE_CONNS=8")
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	count := func(sql string) (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return count("SELECT count(*) FROM attempt") > 0 }, time.Minute, 20*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool {
		return count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()") == 1
	}, 10*time.Second, 20*time.Millisecond)
	require.Zero(t, count("SELECT count(*) FROM destination"))
	require.Zero(t, count("SELECT count(*) FROM event"))
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	values := make([]float64, 100)
	for i := range values {
		values[i] = float64(100 - i)
	}
	for p, want := range map[float64]float64{0: 1, 1: 1, 50: 50, 95: 95, 99: 99, 99.5: 100, 100: 100} {
		require.InDelta(t, want, percentile(values, p), 0, "p%g", p)
	}
	require.InDelta(t, 7, percentile([]float64{7}, 50), 0)
	require.InDelta(t, 2, percentile([]float64{3, 1, 2}, 50), 0)
	require.True(t, math.IsNaN(percentile(nil, 50)))
}

func TestRateExcess(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at     []float64
		rate   float64
		burst  int
		excess float64
	}{
		"one is within a burst of one":        {[]float64{3}, 5, 1, 0},
		"exactly the rate":                    {[]float64{0, 0.25, 0.5, 0.75}, 4, 1, 0},
		"the whole burst at once":             {[]float64{1, 1, 1}, 4, 3, 0},
		"one more than the burst":             {[]float64{1, 1, 1, 1}, 4, 3, 1},
		"half a token too early":              {[]float64{0, 0.125}, 4, 1, 0.5},
		"a quiet start does not make it good": {[]float64{0, 10, 10, 10}, 4, 1, 2},
		"slower than allowed":                 {[]float64{0, 10, 20}, 1, 3, -2},
	} {
		require.InDelta(t, test.excess, rateExcess(test.at, test.rate, test.burst), 1e-9, name)
	}
	require.True(t, math.IsNaN(rateExcess(nil, 1, 1)))

	// The same as looking at every window.
	for range 200 {
		at := make([]float64, 1+rand.IntN(30))
		for i := range at {
			at[i] = rand.Float64() * 5
		}
		slices.Sort(at)
		rate, burst, want := 0.5+rand.Float64()*10, 1+rand.IntN(5), math.Inf(-1)
		for i := range at {
			for j := i; j < len(at); j++ {
				want = max(want, float64(j-i+1-burst)-rate*(at[j]-at[i]))
			}
		}
		require.InDelta(t, want, rateExcess(at, rate, burst), 1e-9)
	}
}

func TestRateUse(t *testing.T) {
	t.Parallel()
	at := []float64{-0.5, -0.25, 0, 0.25, 0.5, 0.75, 1}
	require.InDelta(t, 1, rateUse(at, 4, 0, 1), 1e-9)
	require.InDelta(t, 0.5, rateUse(at, 8, 0.1, 0.6), 1e-9, "whole intervals around")
	require.InDelta(t, 0.25, rateUse([]float64{0, 2}, 2, 0, 1), 1e-9, "a stall at the end counts")
	require.InDelta(t, 0.5, rateUse([]float64{0, 1, 1.5, 2}, 3, 0.9, 2), 1e-9, "and one at the start")
	require.True(t, math.IsNaN(rateUse([]float64{0, 0.5}, 4, 0, 1)))
	require.True(t, math.IsNaN(rateUse(nil, 4, 0, 1)))
}

func TestRateLost(t *testing.T) {
	t.Parallel()
	steady := func(from, to float64) (at []float64) {
		for t := from; t < to; t += 0.1 {
			at = append(at, t)
		}
		return at
	}
	lost, after := rateLost(append(steady(0.05, 5), steady(8.05, 20)...), 0, 5)
	require.InDelta(t, 30, lost, 1, "ten a second for three seconds")
	require.InDelta(t, 3, after, 0.1)
	lost, _ = rateLost(steady(0.05, 20), 0, 5)
	require.Less(t, lost, 1.0, "nothing happened")
}

func TestBenchBar(t *testing.T) {
	t.Parallel()
	require.Equal(t, "reached x ≥ 0.38: 0.38", atLeast("x", 0.38, 0.38).String())
	require.Equal(t, "missed x ≥ 0.38: 0.3799", atLeast("x", 0.3799, 0.38).String())
	require.Equal(t, "reached x ≤ 0: -1.5", atMost("x", -1.5, 0).String())
	require.Equal(t, "missed x ≤ 0: 0.001", atMost("x", 0.001, 0).String())
	require.Equal(t, "not measured x ≤ 2.5", atMost("x", math.NaN(), 2.5).String())

	var score benchScore
	score.add(benchRow{what: "(b) some", bars: []benchBar{atLeast("x", 1, 2), atLeast("x", 2, 2), atMost("x", math.NaN(), 1)}})
	score.add(benchRow{what: "(c) none"})
	require.Equal(t, "missed: (b) some: x ≥ 2: 1\nbars: 1 reached, 1 missed, 1 not measured", score.String())
}

// The load generator's events are those that a client would send, each with an id of its own.
func TestLoad(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ids := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		event, err := jobs.ParseEvent(text)
		mu.Lock()
		defer mu.Unlock()
		if ids[event.ID]++; err != nil || len(event.Payload) != 1024 || event.Type != "bench.test" || req.URL.Path != "/api/v1/events" {
			t.Errorf("%s %+v %v", req.URL.Path, event, err)
		}
		if len(ids)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"id":"…"}`)
	}))
	defer server.Close()
	done, err := load(t.Context(), server.Listener.Addr().String(), "bench.test", 3, 200*time.Millisecond)
	require.NoError(t, err)
	require.NotEmpty(t, done.Accepted)
	require.Equal(t, http.StatusServiceUnavailable, done.Status)
	require.Len(t, ids, len(done.Accepted)+done.Refused)
	for _, one := range done.Accepted {
		require.Equal(t, 1, ids[one.ID])
	}

	next := prepareRequest("host", "bench.test", 12)
	copy(next.number, "0000000999")
	next.next()
	require.Equal(t, "load-0012-0000001000", string(next.id))
	require.Contains(t, string(next.bytes), `"id":"load-0012-0000001000"`)
}
