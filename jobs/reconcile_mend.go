package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"weir/db/dbsqlc"
)

// What can have been mended; also the label of the metric.
const (
	MendJobDeleted   = "job_deleted"      // the delivery was owed, its job was not there
	MendJobCancelled = "job_cancelled"    // its job had been cancelled,
	MendJobDiscarded = "job_discarded"    // discarded,
	MendJobCompleted = "job_completed"    // or completed without an outcome
	MendJobForeign   = "job_foreign"      // it named another delivery's job
	MendJobAsleep    = "job_asleep"       // its job was pending, but it was not behind the gate
	MendProcessDied  = "process_died"     // its job ran in a process that died before the request
	MendUncounted    = "attempt_lost"     // a request had been answered, and the delivery did not know
	MendJobUnowned   = "job_unowned"      // a pending job was nobody's
	MendCounters     = "lane_counters"    // a lane's counters did not fit the rows
	MendUndelivered  = "delivery_missing" // a request was open for a delivery that is not in the ledger
)

// mendPage bounds one transaction.
const mendPage = 500

// mends are rows of the table mend in the making.
type mends struct{ dbsqlc.MendInsertManyParams }

func (m *mends) add(what string, delivery, lane, job int64, sentence string) {
	m.Whats = append(m.Whats, what)
	m.DeliveryIds, m.LaneIds, m.JobIds = append(m.DeliveryIds, delivery), append(m.LaneIds, lane), append(m.JobIds, job)
	m.Sentences = append(m.Sentences, sentence)
}

// tell logs how much of what was mended, once it is committed.
func (m *mends) tell(ctx context.Context, log *slog.Logger) {
	counts := map[string]int{}
	for _, what := range m.Whats {
		counts[what]++
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		log.WarnContext(ctx, "mended", "what", what, "count", counts[what])
	}
}

// mend looks at these deliveries again, under the locks, and gives those that are owed and cannot move a job that can. It returns how many
// it mended.
func (r *reconciler) mend(ctx context.Context, ids []int64) (int, error) {
	mended := 0
	for page := range slices.Chunk(ids, mendPage) {
		var m mends
		err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
			m = mends{}
			return r.mendDeliveries(ctx, tx, page, &m)
		})
		if err != nil {
			return mended, fmt.Errorf("mend deliveries: %w", err)
		}
		m.tell(ctx, r.log)
		mended += len(m.Whats)
	}
	return mended, nil
}

func (r *reconciler) mendDeliveries(ctx context.Context, tx pgx.Tx, ids []int64, m *mends) error {
	lanes, err := r.queries.MendListLaneID(ctx, tx, ids)
	if err != nil || len(lanes) == 0 {
		return err
	}
	if err := r.queries.LaneLock(ctx, tx, lanes); err != nil {
		return fmt.Errorf("lock lanes: %w", err)
	}
	if err := r.queries.MendLock(ctx, tx, ids); err != nil {
		return fmt.Errorf("lock deliveries: %w", err)
	}
	rows, err := r.queries.MendOwed(ctx, tx, ids, lanes)
	if err != nil || len(rows) == 0 {
		return err
	}
	jobs, err := r.insertJobs(ctx, tx, rows)
	if err != nil {
		return err
	}
	var delivered, lastNos = []int64{}, []int32{}
	var give dbsqlc.MendGiveJobParams
	var old []int64
	move := laneMoves{}
	for i, row := range rows {
		what, sentence := explainMend(row, jobs[i])
		m.add(what, row.ID, row.LaneID, jobOf(row.JobID), sentence)
		if old = append(old, jobOf(row.JobID)); row.Delivered {
			delivered, lastNos = append(delivered, row.ID), append(lastNos, row.LastNo)
		} else {
			give.Ids, give.JobIds, give.LastNos = append(give.Ids, row.ID), append(give.JobIds, jobs[i]), append(give.LastNos, row.LastNo)
		}
		move.leave(row)
	}
	if err := r.queries.MendDeliver(ctx, tx, delivered, lastNos); err != nil {
		return fmt.Errorf("settle delivered: %w", err)
	}
	if err := r.queries.MendGiveJob(ctx, tx, give); err != nil {
		return fmt.Errorf("give jobs: %w", err)
	}
	if err := r.queries.MendLaneAdd(ctx, tx, move.columns()); err != nil {
		return fmt.Errorf("count in lanes: %w", err)
	}
	// What lies asleep, or was brought back meanwhile, is of no use any more.
	if err := r.queries.RiverJobCancelWaiting(ctx, tx, old); err != nil {
		return fmt.Errorf("cancel replaced jobs: %w", err)
	}
	if err := r.queries.MendInsertMany(ctx, tx, m.MendInsertManyParams); err != nil {
		return fmt.Errorf("write down what was mended: %w", err)
	}
	return promoteLanes(ctx, tx, lanes)
}

