package jobs

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"weir/db/dbsqlc"
)

// fanoutPage bounds the deliveries that one transaction makes; a wider fan-out goes on in a discovery run.
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
	if err := f.account(ctx, tx, lanes); err != nil {
		return 0, err
	}
	f.tally.arrived(matches) // a statistic: should the commit fail, it is off by these
	return len(matches), nil
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

// lanePlan is what one fan-out does to the lanes: which delivery goes into its lane's window, which behind the gate, and at which turn.
type lanePlan struct {
	ids      []int64
	room     map[int64]dbsqlc.LaneRoomRow
	open     map[int64]int32
	parked   map[int64]int32
	inWindow []bool  // by match
	turn     []int64 // by match; 0 in the window
	turns    *turns
	touched  map[int64]bool // lanes whose deliveries may yet be superseded or blocked
	latest   []int64        // the deliveries to destinations that want only the latest version,
	serial   []int64        // and to those that want one after another
}

func (f *fanout) plan(ctx context.Context, tx pgx.Tx, matches []dbsqlc.DeliveryMatchRow) (*lanePlan, error) {
	p := &lanePlan{
		room: map[int64]dbsqlc.LaneRoomRow{}, open: map[int64]int32{}, parked: map[int64]int32{}, touched: map[int64]bool{},
		inWindow: make([]bool, len(matches)), turn: make([]int64, len(matches)), turns: newTurns(f.queries),
	}
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
		p.room[r.ID] = r
	}
	var flows []flow
	for i, m := range matches {
		if p.inWindow[i] = p.place(m.LaneID, m.Active); !p.inWindow[i] {
			flows = append(flows, flowOf(m))
		}
	}
	if len(flows) == 0 {
		return p, nil
	}
	if err := p.turns.read(ctx, tx, flows); err != nil {
		return nil, err
	}
	for i, m := range matches {
		if !p.inWindow[i] {
			p.turn[i] = p.turns.next(flowOf(m))
		}
	}
	return p, nil
}

func flowOf(m dbsqlc.DeliveryMatchRow) flow {
	return flow{lane: m.LaneID, priority: m.Priority, tenant: m.Tenant, class: classFirst}
}

// place says whether the next delivery of a lane goes into the window.
func (p *lanePlan) place(lane int64, active bool) bool {
	if active && p.open[lane] < p.room[lane].Room {
		p.open[lane]++
		return true
	}
	p.parked[lane]++
	return false
}

// account locks the lanes in order, adds what was made, ends what that supersedes, takes back what has to wait for an older version, and
// lets through what has room by now. Lanes that keep no accounts and got no parked work are not touched.
func (f *fanout) account(ctx context.Context, tx pgx.Tx, p *lanePlan) error {
	add := dbsqlc.LaneAddParams{}
	for _, id := range p.ids {
		if p.room[id].Limited || p.parked[id] > 0 || p.touched[id] {
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
	if taken := p.turns.taken(); len(taken.LaneIds) > 0 {
		batch.Queue(dbsqlc.LaneFlowSet, taken.LaneIds, taken.Priorities, taken.Tenants, taken.Classes, taken.Turns)
	}
	plain := len(p.latest) == 0 && len(p.serial) == 0
	if plain {
		batch.Queue(dbsqlc.LanePromote, add.Ids)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("account lanes: %w", err)
	}
	if plain {
		return nil
	}
	if err := f.supersede(ctx, tx, p.latest); err != nil {
		return err
	}
	if err := f.block(ctx, tx, p.serial); err != nil {
		return err
	}
	return promoteLanes(ctx, tx, add.Ids)
}

// block takes those that have an older version of their subject before them out of the gate's line, and out of the window.
func (f *fanout) block(ctx context.Context, tx pgx.Tx, made []int64) error {
	if len(made) == 0 {
		return nil
	}
	rows, err := f.queries.DeliveryBlock(ctx, tx, made)
	if err != nil {
		return fmt.Errorf("block younger versions: %w", err)
	}
	if len(rows) == 0 {
		return nil
	}
	gone := newDepartures(len(rows))
	for _, row := range rows {
		gone.add(row.LaneID, row.JobID, row.Parked, row.InWindow)
	}
	if err := gone.count(ctx, tx, f.queries); err != nil {
		return err
	}
	if err := f.queries.RiverJobPark(ctx, tx, gone.jobs); err != nil {
		return fmt.Errorf("park their jobs: %w", err)
	}
	return nil
}

// supersede ends older versions that still wait, where a destination wants only the latest.
func (f *fanout) supersede(ctx context.Context, tx pgx.Tx, made []int64) error {
	if len(made) == 0 {
		return nil
	}
	rows, err := f.queries.DeliverySupersede(ctx, tx, made)
	if err != nil {
		return fmt.Errorf("supersede older versions: %w", err)
	}
	if len(rows) == 0 {
		return nil
	}
	gone := newDepartures(len(rows))
	for _, row := range rows {
		gone.add(row.LaneID, row.JobID, row.Parked, row.InWindow)
		f.tally.ended(row.DestinationID, StateSuperseded, 1) // a statistic: should this transaction fail, it is off by these
	}
	return gone.end(ctx, tx, f.queries)
}

func (f *fanout) insert(ctx context.Context, tx pgx.Tx, matches []dbsqlc.DeliveryMatchRow, plan *lanePlan) error {
	params := make([]river.InsertManyParams, len(matches))
	rows := dbsqlc.DeliveryInsertManyParams{}
	for i, m := range matches {
		id, err := f.ids.next(ctx, tx, f.queries)
		if err != nil {
			return err
		}
		if m.Latest {
			plan.latest, plan.touched[m.LaneID] = append(plan.latest, id), true
		}
		if m.Serial {
			plan.serial, plan.touched[m.LaneID] = append(plan.serial, id), true
		}
		params[i] = river.InsertManyParams{
			Args:       DeliverArgs{DeliveryID: id, Try: 1},
			InsertOpts: &river.InsertOpts{Pending: !plan.inWindow[i], Priority: int(m.Priority), Queue: queueOf(plan.room[m.LaneID].Slow)},
		}
		rows.Ids = append(rows.Ids, id)
		rows.EventIds = append(rows.EventIds, m.EventID)
		rows.DestinationIds = append(rows.DestinationIds, m.DestinationID)
		rows.LaneIds = append(rows.LaneIds, m.LaneID)
		rows.Parked = append(rows.Parked, !plan.inWindow[i])
		rows.InWindow = append(rows.InWindow, plan.inWindow[i])
		rows.Turns = append(rows.Turns, plan.turn[i])
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
