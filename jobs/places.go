package jobs

import (
	"context"
	"slices"
	"sync"
	"time"
)

// places wakes those who wait for a place in flight when one of their lane comes free in this process. For one that another process frees,
// the first in line looks now and then.
type places struct {
	mu    sync.Mutex
	lanes map[int64][]chan struct{}
}

func newPlaces() *places { return &places{lanes: map[int64][]chan struct{}{}} }

// await reports whether to ask again: yes when a place came free or the limit is over, no when ctx ended. look says whether the lane has a
// place free. A waiter that is back (not first) keeps its place at the head of the line.
func (p *places) await(ctx context.Context, lane int64, limit time.Duration, first bool, look func() bool) bool {
	free, head := p.join(lane, first)
	over := time.NewTimer(limit)
	defer over.Stop()
	var looks <-chan time.Time
	if head {
		ticker := time.NewTicker(headLook)
		defer ticker.Stop()
		looks = ticker.C
	}
	for {
		select {
		case <-free:
			return true
		case <-looks:
			if look() {
				p.leave(lane, free)
				return true
			}
		case <-over.C:
			p.leave(lane, free)
			return true
		case <-ctx.Done():
			p.leave(lane, free)
			return false
		}
	}
}

// join puts a waiter in line, and says whether it is the first.
func (p *places) join(lane int64, first bool) (free chan struct{}, head bool) {
	free = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if waiters := p.lanes[lane]; first {
		p.lanes[lane] = append(waiters, free)
		return free, len(waiters) == 0
	}
	p.lanes[lane] = slices.Insert(p.lanes[lane], 0, free)
	return free, true
}

func (p *places) leave(lane int64, free chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiters := p.lanes[lane]
	if i := slices.Index(waiters, free); i >= 0 {
		waiters = slices.Delete(waiters, i, i+1)
	}
	p.store(lane, waiters)
}

// freed wakes the longest waiters of a lane, one per place.
func (p *places) freed(lane int64, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiters := p.lanes[lane]
	n = min(n, len(waiters))
	for _, w := range waiters[:n] {
		close(w)
	}
	p.store(lane, waiters[n:])
}

func (p *places) store(lane int64, waiters []chan struct{}) {
	if len(waiters) == 0 {
		delete(p.lanes, lane)
		return
	}
	p.lanes[lane] = waiters
}
