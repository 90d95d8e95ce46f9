package jobs

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"weir/db/dbsqlc"
)

// fanoutPage bounds the deliveries that one transaction makes; a wider fan-out goes on in the next discovery run.
const fanoutPage = 2000

// fanout makes what events owe: per event and matching destination a ledger row and a unique job, in the caller's transaction.
type fanout struct {
	keys    *searchKeys
	queries *dbsqlc.Queries
	client  *river.Client[pgx.Tx]
	ids     deliveryIDs
	tally   *tally
}

// spread fans the events out, given by their row ids in ascending order, and returns how many deliveries it made. Whatever does not fit
// the page is marked on the event, in the same transaction; resuming says that some of them carry such a mark.
//
// Jobs are made available as far as each lane's window has room, the others pending, behind the gate. The room is read without a lock;
// the lanes are locked, counted and promoted at the very end, so their lock lives for one statement and the commit, and a window that
// ran empty in between cannot strand what was just parked.
func (f *fanout) spread(ctx context.Context, tx pgx.Tx, eventIDs []int64, resuming bool) (int, error) {
	matches, err := f.queries.DeliveryMatch(ctx, tx, eventIDs, fanoutPage+1)
	if err != nil {
		return 0, fmt.Errorf("match destinations: %w", err)
	}
	if resuming || len(matches) > fanoutPage {
		if matches, err = f.markRest(ctx, tx, eventIDs, matches); err != nil {
			return 0, err
		}
	}
	if len(matches) == 0 {
		return 0, nil
	}
	lanes, err := f.plan(ctx, tx, matches)
	if err != nil {
		return 0, err
	}
	if err := f.insert(ctx, tx, matches, lanes); err != nil {
		return 0, err
	}
	return len(matches), f.account(ctx, tx, lanes)
}

// markRest writes down where each event's fan-out stands and returns the matches that belong to this page.
func (f *fanout) markRest(ctx context.Context, tx pgx.Tx, eventIDs []int64, matches []dbsqlc.DeliveryMatchRow) ([]dbsqlc.DeliveryMatchRow, error) {
	after := make([]int64, len(eventIDs)) // -1: complete
	for i := range after {
		after[i] = -1
	}
	if len(matches) > fanoutPage {
		matches = matches[:fanoutPage]
		last := matches[fanoutPage-1]
		for i, id := range eventIDs {
			if id == last.EventID {
				after[i] = last.DestinationID
			} else if id > last.EventID {
				after[i] = 0
			}
		}
	}
	if err := f.queries.EventSetFanout(ctx, tx, eventIDs, after); err != nil {
		return nil, fmt.Errorf("mark fan-out: %w", err)
	}
	return matches, nil
}

// lanePlan is what one fan-out does to the lanes: how much goes into each window and how much behind the gate.
type lanePlan struct {
	ids     []int64
	room    map[int64]int32
	limited map[int64]bool
	open    map[int64]int32
	parked  map[int64]int32
	latest  map[int64]bool // lanes with a destination that wants only the latest
	made    []int64        // the deliveries to such destinations
}

func (f *fanout) plan(ctx context.Context, tx pgx.Tx, matches []dbsqlc.DeliveryMatchRow) (*lanePlan, error) {
	p := &lanePlan{room: map[int64]int32{}, limited: map[int64]bool{}, open: map[int64]int32{}, parked: map[int64]int32{}, latest: map[int64]bool{}}
	seen := map[int64]bool{}
	for _, m := range matches {
		if !seen[m.LaneID] {
			seen[m.LaneID] = true
			p.ids = append(p.ids, m.LaneID)
		}
	}
	rooms, err := f.queries.LaneRoom(ctx, tx, p.ids)
	if err != nil {
		return nil, fmt.Errorf("read lanes: %w", err)
	}
	for _, r := range rooms {
		p.room[r.ID], p.limited[r.ID] = r.Room, r.Limited
	}
	return p, nil
}

// place says whether the next delivery of a lane goes into the window.
func (p *lanePlan) place(lane int64, active bool) bool {
	if active && p.open[lane] < p.room[lane] {
		p.open[lane]++
		return true
	}
	p.parked[lane]++
	return false
}

