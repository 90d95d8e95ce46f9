package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"weir/db/dbsqlc"
)

// reconciler brings the ledger, the lanes' counters and River's jobs back together, whatever was done to any of them: jobs cancelled,
// deleted, discarded or completed behind the ledger's back, jobs that wait for nobody, rows edited by hand. The ledger decides: what it owes
// gets a job, what it does not owe has none. Each thing that it mends is a row of the table mend, a log line and a count.
//
// Nothing here reads the whole ledger to find a fault. What can be wrong is found where it is:
//
//   - a job that was deleted leaves a row in job_gone (a trigger), one that ended is among the last that ended: both within seconds;
//   - deliveries behind the gate, blocked ones, those that retry, and River's pending jobs are small sets with an index, compared round
//     after round, each within about a minute;
//   - what was done to the ledger by hand, or to River's table around the trigger, can be anywhere: the ledger is read through slowly, and
//     faster once something was found.
//
// It does not undo what somebody wrote into the ledger as an end: a delivery set to "delivered" by hand stays so, its job is cancelled.
// Only the sweeper calls it, so only one process at a time mends.
type reconciler struct {
	pool    *pgxpool.Pool
	queries *dbsqlc.Queries
	client  *river.Client[pgx.Tx]
	log     *slog.Logger

	ended     map[dbsqlc.RiverJobState]endedAt
	attention idRound
	blocked   blockedRound
	parked    parkedRound
	pending   pendingRound
	ledger    ledgerRound
	lanes     laneRound
}

func newReconciler(pool *pgxpool.Pool, queries *dbsqlc.Queries, client *river.Client[pgx.Tx], log *slog.Logger) *reconciler {
	return &reconciler{pool: pool, queries: queries, client: client, log: log, ended: map[dbsqlc.RiverJobState]endedAt{}, lanes: laneRound{suspects: map[int64]laneFault{}}}
}

// How much one tick reads, in rows. A row takes about 4 µs of the database, so a tick takes 80 ms when every set is large, and 2 ms when none
// is. The ledger's own page grows once something was found.
const (
	gonePage       = 500
	endedPage      = 5000
	minRoundPage   = 2000
	maxRoundPage   = 5000
	ledgerPage     = 2000
	ledgerFastPage = 10000
)

// roundTicks is in how many ticks a round through a set should be over; a set of more than 200,000 takes longer in proportion.
const roundTicks = 40

// round is the size of a walk through a set, page by page; the pages grow with the set.
type round struct{ seen, before int }

func (r *round) page() int32 { return int32(min(max(r.before/roundTicks, minRoundPage), maxRoundPage)) }

// read counts a page and says whether the round has come to its end.
func (r *round) read(scanned, page int32) bool {
	r.seen += int(scanned)
	if scanned == page {
		return false
	}
	r.before, r.seen = r.seen, 0
	return true
}

type idRound struct {
	round
	after int64
}

// ledgerRound walks through the ledger.
type ledgerRound struct {
	after int64
	fast  bool // something was wrong in this round or the one before: what was done by hand was seldom done once
	found bool // in this round
}

type blockedRound struct {
	round
	at dbsqlc.MendAtBlockedParams
}

type parkedRound struct {
	round
	at dbsqlc.MendAtParkedParams
}

type pendingRound struct {
	round
	at dbsqlc.MendAtPendingParams
}

// endedAt is how far the ended jobs of a state were read.
type endedAt struct {
	at time.Time
	id int64
}

// reconcile is one tick: a page of each set.
func (r *reconciler) reconcile(ctx context.Context) error {
	var errs []error // one look's fault must not keep the others from theirs
	for _, look := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"deleted jobs", r.lookAtGone},
		{"ended jobs", r.lookAtEnded},
		{"retrying deliveries", r.lookAtAttention},
		{"blocked deliveries", r.lookAtBlocked},
		{"parked deliveries", r.lookAtParked},
		{"pending jobs", r.lookAtPending},
		{"the ledger", r.lookAtLedger},
		{"orphaned requests", r.closeOrphans},
	} {
		if err := look.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("look at %s: %w", look.name, err))
		}
	}
	return errors.Join(errs...)
}

func (r *reconciler) lookAtGone(ctx context.Context) error {
	rows, err := r.queries.MendGoneList(ctx, r.pool, gonePage)
	if err != nil || len(rows) == 0 {
		return err
	}
	var jobs, deliveries []int64
	for _, row := range rows {
		jobs = append(jobs, row.JobID)
		if deliveries = append(deliveries, row.DeliveryID); row.JobID == 0 { // the table was emptied
			r.ledger = ledgerRound{fast: true}
		}
	}
	if _, err := r.mend(ctx, deliveries); err != nil {
		return err
	}
	return r.queries.MendGoneDelete(ctx, r.pool, jobs)
}

