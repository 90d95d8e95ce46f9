package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"weir/db"
	"weir/db/dbsqlc"
)

// replaySender changes a run's items, and with them its counts; the run's feeder and whoever starts or stops one share it. The caller
// holds the lanes' locks and, where the run is not new in the transaction, the run's.
type replaySender struct {
	queries *dbsqlc.Queries
	client  *river.Client[pgx.Tx]
}

// replaySend is one delivery to reopen.
type replaySend struct {
	deliveryID, destinationID, laneID int64
	try                               int32
	priority                          int16
}

// replayTally counts by what the counts are kept by.
type replayTally map[replayTallyKey]*replayCount

type replayTallyKey struct{ destination, lane int64 }

type replayCount struct{ waiting, sent, refused, restored int32 }

func (t replayTally) of(destination, lane int64) *replayCount {
	key := replayTallyKey{destination, lane}
	if t[key] == nil {
		t[key] = &replayCount{}
	}
	return t[key]
}

func (r *replaySender) count(ctx context.Context, tx pgx.Tx, replayID int64, tally replayTally) error {
	if len(tally) == 0 {
		return nil
	}
	p := dbsqlc.ReplayDestinationAddParams{ReplayID: replayID}
	for key, n := range tally {
		p.DestinationIds, p.LaneIds = append(p.DestinationIds, key.destination), append(p.LaneIds, key.lane)
		p.Waiting, p.Sent = append(p.Waiting, n.waiting), append(p.Sent, n.sent)
		p.Refused, p.Restored = append(p.Refused, n.refused), append(p.Restored, n.restored)
	}
	if err := r.queries.ReplayDestinationAdd(ctx, tx, p); err != nil {
		return fmt.Errorf("count replay items: %w", err)
	}
	return nil
}

// selected adds deliveries to the run, waiting; those that it has already stay as they are. It returns how many are new.
func (r *replaySender) selected(ctx context.Context, tx pgx.Tx, items dbsqlc.ReplayItemInsertManyParams) (int, error) {
	rows, err := r.queries.ReplayItemInsertMany(ctx, tx, items)
	if err != nil {
		return 0, fmt.Errorf("record replay items: %w", err)
	}
	tally, lanes, seen := replayTally{}, []int64{}, map[int64]bool{}
	for _, row := range rows {
		tally.of(row.DestinationID, row.LaneID).waiting++
		if !seen[row.LaneID] {
			seen[row.LaneID] = true
			lanes = append(lanes, row.LaneID)
		}
	}
	if err := r.queries.ReplayLaneInsertMany(ctx, tx, items.ReplayID, lanes); err != nil {
		return 0, fmt.Errorf("record replay lanes: %w", err)
	}
	return len(rows), r.count(ctx, tx, items.ReplayID, tally)
}

// refuse ends waiting items of which nothing will come, each with its reason.
func (r *replaySender) refuse(ctx context.Context, tx pgx.Tx, replayID int64, items []replaySend, refusals []string) error {
	if len(items) == 0 {
		return nil
	}
	ids, tally := make([]int64, len(items)), replayTally{}
	for i, item := range items {
		ids[i] = item.deliveryID
		n := tally.of(item.destinationID, item.laneID)
		n.waiting--
		n.refused++
	}
	err := r.queries.ReplayItemRefuse(ctx, tx, dbsqlc.ReplayItemRefuseParams{ReplayID: replayID, DeliveryIds: ids, Refusals: refusals})
	if err != nil {
		return fmt.Errorf("refuse replay items: %w", err)
	}
	return r.count(ctx, tx, replayID, tally)
}

