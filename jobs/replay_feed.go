package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"weir/db/dbsqlc"
)

// Bounds of one tick of the feeder, so that it does not hold up the rest of the sweep.
const (
	feedTime   = 1500 * time.Millisecond // it goes on with the next run at the next tick
	feedPage   = 500                     // deliveries in one transaction
	feedLanes  = 100                     // lanes in one transaction
	settlePage = 1000
	selectTime = 300 * time.Millisecond // of one run; then it feeds what it has
)

// replayFeeder moves replay runs on, a step of the sweep: it selects, reopens what each run's share of each lane lets through, writes down
// how it ended, and closes runs that are through. All of its state is in the database, so any process can go on where another ended.
type replayFeeder struct {
	replaySender
	pool *pgxpool.Pool
	log  *slog.Logger
	last int64 // the run that the tick before ended with
}

func (f *replayFeeder) step(ctx context.Context) error {
	runs, err := f.queries.ReplayListUnfinished(ctx, f.pool, 200)
	if err != nil {
		return fmt.Errorf("list replays: %w", err)
	}
	until := time.Now().Add(feedTime)
	var errs []error // one run's fault is not the others'
	for _, run := range rotate(runs, f.last) {
		if time.Now().After(until) {
			break
		}
		f.last = run.ID
		if err := f.move(ctx, run, until); err != nil {
			errs = append(errs, fmt.Errorf("replay %d: %w", run.ID, err))
		}
	}
	return errors.Join(errs...)
}

// rotate begins with the run after the last one, so that each gets its turn.
func rotate(runs []dbsqlc.Replay, last int64) []dbsqlc.Replay {
	for i, run := range runs {
		if run.ID > last {
			return append(append([]dbsqlc.Replay{}, runs[i:]...), runs[:i]...)
		}
	}
	return runs
}

func (f *replayFeeder) move(ctx context.Context, run dbsqlc.Replay, until time.Time) error {
	if err := f.settle(ctx, run.ID, until); err != nil {
		return err
	}
	switch run.State {
	case ReplayStopped:
		if err := f.restore(ctx, f.pool, run.ID); err != nil {
			return err
		}
	case ReplayRunning:
		if run.Selecting {
			if err := f.selectMore(ctx, run.ID); err != nil {
				return err
			}
		}
		if err := f.feed(ctx, run, until); err != nil {
			return err
		}
	}
	ended, err := f.queries.ReplayFinish(ctx, f.pool, run.ID)
	if err == nil && ended > 0 {
		f.log.InfoContext(ctx, "replay ended", "replay_id", run.ID)
	}
	return err
}

// settle writes down how the run's deliveries have ended.
func (f *replayFeeder) settle(ctx context.Context, id int64, until time.Time) error {
	for n := int32(settlePage); n == settlePage && time.Now().Before(until); {
		err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) (err error) {
			if _, err = f.queries.ReplayLock(ctx, tx, id); err != nil {
				return err
			}
			n, err = f.queries.ReplayItemSettle(ctx, tx, id, settlePage)
			return err
		})
		if err != nil {
			return fmt.Errorf("settle replay items: %w", err)
		}
	}
	return nil
}

