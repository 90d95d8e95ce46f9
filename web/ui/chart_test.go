package ui

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var chartStart = time.Date(2026, 11, 30, 21, 0, 0, 0, time.UTC)

func chartOf(step time.Duration, series ...Series) Chart {
	c := Chart{ID: "c", Title: "Outcomes a minute", Empty: "Nothing was sent.", Step: step, Series: series}
	for i := range series[0].Values {
		c.Bins = append(c.Bins, chartStart.Add(time.Duration(i)*step))
	}
	return c
}

func TestTicks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		unit   Unit
		top    float64
		levels []float64
		labels []string
	}{
		{"counts are whole, however few", Counts, 1, []float64{0, 1}, []string{"0", "1"}},
		{"nothing still has an axis", Counts, 0, []float64{0, 1}, []string{"0", "1"}},
		{"three", Counts, 3, []float64{0, 1, 2, 3}, []string{"0", "1", "2", "3"}},
		{"a top that is round is not exceeded", Counts, 20, []float64{0, 5, 10, 15, 20}, []string{"0", "5", "10", "15", "20"}},
		{"above it comes one more", Counts, 21, []float64{0, 10, 20, 30}, []string{"0", "10", "20", "30"}},
		{"thousands", Counts, 7_300, []float64{0, 2000, 4000, 6000, 8000}, []string{"0", "2,000", "4,000", "6,000", "8,000"}},
		{"millions are short", Counts, 4_400_000, []float64{0, 2e6, 4e6, 6e6}, []string{"0", "2 M", "4 M", "6 M"}},
		{"rates may be fractions", Rates, .1, []float64{0, .05, .1}, []string{"0", "0.05", "0.1"}},
		{"milliseconds", Seconds, .18, []float64{0, .05, .1, .15, .2}, []string{"0", "50 ms", "100 ms", "150 ms", "200 ms"}},
		{"minutes count by sixty", Seconds, 190, []float64{0, 60, 120, 180, 240}, []string{"0", "1 min", "2 min", "3 min", "4 min"}},
		{"hours", Seconds, 5 * 3600, []float64{0, 7200, 14400, 21600}, []string{"0", "2 h", "4 h", "6 h"}},
		{"days", Seconds, 6 * 86400, []float64{0, 2 * 86400, 4 * 86400, 6 * 86400}, []string{"0", "2 d", "4 d", "6 d"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			levels := test.unit.ticks(test.top)
			require.InDeltaSlice(t, test.levels, levels, 1e-9)
			var labels []string
			for _, v := range levels {
				labels = append(labels, test.unit.short(v, levels[1]))
			}
			require.Equal(t, test.labels, labels)
		})
	}
}

func TestTimeTicks(t *testing.T) {
	t.Parallel()
	labels := func(since time.Time, length, step time.Duration) (labels []string) {
		c := Chart{Bins: BinsBetween(since, since.Add(length), step), Step: step}
		for _, x := range c.xTicks() {
			labels = append(labels, x.Label)
		}
		return labels
	}
	require.Equal(t, []string{"21:40", "21:50", "22:00", "22:10", "22:20", "22:30"}, labels(chartStart.Add(31*time.Minute), time.Hour, time.Minute))
	require.Equal(t, []string{"00:00", "04:00"}[1:], labels(chartStart.Add(31*time.Minute), 24*time.Hour, 30*time.Minute)[1:2])
	require.Equal(t, "1 Dec", labels(chartStart.Add(31*time.Minute), 24*time.Hour, 30*time.Minute)[0], "midnight is told by its day")
	require.Equal(t, []string{"1 Dec", "2 Dec", "3 Dec", "4 Dec", "5 Dec", "6 Dec", "7 Dec"}, labels(chartStart.Add(31*time.Minute), 7*24*time.Hour, 3*time.Hour))
}

