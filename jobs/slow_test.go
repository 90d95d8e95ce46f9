package jobs

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
	"weir/jobs/webhook"
)

const countSlow = "SELECT count(*) FROM lane WHERE slow_since IS NOT NULL"

func (b *bundle) text(t *testing.T, sql string, args ...any) string {
	t.Helper()
	var s string
	require.NoError(t, b.pool.QueryRow(t.Context(), sql, args...).Scan(&s))
	return s
}

func TestASlowReceiverIsMarkedAndComesBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start(t, Options{}) // it may see what the first does not
	var told atomic.Int64
	b.engine.slow.mu.Lock()
	move := b.engine.slow.onSlow
	b.engine.slow.onSlow = func(ctx context.Context, lanes []int64) error {
		told.Add(int64(len(lanes)))
		return move(ctx, lanes)
	}
	b.engine.slow.mu.Unlock()
	var slow atomic.Bool
	slow.Store(true)
	b.receiver.answers(func(_ int, r *http.Request, _ []byte, _ http.ResponseWriter) {
		if r.URL.Path == "/slow" && slow.Load() {
			time.Sleep(1200 * time.Millisecond)
		}
	})
	d := b.destination(t, &dbfactory.DestinationOpts{Rate: 20, Burst: 10, MaxInFlight: 4, URL: b.receiver.URL + "/slow"})
	b.destination(t, &dbfactory.DestinationOpts{})
	for range 60 {
		b.publish(t, Event{})
	}
	eventually(t, 20*time.Second, "the lane is marked", func() bool { return b.count(t, countSlow) == 1 })
	require.Equal(t, 1, b.count(t, countSlow+" AND id = $1", d.LaneID))
	require.Regexp(t, `^answers took 1\.\d+ s on average over the last \d+$`,
		b.text(t, "SELECT reason FROM lane_change WHERE lane_id = $1 AND kind = 'slow'", d.LaneID))
	slow.Store(false)
	_, err := b.pool.Exec(t.Context(), "UPDATE lane SET slow_since = slow_since - interval '1 minute' WHERE slow_since IS NOT NULL")
	require.NoError(t, err)
	eventually(t, time.Minute, "the lane is unmarked", func() bool {
		b.publish(t, Event{})
		return b.count(t, countSlow) == 0
	})
	require.Regexp(t, `^(answers|the last answer) took \d+ ms`, b.text(t, "SELECT reason FROM lane_change WHERE lane_id = $1 AND kind = 'recovered'", d.LaneID))
	require.Equal(t, 2, b.count(t, "SELECT count(*) FROM lane_change"), "of all processes, one writes each change, and only changes are written")
	require.LessOrEqual(t, told.Load(), int64(1))
}

func TestSlowLanesWithoutTrafficComeBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	idle := b.destination(t, &dbfactory.DestinationOpts{})
	busy := b.destination(t, &dbfactory.DestinationOpts{Rate: 1})
	fresh := b.destination(t, &dbfactory.DestinationOpts{})
	_, err := b.pool.Exec(t.Context(), "UPDATE lane SET slow_since = now() - CASE WHEN id = $1 THEN interval '1 minute' ELSE interval '1 hour' END", fresh.LaneID)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `
		INSERT INTO tally (destination_id, step_s, at, requests, timeout)
		VALUES ($1, 60, now() - interval '6 minutes', 9, 9), ($2, 60, now() - interval '4 minutes', 1, 1)`, idle.ID, busy.ID)
	require.NoError(t, err)
	require.NoError(t, b.engine.sweeper.recoverIdle(t.Context()))
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM lane WHERE slow_since IS NULL"))
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM lane_change WHERE lane_id = $1 AND kind = 'recovered'", idle.LaneID))
}