// insertJobs makes a pending job for each but those that turn out to be delivered.
func (r *reconciler) insertJobs(ctx context.Context, tx pgx.Tx, rows []dbsqlc.MendOwedRow) ([]int64, error) {
	ids := make([]int64, len(rows))
	var params []river.InsertManyParams
	var at []int
	for i, row := range rows {
		if !row.Delivered {
			at = append(at, i)
			params = append(params, river.InsertManyParams{
				Args: DeliverArgs{DeliveryID: row.ID, Try: row.Try + 1}, InsertOpts: &river.InsertOpts{Pending: true, Priority: int(row.Priority)},
			})
		}
	}
	if len(params) == 0 {
		return ids, nil
	}
	inserted, err := r.client.InsertManyTx(ctx, tx, params)
	if err != nil {
		return nil, fmt.Errorf("insert jobs: %w", err)
	}
	for i, result := range inserted {
		ids[at[i]] = result.Job.ID // of a live job of this very try, should there be one: it is as good
	}
	return ids, nil
}

func explainMend(row dbsqlc.MendOwedRow, job int64) (what, sentence string) {
	before := fmt.Sprintf("Its job %d ", jobOf(row.JobID))
	switch {
	case row.Delivered:
		return MendUncounted, fmt.Sprintf("Request %d had been answered with success and the delivery did not say so: it is delivered.", row.LastNo)
	case row.LastNo > 0:
		return MendUncounted, fmt.Sprintf("Request %d had been answered and the delivery did not count it: job %d goes on from there.", row.LastNo, job)
	case row.JobID == nil:
		what, before = MendJobDeleted, "It had no job"
	case row.JobState == "gone":
		what, before = MendJobDeleted, before+"was deleted"
	case row.ForeignJob:
		what, before = MendJobForeign, before+"is another delivery's"
	case row.JobState == "cancelled":
		what, before = MendJobCancelled, before+"was cancelled in River"
	case row.JobState == "discarded":
		what, before = MendJobDiscarded, before+"was discarded in River"
	case row.JobState == "completed":
		what, before = MendJobCompleted, before+"was completed without an outcome"
	case row.JobState == "running":
		what, before = MendProcessDied, before+"ran in a process that died"
	default:
		what, before = MendJobAsleep, before+"was pending, though the delivery was not behind the gate"
	}
	return what, fmt.Sprintf("%s while the delivery was owed: job %d takes its place.", before, job)
}

// laneMoves are what mended deliveries change in the lanes' counters.
type laneMoves map[int64]struct{ open, parked int32 }

func (l laneMoves) leave(row dbsqlc.MendOwedRow) {
	move := l[row.LaneID]
	if row.InWindow {
		move.open--
	}
	if row.Parked {
		move.parked--
	}
	if !row.Delivered && !row.Blocked {
		move.parked++
	}
	l[row.LaneID] = move
}

func (l laneMoves) columns() (c dbsqlc.MendLaneAddParams) {
	for _, id := range slices.Sorted(maps.Keys(l)) {
		c.Ids, c.Open, c.Parked = append(c.Ids, id), append(c.Open, l[id].open), append(c.Parked, l[id].parked)
	}
	return c
}

// cancelUnowned ends pending jobs that wait for nobody: nothing would ever promote them.
func (r *reconciler) cancelUnowned(ctx context.Context, ids []int64) error {
	for page := range slices.Chunk(ids, mendPage) {
		var m mends
		err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
			m = mends{}
			rows, err := r.queries.MendCancelUnowned(ctx, tx, page)
			if err != nil || len(rows) == 0 {
				return err
			}
			for _, row := range rows {
				m.add(MendJobUnowned, row.DeliveryID, 0, row.ID, fmt.Sprintf("Job %d was pending, but no delivery waited with it: it is cancelled.", row.ID))
			}
			return r.queries.MendInsertMany(ctx, tx, m.MendInsertManyParams)
		})
		if err != nil {
			return fmt.Errorf("cancel jobs that are nobody's: %w", err)
		}
		m.tell(ctx, r.log)
	}
	return nil
}

// closeOrphans ends requests whose delivery is no longer in the ledger; the lanes' places are counted anew soon after.
func (r *reconciler) closeOrphans(ctx context.Context) error {
	var m mends
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		m = mends{}
		rows, err := r.queries.MendCloseOrphan(ctx, tx, mendPage)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			m.add(MendUndelivered, row.DeliveryID, row.LaneID, 0, "A request was open for a delivery that is not in the ledger: it is closed, its outcome unknown.")
		}
		return r.queries.MendInsertMany(ctx, tx, m.MendInsertManyParams)
	})
	if err != nil {
		return fmt.Errorf("close orphaned requests: %w", err)
	}
	m.tell(ctx, r.log)
	return nil
}