func TestPlan(t *testing.T) {
	t.Parallel()

	t.Run("layers stand on each other and fill what they are worth", func(t *testing.T) {
		t.Parallel()
		p := chartOf(time.Minute, Series{Name: "delivered", Hue: HueGood, Values: []float64{10, 0}}, Series{Name: "retried", Hue: HueWarn, Values: []float64{10, 5}}).plan()
		require.Equal(t, []layer{{"hue-good", "50%", "50%"}, {"hue-warn", "0%", "50%"}}, p.Columns[0].Segments)
		require.Equal(t, []layer{{"hue-warn", "75%", "25%"}}, p.Columns[1].Segments)
		require.Equal(t, []string{"0%", "50%"}, []string{p.Columns[0].X, p.Columns[1].X})
	})

	t.Run("one among many is seen, and a full column stays inside", func(t *testing.T) {
		t.Parallel()
		p := chartOf(time.Minute, Series{Name: "delivered", Hue: HueGood, Values: []float64{99_999}}, Series{Name: "dead-lettered", Hue: HueBad, Values: []float64{1}}).plan()
		require.Equal(t, []layer{{"hue-good", "1%", "99%"}, {"hue-bad", "0%", "1%"}}, p.Columns[0].Segments)
	})

	t.Run("lines break where there is no figure", func(t *testing.T) {
		t.Parallel()
		nan := math.NaN()
		c := chartOf(time.Minute, Series{Name: "mean", Hue: HueAccent, Values: []float64{1, 2, nan, 4}})
		c.Unit, c.Lines = Seconds, true
		require.Equal(t, "M 12.5 75L 12.5 75L 37.5 50M 87.5 0L 87.5 0", c.plan().Lines[0].Path)
		require.Equal(t, "Outcomes a minute, 30 Nov 21:00 to 30 Nov 21:04 UTC: mean from 1.0 s to 4.0 s.", c.Summary())
	})

	t.Run("a mark above the figures raises the axis", func(t *testing.T) {
		t.Parallel()
		c := chartOf(time.Minute, Series{Name: "sent", Hue: HueGood, Values: []float64{1}})
		c.Mark, c.MarkFor = 4, "allowed"
		require.Equal(t, "0%", c.plan().Mark)
		require.Contains(t, c.Summary(), "Allowed 4.")
	})
}

func TestSpread(t *testing.T) {
	t.Parallel()
	bins := BinsBetween(chartStart.Add(30*time.Second), chartStart.Add(3*time.Minute), time.Minute)
	require.Len(t, bins, 4)
	type row struct {
		at time.Time
		n  float64
	}
	rows := []row{{chartStart.Add(-time.Second), 100}, {chartStart, 1}, {chartStart.Add(59 * time.Second), 2}, {chartStart.Add(2 * time.Minute), 4}, {chartStart.Add(time.Hour), 100}}
	require.Equal(t, []float64{3, 0, 4, 0}, Spread(bins, time.Minute, rows, 0, func(r row) time.Time { return r.at }, func(r row) float64 { return r.n }))
}

func TestTimeChart(t *testing.T) {
	t.Parallel()
	render := func(t *testing.T, c Chart) string {
		t.Helper()
		var page bytes.Buffer
		require.NoError(t, TimeChart(c).Render(t.Context(), &page))
		return page.String()
	}

	t.Run("says the same in the drawing, to a screen reader and in the table", func(t *testing.T) {
		t.Parallel()
		c := chartOf(time.Minute, Series{Name: "delivered", Hue: HueGood, Values: []float64{1234, 0, 7}}, Series{Name: "expired", Hue: HueBad, Values: []float64{0, 0, 2}})
		c.Now = chartStart.Add(150 * time.Second)
		page := render(t, c)
		require.Contains(t, page, "<title>21:00–21:01 UTC\ndelivered 1,234</title>")
		require.Contains(t, page, "<title>21:01–21:02 UTC\nnone</title>")
		require.Contains(t, page, "<title>21:02–21:03 UTC, so far\nexpired 2\ndelivered 7</title>")
		require.Contains(t, page, `role="img" aria-label="Outcomes a minute, 30 Nov 21:00 to 30 Nov 21:03 UTC: delivered 1,241, expired 2."`)
		require.Contains(t, page, `<time datetime="2026-11-30T21:00:00Z">2026-11-30 21:00</time>`)
		require.NotContains(t, page, `datetime="2026-11-30T21:01:00Z"`, "an empty stretch has no row")
		require.Equal(t, 2, strings.Count(page, `<th scope="row"`))
	})

	t.Run("carries no style and no script", func(t *testing.T) {
		t.Parallel()
		page := render(t, chartOf(time.Minute, Series{Name: `<script>"x"`, Hue: HueGood, Values: []float64{1}}))
		require.NotRegexp(t, `(?i)\sstyle=|<script|\son[a-z]+=`, page)
	})

	t.Run("without figures there is a sentence and no drawing", func(t *testing.T) {
		t.Parallel()
		page := render(t, chartOf(time.Minute, Series{Name: "delivered", Hue: HueGood, Values: []float64{0, 0}}))
		require.Contains(t, page, "Nothing was sent.")
		require.NotContains(t, page, "<svg")
	})
}

func TestUnitWrite(t *testing.T) {
	t.Parallel()
	for text, got := range map[string]string{
		"1,234": Counts.Write(1234), "–": Counts.Write(math.NaN()), "0.1/s": Rates.Write(.1), "12/s": Rates.Write(12), "1.5 s": Seconds.Write(1.5),
		"3.2 ms": Seconds.Write(.0032), "0 ms": Seconds.Write(0), "12 min 5 s": Seconds.Write(725), "3 h 20 min": Seconds.Write(12_000), "2 d 4 h": Seconds.Write(187_200),
	} {
		require.Equal(t, text, got)
	}
}