// send makes waiting items owed again: each delivery reopened with a job of its own behind the gate, which opens as far as it has room.
func (r *replaySender) send(ctx context.Context, tx pgx.Tx, replayID int64, items []replaySend) error {
	if len(items) == 0 {
		return nil
	}
	reopen, tally, parked := dbsqlc.DeliveryReopenParams{ReplayID: &replayID}, replayTally{}, map[int64]int32{}
	params := make([]river.InsertManyParams, len(items))
	for i, item := range items {
		reopen.Ids = append(reopen.Ids, item.deliveryID)
		parked[item.laneID]++
		n := tally.of(item.destinationID, item.laneID)
		n.waiting--
		n.sent++
		params[i] = river.InsertManyParams{
			Args: DeliverArgs{DeliveryID: item.deliveryID, Try: item.try + 1}, InsertOpts: &river.InsertOpts{Pending: true, Priority: int(item.priority)},
		}
	}
	// An earlier run may not have noticed yet how they ended for it.
	if err := r.queries.ReplayLockByDelivery(ctx, tx, reopen.Ids); err != nil {
		return fmt.Errorf("lock earlier replays: %w", err)
	}
	if err := r.queries.ReplayItemSettleByDelivery(ctx, tx, reopen.Ids); err != nil {
		return fmt.Errorf("settle earlier replays: %w", err)
	}
	if err := r.queries.ReplayItemSend(ctx, tx, replayID, reopen.Ids); err != nil {
		return fmt.Errorf("record replay: %w", err)
	}
	jobs, err := r.client.InsertManyTx(ctx, tx, params)
	if err != nil {
		return fmt.Errorf("insert replay jobs: %w", err)
	}
	for _, job := range jobs {
		reopen.JobIds = append(reopen.JobIds, job.Job.ID)
	}
	if reopen.Turns, err = r.takeTurns(ctx, tx, items); err != nil {
		return err
	}
	if err := r.queries.DeliveryReopen(ctx, tx, reopen); err != nil {
		return fmt.Errorf("reopen deliveries: %w", err)
	}
	if err := r.count(ctx, tx, replayID, tally); err != nil {
		return err
	}
	lanes := make([]int64, 0, len(parked))
	for lane := range parked {
		lanes = append(lanes, lane)
	}
	if err := addToLanes(ctx, tx, r.queries, nil, parked); err != nil {
		return err
	}
	return promoteLanes(ctx, tx, lanes)
}

// takeTurns gives replays their places in the line, one per item: beside first tries and retries, they are a flow of their own.
func (r *replaySender) takeTurns(ctx context.Context, tx pgx.Tx, items []replaySend) ([]int64, error) {
	ids := make([]int64, len(items))
	for i, item := range items {
		ids[i] = item.deliveryID
	}
	rows, err := r.queries.DeliveryListTenant(ctx, tx, ids)
	if err != nil {
		return nil, fmt.Errorf("read tenants: %w", err)
	}
	tenants := make(map[int64]string, len(rows))
	for _, row := range rows {
		tenants[row.ID] = row.Tenant
	}
	turns, flows, taken := newTurns(r.queries), make([]flow, len(items)), make([]int64, len(items))
	for i, item := range items {
		flows[i] = flow{item.laneID, item.priority, tenants[item.deliveryID], classReplay}
	}
	if err := turns.read(ctx, tx, flows); err != nil {
		return nil, err
	}
	for i := range items {
		taken[i] = turns.next(flows[i])
	}
	if err := r.queries.LaneFlowSet(ctx, tx, turns.taken()); err != nil {
		return nil, fmt.Errorf("store turns: %w", err)
	}
	return taken, nil
}

// restorePage is how many deliveries one transaction takes back.
const restorePage = 500

// restore takes back what a stopped run has fed and nobody has sent yet: each delivery is again what it was.
func (r *replaySender) restore(ctx context.Context, conn db.Conn, replayID int64) error {
	for after := int64(0); ; {
		lanes, err := r.queries.ReplayLaneListIDOutstanding(ctx, conn, dbsqlc.ReplayLaneListIDOutstandingParams{ReplayID: replayID, After: after, Max: 100})
		if err != nil {
			return fmt.Errorf("list replay lanes: %w", err)
		}
		if len(lanes) == 0 {
			return nil
		}
		for n := restorePage; n == restorePage; {
			err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
				n, err = r.restorePage(ctx, tx, replayID, lanes)
				return err
			})
			if err != nil {
				return fmt.Errorf("take replay back: %w", err)
			}
		}
		after = lanes[len(lanes)-1]
	}
}

func (r *replaySender) restorePage(ctx context.Context, tx pgx.Tx, replayID int64, lanes []int64) (int, error) {
	if err := r.queries.LaneLock(ctx, tx, lanes); err != nil {
		return 0, err
	}
	if run, err := r.queries.ReplayLock(ctx, tx, replayID); err != nil || run.State != ReplayStopped {
		return 0, err
	}
	rows, err := r.queries.ReplayItemRestore(ctx, tx, dbsqlc.ReplayItemRestoreParams{ReplayID: replayID, LaneIds: lanes, Max: restorePage})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	gone, tally := newDepartures(len(rows)), replayTally{}
	for _, row := range rows {
		gone.add(row.LaneID, row.JobID, row.Parked, row.InWindow)
		n := tally.of(row.DestinationID, row.LaneID)
		n.sent--
		n.restored++
	}
	if err := gone.end(ctx, tx, r.queries); err != nil {
		return 0, err
	}
	if err := r.count(ctx, tx, replayID, tally); err != nil {
		return 0, err
	}
	return len(rows), promoteLanes(ctx, tx, lanes)
}
