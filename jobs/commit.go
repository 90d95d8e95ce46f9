package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"weir/db/dbsqlc"
)

// commitSpacing is the least time from one commit to the next: a flush that comes sooner carries one or two rows and costs as much as one
// that carries twenty (measured at 200 a second over four processes). A process that has been quiet for longer commits at once.
const commitSpacing = 4 * time.Millisecond

// commitTries is how often a commit is tried: an outcome that cannot be written is a duplicate later.
const commitTries = 6

// entry is what a worker hands in: an ask for permission to send, or what became of a delivery (one of the two is nil).
type entry struct {
	ask        *admitAsk
	settlement *settlement
}

// receipt is the answer: to an ask its admission, to a settlement nothing.
type receipt struct{ admission dbsqlc.AttemptAdmitRow }

// committer is the one door through which workers change lanes: it settles and admits in the same transaction. Apart, the two would wait
// for each other's lock on the lane, and a place that a settlement frees would be seen by the next ask a commit later.
type committer struct {
	pool    *pgxpool.Pool
	queries *dbsqlc.Queries
	client  *river.Client[pgx.Tx]
	process string
	clock   *clock
	places  *places
	tally   *tally
	batch   *batcher[entry, receipt]
}

// newCommitter makes one without a River client, which has to be set before the first delivery: the client needs the workers first.
func newCommitter(pool *pgxpool.Pool, queries *dbsqlc.Queries, process string, tally *tally) *committer {
	c := &committer{pool: pool, queries: queries, process: process, clock: newClock(), places: newPlaces(), tally: tally}
	c.batch = newBatcher(commitTries, commitSpacing, c.flush)
	return c
}

// admit asks for permission to send.
func (c *committer) admit(ask admitAsk) (dbsqlc.AttemptAdmitRow, error) {
	got, err := c.batch.do(entry{ask: &ask})
	return got.admission, err
}

// settle writes what became of a delivery. Where somebody else was first it has no effect, which is no error.
func (c *committer) settle(s settlement) error {
	_, err := c.batch.do(entry{settlement: &s})
	return err
}

// flush answers a batch in its order. Those who wait for a place that this batch frees ask with it, and first.
func (c *committer) flush(ctx context.Context, entries []entry) ([]receipt, error) {
	var asks []admitAsk
	var items []settlement
	freed := map[int64]int{}
	for _, e := range entries {
		if e.ask != nil {
			asks = append(asks, *e.ask)
			continue
		}
		items = append(items, *e.settlement)
		if e.settlement.no > 0 {
			freed[e.settlement.laneID]++
		}
	}
	var waiters []*waiter
	for lane, n := range freed {
		waiters = append(waiters, c.places.take(lane, n)...)
	}
	all := make([]admitAsk, 0, len(waiters)+len(asks))
	for _, w := range waiters {
		all = append(all, w.ask)
	}
	admitted, err := c.commit(ctx, items, append(all, asks...))
	for i, w := range waiters {
		if err != nil {
			w.answer <- placed{again: true}
			continue
		}
		w.answer <- placed{row: admitted[i]}
	}
	if err != nil {
		return nil, err
	}
	admitted = admitted[len(waiters):]
	receipts := make([]receipt, len(entries))
	for i, e := range entries {
		if e.ask != nil {
			receipts[i].admission, admitted = admitted[0], admitted[1:]
		}
	}
	return receipts, nil
}

// commit settles items, then admits asks, in one transaction. Without successors it is one round trip. It returns one row per ask.
func (c *committer) commit(ctx context.Context, items []settlement, asks []admitAsk) (admitted []dbsqlc.AttemptAdmitRow, err error) {
	var moved map[int64]bool
	if needsTransaction(items) {
		moved, admitted, err = c.commitWithSuccessors(ctx, items, asks)
	} else {
		moved, admitted, err = c.send(ctx, c.pool, items, make([]int64, len(items)), asks)
	}
	if err != nil {
		return nil, err
	}
	if len(admitted) > 0 {
		c.clock.observe(admitted[0].NowUs)
	}
	took := make([]bool, len(items))
	for i, item := range items {
		took[i] = moved[item.jobID]
	}
	c.tally.add(items, took)
	return admitted, nil
}

