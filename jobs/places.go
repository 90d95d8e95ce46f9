package jobs

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/db/dbsqlc"
)

// places is the line of those who wait for a place in flight. A commit that frees places of a lane asks for the first in its line at the same
// time, so nobody who comes later is before them. For a place that another process frees, the first in line looks now and then.
type places struct {
	mu    sync.Mutex
	lanes map[int64][]*waiter
}

// waiter is one in line; whoever takes it out of the line answers it, once.
type waiter struct {
	ask    admitAsk
	answer chan placed
}

// placed is the answer to a waiter: an admission, or that it should ask itself.
type placed struct {
	row   dbsqlc.AttemptAdmitRow
	again bool
}

func newPlaces() *places { return &places{lanes: map[int64][]*waiter{}} }

// await waits until the ask is answered, or for so long that it should ask itself. look says whether the lane has a place free. A waiter that
// is back (not first) keeps its place at the head of the line. It reports false when ctx ended.
func (p *places) await(ctx context.Context, lane int64, ask admitAsk, limit time.Duration, first bool, look func() bool) (placed, bool) {
	w := &waiter{ask, make(chan placed, 1)}
	over := time.NewTimer(limit)
	defer over.Stop()
	var looks <-chan time.Time
	if head := p.join(lane, w, first); head {
		ticker := time.NewTicker(headLook)
		defer ticker.Stop()
		looks = ticker.C
	}
	for {
		select {
		case answer := <-w.answer:
			return answer, true
		case <-looks:
			if look() {
				return p.leave(lane, w), true
			}
		case <-over.C:
			return p.leave(lane, w), true
		case <-ctx.Done():
			answer := p.leave(lane, w)
			return answer, !answer.again // what was granted must be settled, whoever has gone
		}
	}
}

// join puts a waiter in line, and says whether it is the first.
func (p *places) join(lane int64, w *waiter, first bool) (head bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line := p.lanes[lane]; first {
		p.lanes[lane] = append(line, w)
		return len(line) == 0
	}
	p.lanes[lane] = slices.Insert(p.lanes[lane], 0, w)
	return true
}

// leave takes a waiter out of the line; one that is being answered already gets that answer.
func (p *places) leave(lane int64, w *waiter) placed {
	p.mu.Lock()
	line := p.lanes[lane]
	i := slices.Index(line, w)
	if i >= 0 {
		p.store(lane, slices.Delete(line, i, i+1))
	}
	p.mu.Unlock()
	if i < 0 {
		return <-w.answer // a commit answers within its timeout
	}
	return placed{again: true}
}

// take takes the first n out of a lane's line, to answer them.
func (p *places) take(lane int64, n int) []*waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := p.lanes[lane]
	n = min(n, len(line))
	taken := slices.Clone(line[:n])
	p.store(lane, slices.Delete(line, 0, n))
	return taken
}

// wake makes the first n of a lane's line ask themselves.
func (p *places) wake(lane int64, n int) {
	for _, w := range p.take(lane, n) {
		w.answer <- placed{again: true}
	}
}

func (p *places) store(lane int64, line []*waiter) {
	if len(line) == 0 {
		delete(p.lanes, lane)
		return
	}
	p.lanes[lane] = line
}
