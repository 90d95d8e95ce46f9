package jobs

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"weir/db/dbsqlc"
)

// The pacing constants; each was chosen by measurement. The margin, which decides how late a sender may be, is the lane's: see its table.
const (
	maxWait    = 2 * time.Second        // the longest wait for a slot inside a worker; beyond it a delivery is parked
	lead       = 30 * time.Millisecond  // slots this near are granted now and sent at their time: the commit leaves the path
	travel     = 7 * time.Millisecond   // of a lane's margin, what the way to the receiver may take
	capWait    = 250 * time.Millisecond // the longest wait for a place in flight without asking again
	headLook   = 15 * time.Millisecond  // how often the first of a lane's waiters looks whether another process has freed one
	crowdWait  = 250 * time.Millisecond // the longest wait once half the workers wait
	reslotting = 10                     // how often a late sender asks for a new slot before it gives the grant back
)

const verdictGranted = "granted"

// admission is the answer to one job that wants to send.
type admission struct {
	dbsqlc.AttemptAdmitRow
	late bool // granted, but the process missed its slot and the next is too far: make no request
}

// until is how long it is from the admission's database time to t, never negative.
func (a admission) until(t time.Time) time.Duration {
	return max(0, time.Duration(t.UnixMicro()-a.NowUs)*time.Microsecond)
}

// admitAsk is a job that wants to send; slow says that it came from the slow queue.
type admitAsk struct {
	deliveryID, jobID int64
	slow              bool
}

// lateAsk is a granted request that missed its slot; tatUS is what its grant left in the lane.
type lateAsk struct{ laneID, tatUS int64 }

// limiter holds every lane's rate and in-flight cap, over all processes, by asking the database for each request (in batches), and
// makes the request leave at its slot.
type limiter struct {
	pool      *pgxpool.Pool
	committer *committer
	clock     *clock
	lates     *batcher[lateAsk, dbsqlc.LaneReslotManyRow]
	looks     *batcher[int64, bool]
	places    *places
	tokens    *tokens

	waiting atomic.Int64
	crowd   int64 // more than this many waiting workers are a crowd
}

func newLimiter(pool *pgxpool.Pool, committer *committer, workers int) *limiter {
	l := &limiter{
		pool: pool, committer: committer, clock: committer.clock, places: committer.places, crowd: int64(workers / 2),
	}
	l.tokens = newTokens(func(ask admitAsk) chan answer[receipt] { return committer.batch.start(entry{ask: &ask}) }, committer.clock)
	l.lates = newBatcher(1, 0, l.reslot)
	l.looks = newBatcher(1, headLook/2, l.look)
	return l
}

// reslot gives late requests new slots, as admission does new ones.
func (l *limiter) reslot(ctx context.Context, asks []lateAsk) ([]dbsqlc.LaneReslotManyRow, error) {
	lanes, tats := make([]int64, len(asks)), make([]int64, len(asks))
	for i, ask := range asks {
		lanes[i], tats[i] = ask.laneID, ask.tatUS
	}
	batch := &pgx.Batch{}
	batch.Queue(dbsqlc.LaneLock, lanes)
	batch.Queue(dbsqlc.LaneReslotMany, lanes, tats)
	results := l.pool.SendBatch(ctx, batch)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return nil, fmt.Errorf("lock lanes: %w", err)
	}
	rows, err := results.Query()
	if err != nil {
		return nil, fmt.Errorf("take new slots: %w", err)
	}
	slots, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dbsqlc.LaneReslotManyRow])
	if err != nil {
		return nil, fmt.Errorf("take new slots: %w", err)
	}
	if err := results.Close(); err != nil {
		return nil, fmt.Errorf("commit new slots: %w", err)
	}
	if len(slots) != len(asks) {
		return nil, fmt.Errorf("take new slots: %d answers to %d asks", len(slots), len(asks))
	}
	return slots, nil
}

func (l *limiter) close() {
	l.lates.close()
	l.looks.close()
}

// look says which lanes have a place in flight free, without locking them: to ask in vain costs everybody the lane's lock.
func (l *limiter) look(ctx context.Context, lanes []int64) ([]bool, error) {
	rows, err := l.committer.queries.LaneListFree(ctx, l.pool, lanes)
	if err != nil {
		return nil, fmt.Errorf("look for free places: %w", err)
	}
	free := make(map[int64]bool, len(rows))
	for _, row := range rows {
		free[row.ID] = row.Free > 0
	}
	found := make([]bool, len(lanes))
	for i, lane := range lanes {
		found[i] = free[lane]
	}
	return found, nil
}

// admit asks until the delivery is granted or has to leave: settled, paused, or its turn is further away than a worker may wait. What is
// granted returns at its slot.
func (l *limiter) admit(ctx context.Context, ask admitAsk) (admission, error) {
	deadline := time.Now().Add(maxWait)
	row, err := l.committer.admit(ask)
	for first := true; ; first = false {
		if err != nil {
			return admission{}, err
		}
		a := admission{AttemptAdmitRow: row}
		switch a.Verdict {
		case verdictGranted:
			l.places.wake(a.LaneID, int(a.Places)) // another process may have freed more than one
			a.late = !l.awaitSlot(ctx, a)
			return a, nil
		case "rate", "cap":
			if !a.InWindow {
				return a, nil
			}
			next, ok := l.await(ctx, ask, a, deadline, first)
			if !ok {
				return a, nil
			}
			if row = next.row; next.again {
				row, err = l.committer.admit(ask)
			}
		default:
			return a, nil
		}
	}
}

// await waits for the lane's next token or place. It reports false where that is too far away, or ctx ended.
func (l *limiter) await(ctx context.Context, ask admitAsk, a admission, deadline time.Time, first bool) (placed, bool) {
	limit := time.Until(deadline)
	if l.waiting.Add(1) > l.crowd {
		limit = min(limit, crowdWait)
	}
	defer l.waiting.Add(-1)
	if a.Verdict == "cap" {
		if limit <= 0 {
			return placed{}, false
		}
		return l.places.await(ctx, a.LaneID, ask, min(limit, capWait), first, func() bool {
			free, err := l.looks.do(a.LaneID)
			return free || err != nil // asking tells what is wrong
		})
	}
	return l.tokens.await(ctx, ask, a, limit)
}

// askAhead is how long before its slot a waiter asks, in microseconds: two thirds of the lane's lead (see AttemptAdmit), so that a token
// that comes a little later is still granted.
func askAhead(periodUS int64) int64 {
	return max(lead.Microseconds(), min(periodUS/4, 100_000)) * 2 / 3
}

// awaitSlot waits for the moment that was granted. A sender that comes late (a garbage collection, a busy host) would arrive together with
// the next one, so it takes a new slot; where that is too far away it reports false, and no request may be made.
func (l *limiter) awaitSlot(ctx context.Context, a admission) bool {
	if a.PeriodUs == 0 {
		return true
	}
	slot, tat := a.SlotUs, a.TatUs
	for range reslotting {
		if !sleep(ctx, time.Duration(slot-l.clock.now())*time.Microsecond) {
			return false
		}
		if l.clock.now()-slot <= a.MarginUs-travel.Microseconds() {
			return true
		}
		next, err := l.lates.do(lateAsk{a.LaneID, tat})
		if err != nil || time.Duration(next.SlotUs-l.clock.now())*time.Microsecond > maxWait {
			return false
		}
		slot, tat = next.SlotUs, next.TatUs
	}
	return false
}

// sleep waits and says whether it was left to: false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