func needsTransaction(items []settlement) bool {
	for _, item := range items {
		if item.successor || item.decision.gone {
			return true
		}
	}
	return false
}

// batchSender is a pool (which makes the batch an implicit transaction) or a transaction.
type batchSender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// send runs lock, settle, promote and admit in one round trip. The first statement locks the lanes in order, so the others see them as
// they are; what was freed by settling can be granted at once.
func (c *committer) send(ctx context.Context, conn batchSender, items []settlement, successors []int64, asks []admitAsk) (moved map[int64]bool, admitted []dbsqlc.AttemptAdmitRow, err error) {
	columns, lanes := columnsOf(items, successors)
	deliveries, jobs, slow := make([]int64, len(asks)), make([]int64, len(asks)), make([]bool, len(asks))
	for i, ask := range asks {
		deliveries[i], jobs[i], slow[i] = ask.deliveryID, ask.jobID, ask.slow
	}
	batch := &pgx.Batch{}
	batch.Queue(dbsqlc.LaneLockByDelivery, deliveries, lanes.touched, lanes.also)
	if len(items) > 0 {
		batch.Queue(dbsqlc.AttemptSettle, columns.DeliveryIds, columns.JobIds, columns.Nos, columns.Verdicts, columns.Statuses, columns.ErrorClasses,
			columns.AttemptReasons, columns.TookUs, columns.RetryAfters, columns.Excerpts, columns.Truncated, columns.States, columns.Charges,
			columns.DelaysUs, columns.Reasons, columns.Successors, columns.HoldsUs, columns.Blocked, columns.Turns, columns.DnsUs, columns.ConnectUs,
			columns.TlsUs, columns.FirstByteUs, columns.ResponseHeaders)
		if len(lanes.release) > 0 {
			batch.Queue(dbsqlc.DeliveryRelease, lanes.release)
		}
		batch.Queue(dbsqlc.LanePromote, lanes.promote)
	}
	if len(asks) > 0 {
		batch.Queue(dbsqlc.AttemptAdmit, deliveries, jobs, slow, lead.Microseconds(), c.process)
	}
	results := conn.SendBatch(ctx, batch)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return nil, nil, fmt.Errorf("lock lanes: %w", err)
	}
	if len(items) > 0 {
		ids, err := collect(results, "settle", pgx.RowTo[int64])
		if err != nil {
			return nil, nil, err
		}
		if len(lanes.release) > 0 {
			if _, err := results.Exec(); err != nil {
				return nil, nil, fmt.Errorf("release younger versions: %w", err)
			}
		}
		if _, err := results.Exec(); err != nil {
			return nil, nil, fmt.Errorf("promote: %w", err)
		}
		moved = make(map[int64]bool, len(ids))
		for _, id := range ids {
			moved[id] = true
		}
	}
	if len(asks) > 0 {
		if admitted, err = collect(results, "admit", pgx.RowToStructByPos[dbsqlc.AttemptAdmitRow]); err != nil {
			return nil, nil, err
		}
		if len(admitted) != len(asks) {
			return nil, nil, fmt.Errorf("admit: %d answers to %d asks", len(admitted), len(asks))
		}
	}
	// Nothing counts before the implicit transaction is committed, which closing the batch waits for.
	if err := results.Close(); err != nil {
		return nil, nil, fmt.Errorf("commit: %w", err)
	}
	return moved, admitted, nil
}

// collect reads the next result of a batch; what names it in errors.
func collect[T any](results pgx.BatchResults, what string, to pgx.RowToFunc[T]) ([]T, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	out, err := pgx.CollectRows(rows, to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return out, nil
}
