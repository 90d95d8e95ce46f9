package ui

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimesAndSizesAreWrittenAsAPersonReadsThem(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{
		now.Add(-400 * time.Millisecond):                 "now",
		now.Add(-700 * time.Millisecond):                 "1 s ago",
		now.Add(90 * time.Second):                        "in 1 min",
		now.Add(-47 * time.Hour):                         "47 h ago",
		now.Add(-400 * 24 * time.Hour):                   "400 d ago",
		time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC):      "3 y ago",
		time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC):    "in 7973 y",
		time.Date(294_276, 12, 31, 0, 0, 0, 0, time.UTC): "in 292250 y",
		time.Date(-4712, 1, 1, 0, 0, 0, 0, time.UTC):     "6738 y ago",
	} {
		require.Equal(t, want, Relative(at, now), at)
	}
	for n, want := range map[int]string{0: "0 B", 1023: "1023 B", 2048: "2.0 KiB", 1<<20 + 14: "1.0 MiB", 10 << 20: "10.0 MiB"} {
		require.Equal(t, want, Bytes(n))
	}
}