func TestJudgeSlow(t *testing.T) {
	t.Parallel() // its parts run one after another, so that they share a now
	start := time.Now()
	answer := func(s *slowTracker, lane int64, ago, took time.Duration) {
		s.leave(&flight{lane: lane, since: time.Now().Add(-took)}, webhook.Outcome{Status: 200})
		l := s.lanes[lane]
		l.last[(l.n-1)%len(l.last)].at = start.Add(-ago)
	}
	judge := func(s *slowTracker, marked ...int64) (slow, recovered map[int64]string) {
		return s.judge(start, marked)
	}

	t.Run("a mean over a second of five answers within ten", func(t *testing.T) {
		s := newSlowTracker(nil, nil, nil, 1000)
		for range 5 {
			answer(s, 1, time.Second, 3*time.Second)
			answer(s, 2, time.Second, 900*time.Millisecond)
			answer(s, 3, 11*time.Second, 3*time.Second)
		}
		for range 4 {
			answer(s, 4, time.Second, 3*time.Second)
		}
		slow, _ := judge(s)
		require.Equal(t, map[int64]string{1: "answers took 3 s on average over the last 5"}, slow)
	})

	t.Run("workers that hang, more than a twentieth", func(t *testing.T) {
		s := newSlowTracker(nil, nil, nil, 200) // of which a twentieth is 10
		for i := range 10 {
			s.enter(1)
			if i < 9 {
				s.enter(2)
			}
		}
		slow, _ := s.judge(start.Add(900*time.Millisecond), nil)
		require.Empty(t, slow)
		slow, _ = s.judge(start.Add(3*time.Second), nil)
		require.Equal(t, map[int64]string{1: "10 requests of one process have waited more than 1 s for an answer"}, slow)
	})

	t.Run("three timeouts in a row", func(t *testing.T) {
		s := newSlowTracker(nil, nil, nil, 1000)
		for _, class := range []string{webhook.ClassTimeout, webhook.ClassConnectTimeout, webhook.ClassTimeout} {
			s.enter(1)(webhook.Outcome{ErrorClass: class})
			s.enter(2)(webhook.Outcome{ErrorClass: class})
			s.enter(3)(webhook.Outcome{ErrorClass: webhook.ClassConnectionRefused})
		}
		s.enter(2)(webhook.Outcome{Status: 500})
		slow, _ := judge(s)
		require.Equal(t, map[int64]string{1: "3 requests in a row got no answer in time"}, slow)
		slow, _ = judge(s, 1)
		require.Empty(t, slow, "it is marked")
		slow, _ = judge(s)
		require.Empty(t, slow, "what came before the mark is forgotten with it")
	})

	t.Run("recovers by what came since the mark", func(t *testing.T) {
		s := newSlowTracker(nil, nil, nil, 1000)
		for range 5 {
			answer(s, 1, 0, time.Millisecond)
		}
		_, recovered := judge(s, 1, 2, 3)
		require.Empty(t, recovered, "the answers came before the mark was known")
		for range 4 {
			answer(s, 1, 0, 100*time.Millisecond)
			answer(s, 2, 0, 600*time.Millisecond)
		}
		answer(s, 3, 0, 100*time.Millisecond)
		s.enter(1)(webhook.Outcome{Status: 503})
		_, recovered = judge(s, 1, 2, 3)
		require.Empty(t, recovered, "too few so soon, and a quick refusal is none")
		answer(s, 1, 0, 100*time.Millisecond)
		answer(s, 2, 0, 600*time.Millisecond)
		_, recovered = judge(s, 1, 2, 3)
		require.Equal(t, []int64{1}, keys(recovered))
		_, recovered = s.judge(start.Add(29900*time.Millisecond), []int64{2, 3})
		require.Empty(t, recovered)
		s.lanes[3].last[0].at = start.Add(20 * time.Second)
		_, recovered = s.judge(start.Add(31*time.Second), []int64{2, 3})
		require.Equal(t, map[int64]string{3: "the last answer took 100 ms"}, recovered)
		s.enter(3)
		_, recovered = s.judge(start.Add(35*time.Second), []int64{3})
		require.Empty(t, recovered, "a request hangs")
	})

	t.Run("forgets lanes without requests", func(t *testing.T) {
		s := newSlowTracker(nil, nil, nil, 1000)
		answer(s, 1, 0, time.Second)
		s.judge(start.Add(6*time.Minute), nil)
		require.Empty(t, s.lanes)
	})
}

func keys(m map[int64]string) []int64 {
	lanes, _ := columns(m)
	return lanes
}

func TestMoveToQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, b.stop())
	b.engine = b.start(t, Options{Roles: []string{RoleWeb}})
	slow := b.destination(t, &dbfactory.DestinationOpts{Types: []string{"slow"}, MaxInFlight: 2})
	b.destination(t, &dbfactory.DestinationOpts{Types: []string{"quick"}})
	for range 5 {
		b.publish(t, Event{Type: "slow"})
		b.publish(t, Event{Type: "quick"})
	}
	require.NoError(t, b.engine.slow.moveToQueue(t.Context(), []int64{slow.LaneID}))
	require.Equal(t, 2, b.count(t, "SELECT count(*) FROM river_job WHERE queue = 'deliver_slow' AND state = 'available'"), "the lane's window")
	require.Equal(t, 2, b.count(t, `SELECT count(*) FROM river_job j JOIN delivery d ON d.job_id = j.id WHERE d.lane_id = $1 AND queue = 'deliver_slow'`, slow.LaneID))
	require.Equal(t, 5, b.count(t, "SELECT count(*) FROM river_job WHERE queue = 'deliver' AND state = 'available'"))
}
