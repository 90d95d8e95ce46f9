package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"weir/db/dbsqlc"
)

// commitWithSuccessors first makes the successors' jobs. The successor of an item that then did not take effect is cancelled in the same
// transaction: nobody would ever promote it.
func (c *committer) commitWithSuccessors(ctx context.Context, items []settlement, asks []admitAsk) (moved map[int64]bool, admitted []dbsqlc.AttemptAdmitRow, err error) {
	err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		successors, err := insertSuccessors(ctx, tx, c.client, items)
		if err != nil {
			return err
		}
		if err := c.takeTurns(ctx, tx, items, asks); err != nil {
			return err
		}
		if moved, admitted, err = c.send(ctx, tx, items, successors, asks); err != nil {
			return err
		}
		var gone, orphans []int64
		for i, item := range items {
			if item.decision.gone && moved[item.jobID] {
				gone = append(gone, item.destinationID)
			}
			if successors[i] != 0 && !moved[item.jobID] {
				orphans = append(orphans, successors[i])
			}
		}
		if len(orphans) > 0 {
			if err := c.queries.RiverJobCancelWaiting(ctx, tx, orphans); err != nil {
				return fmt.Errorf("cancel unused successors: %w", err)
			}
		}
		return disableGone(ctx, tx, c.queries, gone)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("settle with successors: %w", err)
	}
	return moved, admitted, nil
}

func insertSuccessors(ctx context.Context, tx pgx.Tx, client *river.Client[pgx.Tx], items []settlement) ([]int64, error) {
	ids := make([]int64, len(items))
	var params []river.InsertManyParams
	var at []int
	for i, item := range items {
		if item.successor {
			at = append(at, i)
			params = append(params, river.InsertManyParams{
				Args: DeliverArgs{DeliveryID: item.deliveryID, Try: item.try + 1}, InsertOpts: &river.InsertOpts{Pending: true, Priority: int(item.priority)},
			})
		}
	}
	if len(params) == 0 {
		return ids, nil
	}
	inserted, err := client.InsertManyTx(ctx, tx, params)
	if err != nil {
		return nil, fmt.Errorf("insert successor jobs: %w", err)
	}
	for i, result := range inserted {
		ids[at[i]] = result.Job.ID
	}
	return ids, nil
}

// takeTurns gives retries that go behind the gate their place in the line. What comes back unsent keeps the place that it had.
func (c *committer) takeTurns(ctx context.Context, tx pgx.Tx, items []settlement, asks []admitAsk) error {
	var retries []int64
	for _, item := range items {
		if item.successor && !item.blocked && item.decision.state == StateRetrying {
			retries = append(retries, item.deliveryID)
		}
	}
	if len(retries) == 0 {
		return nil
	}
	// All locks of the transaction, in order, before the first flow is written.
	_, lanes := columnsOf(items, make([]int64, len(items)))
	deliveries := make([]int64, len(asks))
	for i, ask := range asks {
		deliveries[i] = ask.deliveryID
	}
	if err := c.queries.LaneLockByDelivery(ctx, tx, dbsqlc.LaneLockByDeliveryParams{DeliveryIds: deliveries, Touched: lanes.touched, Also: lanes.also}); err != nil {
		return fmt.Errorf("lock lanes: %w", err)
	}
	rows, err := c.queries.DeliveryListTenant(ctx, tx, retries)
	if err != nil {
		return fmt.Errorf("read tenants: %w", err)
	}
	tenants := make(map[int64]string, len(rows))
	for _, row := range rows {
		if row.Unplaced {
			tenants[row.ID] = row.Tenant
		}
	}
	turns, flows := newTurns(c.queries), make([]flow, 0, len(rows))
	flowOf := func(item settlement) (flow, bool) {
		tenant, ok := tenants[item.deliveryID]
		return flow{item.laneID, item.priority, tenant, classRetry}, ok && item.successor && !item.blocked
	}
	for _, item := range items {
		if f, ok := flowOf(item); ok {
			flows = append(flows, f)
		}
	}
	if err := turns.read(ctx, tx, flows); err != nil {
		return err
	}
	for i := range items {
		if f, ok := flowOf(items[i]); ok {
			items[i].turn = turns.next(f)
		}
	}
	if err := c.queries.LaneFlowSet(ctx, tx, turns.taken()); err != nil {
		return fmt.Errorf("store turns: %w", err)
	}
	return nil
}
