package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
)

// departures are deliveries that leave the gate's line or the window of their lanes other than by being worked (expired, superseded, blocked,
// cancelled, taken back), with what has to follow: the lanes' counters, and the jobs that waited with them.
type departures struct {
	open, parked map[int64]int32 // by lane; what is added to its counters
	jobs         []int64
}

func newDepartures(n int) *departures {
	return &departures{open: map[int64]int32{}, parked: map[int64]int32{}, jobs: make([]int64, 0, n)}
}

// add notes one delivery as it was before it left.
func (d *departures) add(lane int64, job *int64, parked, inWindow bool) {
	d.jobs = append(d.jobs, jobOf(job))
	if parked {
		d.parked[lane]--
	}
	if inWindow {
		d.open[lane]--
	}
}

// count takes them out of the lanes' counters; the caller holds the lanes' locks.
func (d *departures) count(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries) error {
	return addToLanes(ctx, tx, queries, d.open, d.parked)
}

// end takes them out of the counters and cancels their jobs; the caller holds the lanes' locks.
func (d *departures) end(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries) error {
	if err := d.count(ctx, tx, queries); err != nil {
		return err
	}
	if err := queries.RiverJobCancelWaiting(ctx, tx, d.jobs); err != nil {
		return fmt.Errorf("cancel waiting jobs: %w", err)
	}
	return nil
}

// jobOf is a delivery's job; 0 where it has none.
func jobOf(id *int64) int64 {
	if id == nil {
		return 0
	}
	return *id
}

// addToLanes changes the lanes' counters by these amounts, which it uses up; the caller holds their locks.
func addToLanes(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, open, parked map[int64]int32) error {
	add := dbsqlc.LaneAddParams{}
	for _, counts := range []map[int64]int32{open, parked} {
		for lane := range counts {
			add.Ids = append(add.Ids, lane)
			add.Open = append(add.Open, open[lane])
			add.Parked = append(add.Parked, parked[lane])
			delete(open, lane)
			delete(parked, lane)
		}
	}
	if err := queries.LaneAdd(ctx, tx, add); err != nil {
		return fmt.Errorf("count in lanes: %w", err)
	}
	return nil
}
