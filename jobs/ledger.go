package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"weir/db/dbsqlc"
	"weir/jobs/webhook"
)

// settlement is one change of a delivery: an attempt closed with its consequence, or, with no = 0, a move without an attempt.
type settlement struct {
	deliveryID, jobID, laneID int64
	destinationID             int64
	limited                   bool
	no                        int32
	try                       int32 // of the job that ends; a successor is the next
	priority                  int16 // the successor's
	outcome                   webhook.Outcome
	decision                  decision
	successor                 bool          // leave a parked job behind: this one cannot or must not go on
	wait                      time.Duration // from due to sent; for statistics
}

// ledger is the only writer of what became of a delivery.
type ledger struct {
	pool    *pgxpool.Pool
	queries *dbsqlc.Queries
	client  *river.Client[pgx.Tx]
	places  *places
	tally   *tally
	batch   *batcher[settlement, bool]
}

func newLedger(pool *pgxpool.Pool, queries *dbsqlc.Queries, client *river.Client[pgx.Tx], places *places, tally *tally) *ledger {
	l := &ledger{pool: pool, queries: queries, client: client, places: places, tally: tally}
	// An outcome that cannot be written is a duplicate later, so the write is tried for a while.
	l.batch = newBatcher(6, l.settle)
	return l
}

// close settles an attempt. It reports no error when somebody else has closed the attempt (its lease had run out): then nothing changes.
func (l *ledger) close(job *river.Job[DeliverArgs], a admission, outcome webhook.Outcome, d decision) error {
	_, err := l.batch.do(settlement{
		deliveryID: a.DeliveryID, jobID: job.ID, laneID: a.LaneID, destinationID: a.DestinationID, limited: a.Limited,
		no: a.No, try: job.Args.Try, outcome: outcome, decision: d, wait: max(0, time.UnixMicro(a.SlotUs).Sub(a.DueAt)),
	})
	return err
}

// park ends a job whose delivery has to wait longer than a worker may: a pending successor takes its place behind the gate.
func (l *ledger) park(job *river.Job[DeliverArgs], a admission) error {
	_, err := l.batch.do(settlement{
		deliveryID: a.DeliveryID, jobID: job.ID, laneID: a.LaneID, limited: a.Limited, try: job.Args.Try, priority: a.Priority,
		decision: decision{state: a.State}, successor: true,
	})
	return err
}

// end settles a delivery that made no attempt: expired, or cancelled with its destination.
func (l *ledger) end(job *river.Job[DeliverArgs], a admission, state, reason string) error {
	_, err := l.batch.do(settlement{
		deliveryID: a.DeliveryID, jobID: job.ID, laneID: a.LaneID, destinationID: a.DestinationID, limited: a.Limited,
		decision: decision{state: state, reason: reason},
	})
	return err
}

// settle writes a batch in one transaction and answers, per item, whether it took effect. Without successors it is one round trip.
func (l *ledger) settle(ctx context.Context, items []settlement) ([]bool, error) {
	var moved map[int64]bool
	var err error
	if needsTransaction(items) {
		moved, err = l.settleInTransaction(ctx, items)
	} else {
		moved, err = sendSettlement(ctx, l.pool, items, make([]int64, len(items)))
	}
	if err != nil {
		return nil, err
	}
	freed := map[int64]int{}
	took := make([]bool, len(items))
	for i, item := range items {
		took[i] = moved[item.jobID]
		if item.no > 0 {
			freed[item.laneID]++
		}
	}
	l.tally.add(items, took)
	for lane, n := range freed {
		l.places.freed(lane, n)
	}
	return took, nil
}

func needsTransaction(items []settlement) bool {
	for _, item := range items {
		if item.successor || item.decision.gone {
			return true
		}
	}
	return false
}

