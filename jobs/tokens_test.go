package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbsqlc"
)

// tokenAsk is one ask that a line has made; whoever receives it answers it.
type tokenAsk struct {
	delivery int64
	reply    chan answer[receipt]
}

func (a tokenAsk) answer(verdict string, slotUS int64) {
	a.reply <- answer[receipt]{out: receipt{admission: dbsqlc.AttemptAdmitRow{DeliveryID: a.delivery, Verdict: verdict, SlotUs: slotUS, NowUs: slotUS}}}
}

// tokenBench is a line whose asks the test answers. Its lane has a token every ten seconds, the next one now.
func tokenBench() (*tokens, chan tokenAsk, admission) {
	asks, clock := make(chan tokenAsk, tokensAtOnce), newClock()
	clock.observe(0)
	line := newTokens(func(ask admitAsk) chan answer[receipt] {
		made := tokenAsk{ask.deliveryID, make(chan answer[receipt], 1)}
		asks <- made
		return made.reply
	}, clock)
	return line, asks, admission{AttemptAdmitRow: dbsqlc.AttemptAdmitRow{LaneID: 1, Verdict: "rate", PeriodUs: 10_000_000}}
}

// waits starts a waiter, and returns where its outcome will be once it stands in line.
func waits(ctx context.Context, line *tokens, a admission, delivery int64, limit time.Duration) chan placed {
	out := make(chan placed, 1)
	go func() {
		got, ok := line.await(ctx, admitAsk{deliveryID: delivery}, a, limit)
		if !ok {
			got.row.Verdict = "left"
		}
		out <- got
	}()
	return out
}

func TestTokens(t *testing.T) {
	t.Parallel()

	t.Run("who is refused stays first, and the next is not asked for until then", func(t *testing.T) {
		t.Parallel()
		line, asks, a := tokenBench()
		first := waits(t.Context(), line, a, 1, time.Minute)
		made := <-asks
		second := waits(t.Context(), line, a, 2, time.Minute)
		require.Eventually(t, func() bool { line.mu.Lock(); defer line.mu.Unlock(); return len(line.lanes[1].waiters) == 1 }, time.Second, time.Millisecond)
		made.answer("rate", 0) // somebody came in between
		again := <-asks
		require.EqualValues(t, 1, again.delivery)
		again.answer(verdictGranted, 0)
		require.Equal(t, verdictGranted, (<-first).row.Verdict)
		next := <-asks
		require.EqualValues(t, 2, next.delivery)
		next.answer("held", 0)
		require.Equal(t, "held", (<-second).row.Verdict, "what is no question of tokens is the answer")
		require.Eventually(t, func() bool { line.mu.Lock(); defer line.mu.Unlock(); return len(line.lanes) == 0 }, time.Second, time.Millisecond, "an empty line ends")
	})

	t.Run("a line that is longer than the wait is not joined", func(t *testing.T) {
		t.Parallel()
		line, _, a := tokenBench()
		a.SlotUs = 5_000_000
		require.Equal(t, "left", (<-waits(t.Context(), line, a, 1, time.Second)).row.Verdict)
		require.Empty(t, line.lanes)
	})

	t.Run("who leaves while it is asked for takes the answer with it", func(t *testing.T) {
		t.Parallel()
		line, asks, a := tokenBench()
		ctx, leave := context.WithCancel(t.Context())
		out := waits(ctx, line, a, 1, time.Minute)
		made := <-asks
		leave()
		made.answer(verdictGranted, 0)
		require.Equal(t, verdictGranted, (<-out).row.Verdict, "granted is granted: it has to be settled")
	})

	t.Run("who leaves while it is refused is not asked for again", func(t *testing.T) {
		t.Parallel()
		line, asks, a := tokenBench()
		w := &tokenWaiter{ask: admitAsk{deliveryID: 1}, answer: make(chan placed, 1)}
		require.True(t, line.join(a, w, time.Minute))
		made := <-asks
		left := make(chan placed)
		go func() { got, _ := line.leave(1, w); left <- got }()
		require.Eventually(t, func() bool { line.mu.Lock(); defer line.mu.Unlock(); return w.gone }, time.Second, time.Millisecond)
		made.answer("rate", 0)
		select {
		case got := <-left:
			require.Equal(t, "rate", got.row.Verdict)
		case <-asks:
			require.Fail(t, "it was asked for again, and nobody would settle what is granted")
		}
	})
}
