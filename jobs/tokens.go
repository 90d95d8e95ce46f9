package jobs

import (
	"context"
	"slices"
	"sync"
	"time"
)

// tokens is the line of those who wait for a lane's next token. Only the first in line are asked for, as many as tokens are due, and who is
// refused stays first: whoever came in between (a newcomer, another process) has then moved the whole line back by one, not set its
// members to compete. (Each waiting for itself, 500 requests a second took 3,300 asks.)
type tokens struct {
	ask   func(admitAsk) chan answer[receipt]
	clock *clock

	mu    sync.Mutex
	lanes map[int64]*tokenLine
}

// tokenLine is one lane's. Its times are the database's, in microseconds.
type tokenLine struct {
	slot    int64 // of the next token, as far as is known
	period  int64
	waiters []*tokenWaiter
	running bool
}

type tokenWaiter struct {
	ask    admitAsk
	answer chan placed
	gone   bool // waits for the answer to an ask that is under way, and no longer
}

// tokensAtOnce bounds the asks that one look at a line makes.
const tokensAtOnce = 64

func newTokens(ask func(admitAsk) chan answer[receipt], clock *clock) *tokens {
	return &tokens{ask: ask, clock: clock, lanes: map[int64]*tokenLine{}}
}

// await waits in line until the ask is answered otherwise than "not yet", at most for limit. It reports false where the line is too long for
// that, or when ctx ended or limit passed without an answer.
func (t *tokens) await(ctx context.Context, ask admitAsk, a admission, limit time.Duration) (placed, bool) {
	w := &tokenWaiter{ask: ask, answer: make(chan placed, 1)}
	if !t.join(a, w, limit) {
		return placed{}, false
	}
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case answer := <-w.answer:
		return answer, true
	case <-over.C:
		return t.leave(a.LaneID, w)
	case <-ctx.Done():
		return t.leave(a.LaneID, w)
	}
}

// join puts a waiter at the end of its lane's line, unless its token is further away than limit.
func (t *tokens) join(a admission, w *tokenWaiter, limit time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lanes[a.LaneID]
	if line == nil {
		line = &tokenLine{slot: a.SlotUs}
	}
	line.period = max(1, a.PeriodUs)
	last := max(a.SlotUs, line.slot+int64(len(line.waiters))*line.period)
	if time.Duration(last-askAhead(line.period)-t.clock.now())*time.Microsecond > limit {
		return false
	}
	line.waiters = append(line.waiters, w)
	if !line.running {
		line.running = true
		t.lanes[a.LaneID] = line
		go t.run(a.LaneID, line)
	}
	return true
}

// leave takes a waiter out of the line; one that is being asked for gets that answer.
func (t *tokens) leave(lane int64, w *tokenWaiter) (placed, bool) {
	t.mu.Lock()
	if line := t.lanes[lane]; line != nil {
		if i := slices.Index(line.waiters, w); i >= 0 {
			line.waiters = slices.Delete(line.waiters, i, i+1)
			t.mu.Unlock()
			return placed{}, false
		}
	}
	w.gone = true
	t.mu.Unlock()
	answer := <-w.answer         // a commit answers within its timeout
	return answer, !answer.again // what was granted must be settled, whoever has gone
}

// run asks for a line until it is empty.
func (t *tokens) run(lane int64, line *tokenLine) {
	for {
		t.mu.Lock()
		if len(line.waiters) == 0 {
			delete(t.lanes, lane)
			t.mu.Unlock()
			return
		}
		wait := time.Duration(line.slot-askAhead(line.period)-t.clock.now()) * time.Microsecond
		t.mu.Unlock()
		if wait > 0 {
			time.Sleep(min(wait, maxWait))
		}
		t.serve(line, t.due(line))
	}
}

// due takes those out of the line whose tokens are near enough to be granted.
func (t *tokens) due(line *tokenLine) []*tokenWaiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 1 + (t.clock.now()+askAhead(line.period)-line.slot)/line.period
	n = min(max(1, n), tokensAtOnce, int64(len(line.waiters)))
	due := slices.Clone(line.waiters[:n])
	line.waiters = slices.Delete(line.waiters, 0, int(n))
	return due
}

// serve asks for the waiters together and answers them; those who are refused again are first in line again.
func (t *tokens) serve(line *tokenLine, due []*tokenWaiter) {
	replies := make([]chan answer[receipt], len(due))
	for i, w := range due {
		replies[i] = t.ask(w.ask)
	}
	answers := make([]answer[receipt], len(due))
	for i := range replies {
		answers[i] = <-replies[i]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var back []*tokenWaiter
	for i, a := range answers {
		row := a.out.admission
		switch {
		case a.err != nil:
			due[i].answer <- placed{again: true} // asking itself, it gets the error
		case row.Verdict == "rate" && !due[i].gone:
			if back = append(back, due[i]); len(back) == 1 {
				line.slot = row.SlotUs
			}
		default:
			if row.Verdict == verdictGranted && len(back) == 0 {
				// Granted for a time to come, the next token is one period later; granted at once, there may be more of a burst.
				if line.slot = row.SlotUs; row.SlotUs > row.NowUs {
					line.slot += line.period
				}
			}
			due[i].answer <- placed{row: row}
		}
	}
	line.waiters = append(back, line.waiters...)
}