func (f *replayFeeder) selectMore(ctx context.Context, id int64) error {
	for more, until := true, time.Now().Add(selectTime); more && time.Now().Before(until); {
		err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) (err error) {
			_, more, err = f.selectStretch(ctx, tx, id)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// selectStretch reads one stretch of the ledger for a run and adds what matches. It returns how many, and whether there may be more.
func (f *replayFeeder) selectStretch(ctx context.Context, tx pgx.Tx, id int64) (int, bool, error) {
	run, err := f.queries.ReplayLock(ctx, tx, id)
	if err != nil {
		return 0, false, fmt.Errorf("lock replay: %w", err)
	}
	if run.State != ReplayRunning || !run.Selecting {
		return 0, false, nil
	}
	filter, err := DecodeReplayFilter(run.Filter)
	if err != nil {
		return 0, false, err
	}
	reader := replayReader{queries: f.queries, filter: filter, by: run.CreatedAt}
	rows, at, err := reader.next(ctx, tx, replayCursor{stage: int(run.CursorStage), id: run.CursorID}, selectStretch)
	if err != nil {
		return 0, false, err
	}
	sum, err := f.queries.ReplayDestinationSum(ctx, tx, id)
	if err != nil {
		return 0, false, fmt.Errorf("count replay items: %w", err)
	}
	room := MaxReplayItems - int(sum.Waiting+sum.Sent+sum.Refused+sum.Restored)
	truncated := len(rows) > room
	items := dbsqlc.ReplayItemInsertManyParams{ReplayID: id}
	for _, row := range rows[:min(len(rows), room)] {
		items.DeliveryIds, items.DestinationIds = append(items.DeliveryIds, row.ID), append(items.DestinationIds, row.DestinationID)
		items.LaneIds, items.PreviousStates = append(items.LaneIds, row.LaneID), append(items.PreviousStates, row.State)
	}
	n := 0
	if len(items.DeliveryIds) > 0 {
		if n, err = f.selected(ctx, tx, items); err != nil {
			return 0, false, err
		}
	}
	more := !at.done && !truncated
	err = f.queries.ReplaySetCursor(ctx, tx, dbsqlc.ReplaySetCursorParams{
		Selecting: more, CursorStage: int32(at.stage), CursorID: at.id, Truncated: truncated, ID: id,
	})
	return n, more, err
}

// laneStanding is what a run has done on a lane, and what the lane is like.
type laneStanding = dbsqlc.ReplayLaneListStandingRow

// allowance is how many deliveries the run may feed to the lane now, and the credit that it has before that. Two bounds hold: those that
// want a request now are at most the share of the lane's window, and requests, retries included, follow the share of the lane's rate.
// A run whose deliveries keep failing stops feeding until some have ended: what it has not sent is safer where it is.
func allowance(l laneStanding, share float64) (n int, credit float64) {
	room := max(1, int(share*float64(l.WindowSize)))
	n = min(room-int(l.NowLive), unsettledBound(room)-int(l.Unsettled), int(l.Waiting))
	credit = l.Credit
	if l.Rate > 0 {
		pace := share * l.Rate
		most := max(1+1.5*pace, share*float64(l.Burst)) // a tick comes every second, and now and then a little later
		credit = min(most, credit+pace*l.ElapsedS) - float64(l.Retries-l.Charged)
		n = min(n, int(credit+1e-9))
	}
	if l.Held {
		n = 0
	}
	return max(0, n), credit
}

// unsettledBound is how many of a run's deliveries one lane may have under way, those that wait for a retry included.
func unsettledBound(room int) int { return max(100, 10*room) }

func (f *replayFeeder) feed(ctx context.Context, run dbsqlc.Replay, until time.Time) error {
	if err := f.refuseHopeless(ctx, run.ID, false); err != nil {
		return err
	}
	for after := int64(0); time.Now().Before(until); {
		lanes, err := f.queries.ReplayLaneListStanding(ctx, f.pool, dbsqlc.ReplayLaneListStandingParams{ReplayID: run.ID, After: after, Max: feedLanes})
		if err != nil {
			return fmt.Errorf("read lanes: %w", err)
		}
		if len(lanes) == 0 {
			return nil
		}
		after = lanes[len(lanes)-1].LaneID
		for len(lanes) > 0 && time.Now().Before(until) {
			page, left := planFeed(lanes, run.Share)
			lanes = left
			if len(page.lanes) == 0 {
				break
			}
			if err := f.feedPage(ctx, run.ID, page); err != nil {
				return err
			}
		}
	}
	return nil
}

// feedPlan is one transaction of the feeder: per lane how many to send, and the credit that is left if all of them are.
type feedPlan struct {
	lanes   []int64
	maxes   []int32
	credits map[int64]float64
	rates   map[int64]laneStanding
}

// planFeed fills one transaction from the lanes; what does not fit stays for the next.
func planFeed(lanes []laneStanding, share float64) (p feedPlan, left []laneStanding) {
	p = feedPlan{credits: map[int64]float64{}, rates: map[int64]laneStanding{}}
	total := 0
	for i, lane := range lanes {
		n, credit := allowance(lane, share)
		if n == 0 {
			continue
		}
		if total == feedPage {
			return p, lanes[i:]
		}
		take := min(n, feedPage-total)
		total += take
		p.lanes, p.maxes = append(p.lanes, lane.LaneID), append(p.maxes, int32(take))
		p.credits[lane.LaneID], p.rates[lane.LaneID] = credit, lane
		if take < n { // the rest of this lane, as it is after this page
			rest := lane
			rest.Credit, rest.ElapsedS, rest.Charged = credit-float64(take), 0, lane.Retries
			rest.NowLive, rest.Unsettled, rest.Waiting = lane.NowLive+int32(take), lane.Unsettled+int32(take), lane.Waiting-int32(take)
			return p, append([]laneStanding{rest}, lanes[i+1:]...)
		}
	}
	return p, nil
}

func (f *replayFeeder) feedPage(ctx context.Context, id int64, p feedPlan) error {
	short := false
	err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		if err := f.queries.LaneLock(ctx, tx, p.lanes); err != nil {
			return fmt.Errorf("lock lanes: %w", err)
		}
		if run, err := f.queries.ReplayLock(ctx, tx, id); err != nil || run.State != ReplayRunning {
			return err
		}
		rows, err := f.queries.ReplayItemListNext(ctx, tx, dbsqlc.ReplayItemListNextParams{ReplayID: id, LaneIds: p.lanes, Maxes: p.maxes})
		if err != nil {
			return fmt.Errorf("take replay items: %w", err)
		}
		short = len(rows) == 0
		var send, refused []replaySend
		var refusals []string
		for _, row := range rows {
			item := replaySend{row.ID, row.DestinationID, row.LaneID, row.Try, row.Priority}
			if refusal := feedRefusal(row); refusal != "" {
				refused, refusals = append(refused, item), append(refusals, refusal)
				continue
			}
			send = append(send, item)
			p.credits[row.LaneID]--
		}
		if err := f.refuse(ctx, tx, id, refused, refusals); err != nil {
			return err
		}
		if err := f.send(ctx, tx, id, send); err != nil {
			return err
		}
		return f.charge(ctx, tx, id, p)
	})
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	if short {
		return f.refuseHopeless(ctx, id, true)
	}
	return nil
}

