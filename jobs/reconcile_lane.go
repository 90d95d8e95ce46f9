package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
)

// Bounds of one count of lanes: so many lanes, with about so many parked deliveries; none while so many jobs could run, since what is in a
// window is counted among those.
const (
	laneCountPage   = 100
	laneCountParked = 200_000
	laneCountLive   = 20_000
	laneCountCheap  = 1000 // so few jobs are counted every time, more every sixth
)

// laneRound walks through the lanes. A lane is suspect when its counters did not fit; it is mended when the same is wrong again the next
// time, when whatever was on its way has arrived.
type laneRound struct {
	after    int64
	turn     int
	suspects map[int64]laneFault
}

// laneFault is by how much each counter is too high.
type laneFault struct{ open, inFlight, parked int32 }

func faultOf(row dbsqlc.MendLaneCountRow) laneFault {
	return laneFault{row.WasOpen - row.Open, row.WasInFlight - row.InFlight, row.WasParked - row.Parked}
}

// countLanes compares a page of lanes' counters with the rows they stand for, without a lock and at one instant.
func (r *reconciler) countLanes(ctx context.Context) error {
	live, err := r.queries.MendLiveCount(ctx, r.pool, laneCountLive)
	if err != nil || live == laneCountLive {
		return err
	}
	if r.lanes.turn++; live > laneCountCheap && len(r.lanes.suspects) == 0 && r.lanes.turn%6 != 0 {
		return nil
	}
	sizes, err := r.queries.MendLaneSize(ctx, r.pool, r.lanes.after, laneCountPage)
	if err != nil {
		return err
	}
	var page []int64
	parked := int32(0)
	for _, lane := range sizes {
		if parked += lane.Parked; len(page) > 0 && parked > laneCountParked {
			break
		}
		page = append(page, lane.ID)
	}
	rows, err := r.queries.MendLaneCount(ctx, r.pool, page)
	if err != nil {
		return err
	}
	var wrong []int64
	found := map[int64]laneFault{}
	for _, row := range rows {
		if found[row.ID] = faultOf(row); r.lanes.suspects[row.ID] == found[row.ID] {
			wrong = append(wrong, row.ID)
		}
	}
	for _, id := range page {
		delete(r.lanes.suspects, id)
	}
	for id, fault := range found {
		r.lanes.suspects[id] = fault
	}
	// Suspects are looked at again before the round goes on.
	if len(found) == len(wrong) {
		if r.lanes.after = 0; len(page) < len(sizes) || len(sizes) == laneCountPage {
			r.lanes.after = page[len(page)-1]
		}
	}
	return r.mendLanes(ctx, wrong)
}

func (r *reconciler) mendLanes(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	var m mends
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		m = mends{}
		if err := r.queries.LaneLock(ctx, tx, ids); err != nil {
			return fmt.Errorf("lock lanes: %w", err)
		}
		rows, err := RecountLanes(ctx, tx, r.queries, ids)
		if err != nil {
			return err
		}
		for _, row := range rows {
			m.add(MendCounters, 0, row.ID, 0, fmt.Sprintf(
				"The lane's counters did not fit the rows: in its window %d, not %d; in flight %d, not %d; behind its gate %d, not %d.",
				row.Open, row.WasOpen, row.InFlight, row.WasInFlight, row.Parked, row.WasParked))
			delete(r.lanes.suspects, row.ID)
		}
		if len(rows) == 0 {
			return nil
		}
		return r.queries.MendInsertMany(ctx, tx, m.MendInsertManyParams)
	})
	if err != nil {
		return fmt.Errorf("mend counters: %w", err)
	}
	m.tell(ctx, r.log)
	return nil
}

// RecountLanes counts what these lanes have in their windows, in flight and behind their gates, and sets the counters that differ. The
// caller's transaction holds the lanes' locks. It returns the lanes whose counters were wrong.
func RecountLanes(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, ids []int64) ([]dbsqlc.MendLaneCountRow, error) {
	rows, err := queries.MendLaneCount(ctx, tx, ids)
	if err != nil {
		return nil, fmt.Errorf("count lanes: %w", err)
	}
	var set dbsqlc.MendLaneSetParams
	for _, row := range rows {
		set.Ids, set.Open = append(set.Ids, row.ID), append(set.Open, row.Open)
		set.InFlight, set.Parked = append(set.InFlight, row.InFlight), append(set.Parked, row.Parked)
	}
	if len(rows) > 0 {
		if err := queries.MendLaneSet(ctx, tx, set); err != nil {
			return nil, fmt.Errorf("set counters: %w", err)
		}
	}
	return rows, nil
}