func (r *reconciler) lookAtEnded(ctx context.Context) error {
	for _, state := range []dbsqlc.RiverJobState{dbsqlc.RiverJobStateCancelled, dbsqlc.RiverJobStateDiscarded, dbsqlc.RiverJobStateCompleted} {
		from := r.ended[state]
		page, err := r.queries.MendAtEnded(ctx, r.pool, dbsqlc.MendAtEndedParams{State: state, At: from.at, After: from.id, Page: endedPage})
		if err != nil {
			return err
		}
		if _, err := r.mend(ctx, page.Ids); err != nil {
			return err
		}
		if page.Scanned > 0 {
			from = endedAt{page.LastAt, page.Last}
		}
		// What ends at one time may be written a little later: the last seconds are read again. Completed jobs are read that much later.
		if again := page.Now.Add(-10 * time.Second); page.Scanned < endedPage && state != dbsqlc.RiverJobStateCompleted && from.at.After(again) {
			from = endedAt{again, 0}
		}
		r.ended[state] = from
	}
	return nil
}

func (r *reconciler) lookAtAttention(ctx context.Context) error {
	size := r.attention.page()
	page, err := r.queries.MendAtAttention(ctx, r.pool, r.attention.after, size)
	if err != nil {
		return err
	}
	if _, err := r.mend(ctx, page.Ids); err != nil {
		return err
	}
	r.attention.after = page.Last
	if r.attention.read(page.Scanned, size) {
		r.attention.after = 0
	}
	return nil
}

func (r *reconciler) lookAtBlocked(ctx context.Context) error {
	at := r.blocked.at
	at.Page = r.blocked.page()
	page, err := r.queries.MendAtBlocked(ctx, r.pool, at)
	if err != nil {
		return err
	}
	if _, err := r.mend(ctx, page.Ids); err != nil {
		return err
	}
	r.blocked.at = dbsqlc.MendAtBlockedParams{DestinationID: page.LastDestinationID, After: page.Last}
	if r.blocked.read(page.Scanned, at.Page) {
		r.blocked.at = dbsqlc.MendAtBlockedParams{}
	}
	return nil
}

func (r *reconciler) lookAtParked(ctx context.Context) error {
	at := r.parked.at
	at.Page = r.parked.page()
	page, err := r.queries.MendAtParked(ctx, r.pool, at)
	if err != nil {
		return err
	}
	if _, err := r.mend(ctx, page.Ids); err != nil {
		return err
	}
	r.parked.at = dbsqlc.MendAtParkedParams{
		DestinationID: page.LastDestinationID, Priority: page.LastPriority, Turn: page.LastTurn, After: page.Last,
	}
	if r.parked.read(page.Scanned, at.Page) {
		r.parked.at = dbsqlc.MendAtParkedParams{}
	}
	return nil
}

func (r *reconciler) lookAtPending(ctx context.Context) error {
	at := r.pending.at
	at.Page = r.pending.page()
	page, err := r.queries.MendAtPending(ctx, r.pool, at)
	if err != nil {
		return err
	}
	if _, err := r.mend(ctx, page.Ids); err != nil {
		return err
	}
	if err := r.cancelUnowned(ctx, page.JobIds); err != nil {
		return err
	}
	r.pending.at = dbsqlc.MendAtPendingParams{
		Queue: page.LastQueue, Priority: page.LastPriority, ScheduledAt: page.LastScheduledAt, After: page.Last,
	}
	if r.pending.read(page.Scanned, at.Page) {
		r.pending.at = dbsqlc.MendAtPendingParams{}
	}
	return nil
}

func (r *reconciler) lookAtLedger(ctx context.Context) error {
	size := int32(ledgerPage)
	if r.ledger.fast {
		size = ledgerFastPage
	}
	page, err := r.queries.MendAtLedger(ctx, r.pool, r.ledger.after, size)
	if err != nil {
		return err
	}
	mended, err := r.mend(ctx, page.Ids)
	if err != nil {
		return err
	}
	r.ledger.after = page.Last
	if mended > 0 {
		r.ledger.fast, r.ledger.found = true, true
	}
	if page.Scanned < size { // the end: the next round is fast where this one found something
		r.ledger = ledgerRound{fast: r.ledger.found}
	}
	return nil
}

// takeOver gives a new job to deliveries whose job still runs in a process that no longer beats, and which had not begun a request, and
// lets sources be read again: River's own rescue takes minutes.
func (r *reconciler) takeOver(ctx context.Context) error {
	dead, err := r.queries.ProcessCountDead(ctx, r.pool)
	if err != nil || dead == 0 {
		return err
	}
	if _, err := r.queries.RiverJobCancelOrphan(ctx, r.pool); err != nil {
		return err
	}
	ids, err := r.queries.MendAtProcess(ctx, r.pool, sweepPage)
	if err != nil {
		return err
	}
	_, err = r.mend(ctx, ids)
	return err
}

// prune drops what was mended more than 30 days ago, a page at a time.
func (r *reconciler) prune(ctx context.Context) error {
	for {
		n, err := r.queries.MendDeleteBefore(ctx, r.pool, 5000)
		if err != nil || n < 5000 {
			return err
		}
	}
}
