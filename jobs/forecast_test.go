package jobs

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// day is a day of minutes, made by hour: what f says of each.
func day(f func(hour int) Minute) []Minute {
	minutes := make([]Minute, 24*60)
	for m := range minutes {
		minutes[m] = f(m / 60)
	}
	return minutes
}

func TestSimulate(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	good := func(arrived int64) Minute {
		return Minute{Arrived: arrived, Requests: arrived, OK: arrived, Took: time.Duration(arrived) * 100 * time.Millisecond}
	}
	// 60 a minute, but between two and three 600.
	peak := day(func(hour int) Minute {
		if hour == 2 {
			return good(600)
		}
		return good(60)
	})
	// 60 a minute, of which all fail between two and three.
	outage := day(func(hour int) Minute {
		m := good(60)
		if hour == 2 {
			m.OK, m.Retried = 0, 60
		}
		return m
	})
	retries := []time.Duration{time.Minute, 30 * time.Minute, 2 * time.Hour}
	for _, c := range []struct {
		name    string
		minutes []Minute
		policy  Policy
		want    Forecast
	}{
		{"nothing came", day(func(int) Minute { return Minute{} }), Policy{TTL: time.Hour}, Forecast{}},
		{"without a limit nothing waits", peak, Policy{TTL: 72 * time.Hour}, Forecast{
			Arrived: 118_800, Requests: 118_800, Delivered: 118_800, BusiestFrom: from.Add(2 * time.Hour), BusiestArrived: 36_000,
		}},
		// At 5/s 300 of 600 leave each minute, so 18,000 pile up in the hour (less the burst), and then go at 240 a minute: 75 minutes.
		{"a rate below the peak", peak, Policy{TTL: 72 * time.Hour, Limit: Limit{Rate: 5, Burst: 10}}, Forecast{
			Arrived: 118_800, Requests: 118_800, Delivered: 118_800, LongestWait: time.Hour, Peak: 17_990, PeakAt: from.Add(3 * time.Hour),
			DrainedAt: from.Add(4*time.Hour + 15*time.Minute), BusiestFrom: from.Add(2 * time.Hour), BusiestArrived: 36_000, BusiestWait: time.Hour,
		}},
		// The same, but at half an hour a delivery is too old. The head of the line is that old at 2:59; from then on half of each minute's 600
		// go unsent, until the thirty minutes after the peak, 60 deliveries each, are worked off at 240 a minute.
		{"a rate below the peak, and a short time to live", peak, Policy{TTL: 30 * time.Minute, Limit: Limit{Rate: 5, Burst: 10}}, Forecast{
			Arrived: 118_800, Requests: 109_510, Delivered: 109_510, Expired: 9_290, LongestWait: 29 * time.Minute, Peak: 17_700, PeakAt: from.Add(3 * time.Hour),
			DrainedAt: from.Add(3*time.Hour + 37*time.Minute), BusiestFrom: from.Add(2 * time.Hour), BusiestArrived: 36_000, BusiestWait: 29 * time.Minute,
		}},
		// Two in flight of 100 ms each are 20/s, more than arrives in the mean and in the peak; of 10 s each they would be 12 a minute.
		{"a cap that is wide enough", peak, Policy{TTL: 72 * time.Hour, Limit: Limit{MaxInFlight: 2}}, Forecast{
			Arrived: 118_800, Requests: 118_800, Delivered: 118_800, BusiestFrom: from.Add(2 * time.Hour), BusiestArrived: 36_000,
		}},
		// Half of what comes leaves: the other half is left at the end, and takes another day.
		{"a rate below the mean never catches up", day(func(int) Minute { return good(60) }), Policy{TTL: 72 * time.Hour, Limit: Limit{Rate: 0.5, Burst: 30}}, Forecast{
			Arrived: 86_400, Requests: 43_200, Delivered: 43_200, Waiting: 43_200, DrainsIn: 24 * time.Hour, LongestWait: 12 * time.Hour,
			Peak: 43_200, PeakAt: from.Add(24 * time.Hour), BusiestFrom: from, BusiestArrived: 3_600, BusiestWait: time.Hour,
		}},
		// The second attempts of all 60 minutes, the third of 59 (one later is after it), the fourth of the first 29.
		{"a schedule that outlasts the outage", outage, Policy{TTL: 72 * time.Hour, Waits: retries}, Forecast{
			Arrived: 86_400, Requests: 86_400 + 60*(60+59+29), Delivered: 86_400, BusiestFrom: from, BusiestArrived: 3_600,
		}},
		{"one attempt only", outage, Policy{TTL: 72 * time.Hour}, Forecast{
			Arrived: 86_400, Requests: 86_400, Delivered: 82_800, DeadLettered: 3_600, BusiestFrom: from, BusiestArrived: 3_600,
		}},
		{"a time to live that ends before the second wait", outage, Policy{TTL: 20 * time.Minute, Waits: retries}, Forecast{
			Arrived: 86_400, Requests: 90_000, Delivered: 82_860, Expired: 3_540, BusiestFrom: from, BusiestArrived: 3_600,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := Simulate(from, c.minutes, c.policy)
			require.Equal(t, c.want, got)
			require.Equal(t, got, Simulate(from, c.minutes, c.policy), "the same again")
		})
	}
}

