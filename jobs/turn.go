package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
)

// Classes of a flow: the share of a lane that first tries keep against a flood of retries, and both against a replay.
const (
	classFirst int16 = iota
	classRetry
	classReplay
)

// flow is what takes turns behind a lane's gate: what one tenant has of one class and one priority. With n flows waiting, each gets every
// nth place, however much the others have (start-time fair queueing: McKenney 1990, Goyal 1996).
type flow struct {
	lane     int64
	priority int16
	tenant   string
	class    int16
}

// turns hands out places in the line. One is for one transaction: read learns where each flow stands, next counts on, and taken is what to
// store.
type turns struct {
	queries *dbsqlc.Queries
	at      map[flow]int64 // the next turn
}

func newTurns(queries *dbsqlc.Queries) *turns { return &turns{queries, map[flow]int64{}} }

// read learns where flows stand. Without the lanes' locks what it reads may be a little old: two transactions then hand out the same turns,
// which costs fairness a place and nothing else.
func (t *turns) read(ctx context.Context, tx pgx.Tx, flows []flow) error {
	var p dbsqlc.LaneFlowNextParams
	var asked []flow
	for _, f := range flows {
		if _, known := t.at[f]; known {
			continue
		}
		t.at[f] = 0
		asked = append(asked, f)
		p.LaneIds = append(p.LaneIds, f.lane)
		p.Priorities = append(p.Priorities, f.priority)
		p.Tenants = append(p.Tenants, f.tenant)
		p.Classes = append(p.Classes, f.class)
	}
	if len(asked) == 0 {
		return nil
	}
	rows, err := t.queries.LaneFlowNext(ctx, tx, p)
	if err != nil {
		return fmt.Errorf("read turns: %w", err)
	}
	for i, row := range rows {
		t.at[asked[i]] = row.Turn
	}
	return nil
}

// next is the flow's next turn, at least 1.
func (t *turns) next(f flow) int64 {
	turn := max(1, t.at[f])
	t.at[f] = turn + 1
	return turn
}

// taken is what was handed out, for LaneFlowSet, which wants the lanes' locks.
func (t *turns) taken() (p dbsqlc.LaneFlowSetParams) {
	for f, next := range t.at {
		if next <= 1 {
			continue // none of this flow
		}
		p.LaneIds = append(p.LaneIds, f.lane)
		p.Priorities = append(p.Priorities, f.priority)
		p.Tenants = append(p.Tenants, f.tenant)
		p.Classes = append(p.Classes, f.class)
		p.Turns = append(p.Turns, next-1)
	}
	return p
}