// feedRefusal says why an item is not sent after all. Where it was delivered since, sending would only be a duplicate.
func feedRefusal(row dbsqlc.ReplayItemListNextRow) string {
	switch {
	case row.State == StatePending || row.State == StateRetrying:
		if row.ReplayID != nil {
			return fmt.Sprintf("it is being sent again by replay rpl_%d", *row.ReplayID)
		}
		return "it is still being delivered (" + row.State + ")"
	case row.State != row.PreviousState:
		return "it was " + row.PreviousState + " when selected, and is " + row.State + " now"
	}
	return ""
}

func (f *replayFeeder) charge(ctx context.Context, tx pgx.Tx, id int64, p feedPlan) error {
	c := dbsqlc.ReplayLaneSetCreditParams{ReplayID: id}
	for _, lane := range p.lanes {
		c.LaneIds, c.Credits = append(c.LaneIds, lane), append(c.Credits, p.credits[lane])
		c.Charged, c.FedAt = append(c.Charged, p.rates[lane].Retries), append(c.FedAt, p.rates[lane].At)
	}
	if err := f.queries.ReplayLaneSetCredit(ctx, tx, c); err != nil {
		return fmt.Errorf("charge lanes: %w", err)
	}
	return nil
}

// refuseHopeless ends what can never be sent: of deleted destinations and, where asked, what the ledger has no more.
func (f *replayFeeder) refuseHopeless(ctx context.Context, id int64, missing bool) error {
	for n := int64(1); n > 0; {
		err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) (err error) {
			if _, err = f.queries.ReplayLock(ctx, tx, id); err != nil {
				return err
			}
			if missing {
				n, err = f.queries.ReplayItemRefuseMissing(ctx, tx, id, settlePage)
			} else {
				n, err = f.queries.ReplayItemRefuseDeleted(ctx, tx, id, settlePage)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("refuse replay items: %w", err)
		}
	}
	return nil
}