func TestSimulateLosesNothing(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) // the same numbers in each run
	for i := range 60 {
		minutes := day(func(int) Minute {
			m := Minute{Arrived: random.Int64N(100), Requests: random.Int64N(100)}
			m.OK = random.Int64N(m.Requests + 1)
			m.RateLimited = random.Int64N(m.Requests - m.OK + 1)
			m.Refused = random.Int64N(m.Requests - m.OK - m.RateLimited + 1)
			m.Retried = random.Int64N(m.Requests + 1)
			m.Took = time.Duration(random.Int64N(int64(time.Minute)))
			return m
		})
		p := Policy{TTL: time.Duration(1+random.IntN(3000)) * time.Minute, Limit: Limit{Burst: 1 + random.Int64N(100)}, Timeout: 10 * time.Second}
		if i%3 > 0 {
			p.Limit.Rate = random.Float64() * 2
		}
		if i%2 > 0 {
			p.Limit.MaxInFlight = 1 + random.Int64N(5)
		}
		for range random.IntN(8) {
			p.Waits = append(p.Waits, time.Duration(random.IntN(7200))*time.Second)
		}
		began := time.Now()
		f := Simulate(time.Unix(0, 0), minutes, p)
		require.Less(t, time.Since(began), 5*time.Second)
		require.InDelta(t, f.Arrived, f.Delivered+f.DeadLettered+f.Expired+f.Waiting+f.Retrying, 3, "%+v of %+v", f, p)
		require.GreaterOrEqual(t, f.Requests+3, f.Delivered+f.DeadLettered)
	}
}

func TestOdds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		minute Minute
		want   odds
	}{
		{Minute{}, odds{ok: 1}},
		{Minute{Requests: 10, OK: 10, Took: time.Second}, odds{ok: 1, took: 100 * time.Millisecond}},
		{Minute{Requests: 10, OK: 5, Refused: 2, Retried: 3}, odds{ok: 0.5, refused: 0.2, failed: 0.3}},
		{Minute{Requests: 10, OK: 5, Refused: 2, Retried: 5}, odds{ok: 0.5, failed: 0.5}}, // 404 retry
		{Minute{Requests: 10, OK: 4, RateLimited: 5, TimedOut: 1, Retried: 6}, odds{ok: 0.8, failed: 0.2, limited: 0.5, took: time.Second}},
		{Minute{Requests: 10, OK: 4, RateLimited: 5, Refused: 1, Retried: 5}, odds{ok: 0.8, refused: 0.2, limited: 0.5}}, // all that was tried again had been a 429
		{Minute{Requests: 10, RateLimited: 10, Retried: 10}, odds{ok: 1, limited: mostLimited}},
	} {
		got := c.minute.odds(10 * time.Second)
		require.InDelta(t, c.want.ok, got.ok, 1e-9, "%+v", c.minute)
		require.InDelta(t, c.want.refused, got.refused, 1e-9, "%+v", c.minute)
		require.InDelta(t, c.want.failed, got.failed, 1e-9, "%+v", c.minute)
		require.InDelta(t, c.want.limited, got.limited, 1e-9, "%+v", c.minute)
		require.Equal(t, c.want.took, got.took, "%+v", c.minute)
	}
}

// What leaves in the long run is what the lane's own columns say.
func TestLimitPerSecond(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, l := range []Limit{{Rate: 5, Burst: 1}, {Rate: 5, Burst: 2}, {Rate: 100, Burst: 1}, {Rate: 100, Burst: 2}, {Rate: 100, Burst: 3}, {Rate: 0.1, Burst: 1}, {Rate: 0.1, Burst: 10}} {
		t.Run(fmt.Sprintf("%v, burst %d", l.Rate, l.Burst), func(t *testing.T) {
			var period float64
			require.NoError(t, b.pool.QueryRow(t.Context(), "INSERT INTO lane (name, rate, burst) VALUES ('l', $1, $2) RETURNING period_us", l.Rate, l.Burst).Scan(&period))
			require.InEpsilon(t, 1e6/period, l.PerSecond(), 1e-4)
		})
	}
}

func BenchmarkSimulate(b *testing.B) {
	minutes := day(func(int) Minute { return Minute{Arrived: 1000, Requests: 1000, OK: 100, Took: time.Minute} })
	p := Policy{TTL: 72 * time.Hour, Limit: Limit{Rate: 1, Burst: 10}, Waits: make([]time.Duration, 100)}
	for b.Loop() {
		Simulate(time.Unix(0, 0), minutes, p)
	}
}
