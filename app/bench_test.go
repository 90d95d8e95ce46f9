package main

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db"
	"weir/db/dbtest"
)

func TestBench(t *testing.T) {
	t.Parallel()
	dsn := dbtest.DSN(t)
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"bench"}, args...)...)
		cmd.Env = append(environment(dsn), "WEIR_DATABASE_CONNS=8") // the other tests share the server
		cmd.WaitDelay = time.Minute
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("--deliveries", "200", "--seconds", "1", "--parked", "200", "--settled", "500")
	require.NoError(t, err, out)
	t.Log("\n" + out)
	var rows []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "(") {
			rows = append(rows, line)
		}
	}
	require.Equal(t, []string{"(a)", "(b)", "(b)", "(c)", "(d)", "(d)", "(e)", "(e)", "(e)", "(e)", "(e)", "(e)", "(f)", "(f)"},
		regexp.MustCompile(`(?m)^\([a-f]\)`).FindAllString(out, -1))
	for _, row := range rows {
		require.NotContains(t, row, "NaN")
		if slices.Contains([]byte("abcf"), row[1]) {
			require.Contains(t, row, "not ours to see") // the server is not the bench's own
		}
	}

	// It leaves the database as it found it, and refuses one that is in use.
	pool, err := db.Open(t.Context(), dsn, db.Options{MaxConns: 1})
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), "SELECT publish('t', 's', '{}')")
	require.NoError(t, err)
	out, err = run("--only", "a", "--deliveries", "100")
	require.Error(t, err)
	require.Contains(t, out, "DATABASE_URL is in use by Weir")
	require.NotContains(t, out, "(a)")

	for _, args := range [][]string{{"--deliveries", "99"}, {"--seconds", "0"}, {"--parked", "100001"}, {"--settled", "-1"}, {"--only", "a,g"}} {
		out, err = run(args...)
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
	require.InDelta(t, 1, rateUse([]float64{0, 0.25, 0.5, 0.75, 1}, 4, 1), 1e-9)
	require.InDelta(t, 0.5, rateUse([]float64{0, 0.5, 1}, 4, 1), 1e-9)
	require.InDelta(t, 1, rateUse([]float64{0, 0, 0, 0.25, 0.5}, 4, 3), 1e-9)
	require.True(t, math.IsNaN(rateUse([]float64{0, 1}, 4, 2)))
}
