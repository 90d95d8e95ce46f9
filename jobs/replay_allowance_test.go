package jobs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReplayAllowance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lane   laneStanding
		share  float64
		n      int
		credit float64
	}{
		"a quarter of 20/s, each second":              {laneStanding{Rate: 20, Burst: 10, WindowSize: 40, ElapsedS: 1, Waiting: 300}, 0.25, 5, 5},
		"what was not used does not pile up":          {laneStanding{Rate: 20, Burst: 1, WindowSize: 40, ElapsedS: 3600, Waiting: 300}, 0.25, 8, 8.5},
		"fractions carry over":                        {laneStanding{Rate: 1, Burst: 1, WindowSize: 2, Credit: 0.75, ElapsedS: 0.5, Waiting: 9}, 0.5, 1, 1},
		"not yet":                                     {laneStanding{Rate: 1, Burst: 1, WindowSize: 2, Credit: 0.25, ElapsedS: 1, Waiting: 9}, 0.5, 0, 0.75},
		"one an hour gives one in two hours":          {laneStanding{Rate: 1.0 / 3600, Burst: 1, WindowSize: 1, ElapsedS: 7200, Waiting: 9}, 0.5, 1, 1},
		"and not sooner":                              {laneStanding{Rate: 1.0 / 3600, Burst: 1, WindowSize: 1, ElapsedS: 7000, Waiting: 9}, 0.5, 0, 7000.0 / 7200},
		"its part of the window is full":              {laneStanding{Rate: 20, Burst: 10, WindowSize: 40, ElapsedS: 1, NowLive: 8, Unsettled: 8, Waiting: 300}, 0.25, 2, 5},
		"one is under way where the part is below it": {laneStanding{Rate: 1, Burst: 5, WindowSize: 2, ElapsedS: 9, NowLive: 1, Unsettled: 1, Waiting: 9}, 0.25, 0, 1.375},
		"its retries are charged":                     {laneStanding{Rate: 20, Burst: 10, WindowSize: 40, ElapsedS: 1, Retries: 9, Charged: 5, Waiting: 300}, 0.25, 1, 1},
		"more retries than credit":                    {laneStanding{Rate: 20, Burst: 10, WindowSize: 40, ElapsedS: 1, Retries: 9, Waiting: 300}, 0.25, 0, -4},
		"too many wait for a retry":                   {laneStanding{Rate: 20, Burst: 10, WindowSize: 40, ElapsedS: 1, Unsettled: 98, Waiting: 300}, 0.25, 2, 5},
		"its lane is held":                            {laneStanding{Rate: 20, Burst: 10, WindowSize: 40, ElapsedS: 1, Held: true, Waiting: 300}, 0.25, 0, 5},
		"no rate: the window alone":                   {laneStanding{WindowSize: 1000, NowLive: 100, Unsettled: 100, Waiting: 5000}, 0.5, 400, 0},
		"no more than waits":                          {laneStanding{WindowSize: 1000, Waiting: 3}, 1, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, credit := allowance(c.lane, c.share)
			require.Equal(t, c.n, n)
			require.InDelta(t, c.credit, credit, 1e-9)
		})
	}

	t.Run("over an hour of uneven ticks it feeds exactly its share", func(t *testing.T) {
		t.Parallel()
		lane, fed := laneStanding{Rate: 7, Burst: 1, WindowSize: 14, Waiting: 1 << 20}, 0
		for tick, second := 0, 0.0; second < 3600; tick++ {
			lane.ElapsedS = []float64{1, 1.4, 0.7, 1.1}[tick%4]
			second += lane.ElapsedS
			n, credit := allowance(lane, 0.3)
			lane.Credit = credit - float64(n)
			fed += n
		}
		require.InDelta(t, 0.3*7*3600, fed, 3)
	})

	t.Run("a page is filled from several lanes, and what does not fit is left with its credit", func(t *testing.T) {
		t.Parallel()
		lanes := []laneStanding{
			{LaneID: 1, WindowSize: 1000, Waiting: 450}, {LaneID: 2, WindowSize: 1000, Waiting: 0},
			{LaneID: 3, Rate: 1000, Burst: 1, WindowSize: 2000, ElapsedS: 1, Waiting: 5000, At: time.Unix(1, 0)}, {LaneID: 4, WindowSize: 1000, Waiting: 7},
		}
		page, left := planFeed(lanes, 1)
		require.Equal(t, []int64{1, 3}, page.lanes)
		require.Equal(t, []int32{450, 50}, page.maxes)
		total := 50
		for len(left) > 0 {
			page, left = planFeed(left, 1)
			if page.lanes[0] == 3 {
				total += int(page.maxes[0])
			}
		}
		require.Equal(t, 1000, total)
		require.Equal(t, []int64{4}, page.lanes[len(page.lanes)-1:])
	})
}