// account locks the lanes in order, adds what was made, ends what that supersedes and lets through what has room by now. Lanes that keep
// no accounts and got no parked work are not touched.
func (f *fanout) account(ctx context.Context, tx pgx.Tx, p *lanePlan) error {
	add := dbsqlc.LaneAddParams{}
	for _, id := range p.ids {
		if p.limited[id] || p.parked[id] > 0 || p.latest[id] {
			add.Ids = append(add.Ids, id)
			add.Open = append(add.Open, p.open[id])
			add.Parked = append(add.Parked, p.parked[id])
		}
	}
	if len(add.Ids) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	batch.Queue(dbsqlc.LaneLock, add.Ids)
	batch.Queue(dbsqlc.LaneAdd, add.Ids, add.Open, add.Parked)
	if len(p.made) == 0 {
		batch.Queue(dbsqlc.LanePromote, add.Ids)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("account lanes: %w", err)
	}
	if len(p.made) == 0 {
		return nil
	}
	if err := f.supersede(ctx, tx, p.made); err != nil {
		return err
	}
	return promoteLanes(ctx, tx, add.Ids)
}

// supersede ends older versions that still wait, where a destination wants only the latest.
func (f *fanout) supersede(ctx context.Context, tx pgx.Tx, made []int64) error {
	rows, err := f.queries.DeliverySupersede(ctx, tx, made)
	if err != nil {
		return fmt.Errorf("supersede older versions: %w", err)
	}
	open, parked := map[int64]int32{}, map[int64]int32{}
	jobs := make([]int64, len(rows))
	for i, row := range rows {
		jobs[i] = jobOf(row.JobID)
		f.tally.ended(row.DestinationID, StateSuperseded, 1) // a statistic: should this transaction fail, it is off by these
		if row.Parked {
			parked[row.LaneID]--
		}
		if row.InWindow {
			open[row.LaneID]--
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := addToLanes(ctx, tx, f.queries, open, parked); err != nil {
		return err
	}
	return f.queries.RiverJobCancelWaiting(ctx, tx, jobs)
}

func (f *fanout) insert(ctx context.Context, tx pgx.Tx, matches []dbsqlc.DeliveryMatchRow, plan *lanePlan) error {
	params := make([]river.InsertManyParams, len(matches))
	rows := dbsqlc.DeliveryInsertManyParams{}
	for i, m := range matches {
		id, err := f.ids.next(ctx, tx, f.queries)
		if err != nil {
			return err
		}
		inWindow := plan.place(m.LaneID, m.Active)
		if m.Latest {
			plan.made, plan.latest[m.LaneID] = append(plan.made, id), true
		}
		params[i] = river.InsertManyParams{
			Args: DeliverArgs{DeliveryID: id, Try: 1}, InsertOpts: &river.InsertOpts{Pending: !inWindow, Priority: int(m.Priority)},
		}
		rows.Ids = append(rows.Ids, id)
		rows.EventIds = append(rows.EventIds, m.EventID)
		rows.DestinationIds = append(rows.DestinationIds, m.DestinationID)
		rows.LaneIds = append(rows.LaneIds, m.LaneID)
		rows.Parked = append(rows.Parked, !inWindow)
		rows.InWindow = append(rows.InWindow, inWindow)
		rows.ExpiresAt = append(rows.ExpiresAt, m.ExpiresAt)
		rows.Priorities = append(rows.Priorities, m.Priority)
	}
	inserted, err := f.client.InsertManyTx(ctx, tx, params)
	if err != nil {
		return fmt.Errorf("insert delivery jobs: %w", err)
	}
	for _, result := range inserted {
		rows.JobIds = append(rows.JobIds, result.Job.ID)
	}
	if err := f.queries.DeliveryInsertMany(ctx, tx, rows); err != nil {
		return fmt.Errorf("insert deliveries: %w", err)
	}
	return nil
}

// deliveryIDs hands out ids from blocks of the sequence: a job's arguments need the id before the row exists.
type deliveryIDs struct {
	mu        sync.Mutex
	free      int64
	remaining int64
}

// deliveryIDBlock is the increment of delivery_id_seq.
const deliveryIDBlock = 1000

func (d *deliveryIDs) next(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.remaining == 0 {
		block, err := queries.DeliveryNextID(ctx, tx)
		if err != nil {
			return 0, fmt.Errorf("reserve delivery ids: %w", err)
		}
		d.free, d.remaining = block, deliveryIDBlock
	}
	id := d.free
	d.free++
	d.remaining--
	return id, nil
}