// settleInTransaction first makes the successors' jobs. The successor of an item that then did not take effect is cancelled in the same
// transaction: nobody would ever promote it.
func (l *ledger) settleInTransaction(ctx context.Context, items []settlement) (map[int64]bool, error) {
	tx, err := l.pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin settlement: %w", err)
	}
	defer tx.Rollback(ctx) //nolint:errcheck // after a commit it has nothing to do
	successors, err := insertSuccessors(ctx, tx, l.client, items)
	if err != nil {
		return nil, err
	}
	moved, err := sendSettlement(ctx, tx, items, successors)
	if err != nil {
		return nil, err
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
		if err := l.queries.RiverJobCancelWaiting(ctx, tx, orphans); err != nil {
			return nil, fmt.Errorf("cancel unused successors: %w", err)
		}
	}
	if len(gone) > 0 {
		if err := l.queries.DestinationDisable(ctx, tx, "the receiver answered 410 Gone", gone); err != nil {
			return nil, fmt.Errorf("disable destination: %w", err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("commit settlement: %w", err)
	}
	return moved, nil
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

// batchSender is a pool (which makes the batch an implicit transaction) or a transaction.
type batchSender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// sendSettlement runs lock, settle and promote in one round trip. It returns the jobs whose deliveries moved.
func sendSettlement(ctx context.Context, conn batchSender, items []settlement, successors []int64) (map[int64]bool, error) {
	c, deliveries, lock, promote := columnsOf(items, successors)
	batch := &pgx.Batch{}
	batch.Queue(dbsqlc.LaneLockByDelivery, deliveries, lock)
	batch.Queue(dbsqlc.AttemptSettle, c.DeliveryIds, c.JobIds, c.Nos, c.Verdicts, c.Statuses, c.ErrorClasses, c.AttemptReasons, c.TookUs,
		c.RetryAfters, c.Excerpts, c.Truncated, c.States, c.Charges, c.DelaysUs, c.Reasons, c.Successors, c.HoldsUs)
	batch.Queue(dbsqlc.LanePromote, promote)
	results := conn.SendBatch(ctx, batch)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return nil, fmt.Errorf("lock lanes: %w", err)
	}
	rows, err := results.Query()
	if err != nil {
		return nil, fmt.Errorf("settle: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("settle: %w", err)
	}
	if _, err := results.Exec(); err != nil {
		return nil, fmt.Errorf("promote: %w", err)
	}
	if err := results.Close(); err != nil {
		return nil, fmt.Errorf("commit settlement: %w", err)
	}
	moved := make(map[int64]bool, len(ids))
	for _, id := range ids {
		moved[id] = true
	}
	return moved, nil
}

// columnsOf turns items into the statement's arrays. lock names lanes to lock besides the limited ones (they get a hold or parked work);
// promote names the lanes whose gate may open: those that the first statement locks.
func columnsOf(items []settlement, successors []int64) (c dbsqlc.AttemptSettleParams, deliveries, lock, promote []int64) {
	lock, promote = []int64{}, []int64{}
	seen := map[int64]bool{}
	for i, item := range items {
		d, o := item.decision, item.outcome
		deliveries = append(deliveries, item.deliveryID)
		if !item.limited && (item.successor || d.hold > 0) {
			lock = append(lock, item.laneID)
		}
		if item.limited && !seen[item.laneID] {
			seen[item.laneID] = true
			promote = append(promote, item.laneID)
		}
		c.DeliveryIds = append(c.DeliveryIds, item.deliveryID)
		c.JobIds = append(c.JobIds, item.jobID)
		c.Nos = append(c.Nos, item.no)
		c.Verdicts = append(c.Verdicts, string(o.Verdict))
		c.Statuses = append(c.Statuses, int32(o.Status)) // three digits
		c.ErrorClasses = append(c.ErrorClasses, o.ErrorClass)
		c.AttemptReasons = append(c.AttemptReasons, o.Reason)
		c.TookUs = append(c.TookUs, o.Took.Microseconds())
		c.RetryAfters = append(c.RetryAfters, o.RetryAfterRaw)
		c.Excerpts = append(c.Excerpts, o.Excerpt)
		c.Truncated = append(c.Truncated, o.Truncated)
		c.States = append(c.States, d.state)
		c.Charges = append(c.Charges, d.charge)
		c.DelaysUs = append(c.DelaysUs, d.delay.Microseconds())
		c.Reasons = append(c.Reasons, d.reason)
		c.Successors = append(c.Successors, successors[i])
		c.HoldsUs = append(c.HoldsUs, d.hold.Microseconds())
	}
	return c, deliveries, lock, promote
}
