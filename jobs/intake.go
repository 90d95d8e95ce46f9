package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"weir/db/dbsqlc"
)

// Receipt says that an event is durably taken. Duplicate: it was here already, under this ID, and nothing new is sent.
type Receipt struct {
	ID        string
	Duplicate bool
}

// Result is one event's receipt, or the error that kept it out: *InvalidError, *ConflictError, or a fault of the database.
type Result struct {
	Receipt Receipt
	Err     error
}

// never stands for "no expiry" in the arrays that go to Postgres, which turns it into NULL.
var never = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// intake takes pushed events: each batch of concurrent calls is one transaction with event, ledger rows and jobs. (A discovery job per
// batch instead was measured at twice the latency and half more CPU.)
type intake struct {
	pool    *pgxpool.Pool
	queries *dbsqlc.Queries
	fanout  *fanout
	limit   int
	batch   *batcher[Event, Result]
}

func newIntake(pool *pgxpool.Pool, queries *dbsqlc.Queries, fanout *fanout, limit int) *intake {
	in := &intake{pool: pool, queries: queries, fanout: fanout, limit: limit}
	in.batch = newBatcher(3, 0, in.commit)
	return in
}

func (in *intake) publish(events []Event) []Result {
	results := make([]Result, len(events))
	waiting := make([]chan answer[Result], len(events))
	now := time.Now()
	for i := range events {
		if err := events[i].normalize(now, in.limit); err != nil {
			results[i].Err = err
			continue
		}
		waiting[i] = in.batch.start(events[i])
	}
	for i, reply := range waiting {
		if reply == nil {
			continue
		}
		a := <-reply
		if results[i] = a.out; a.err != nil {
			results[i] = Result{Err: a.err}
		}
	}
	return results
}

func (in *intake) commit(ctx context.Context, events []Event) (results []Result, err error) {
	err = pgx.BeginFunc(ctx, in.pool, func(tx pgx.Tx) error {
		var fresh []int64
		if results, fresh, err = insertEvents(ctx, tx, in.queries, events); err != nil {
			return err
		}
		if len(fresh) == 0 {
			return nil
		}
		if err := in.fanout.keys.index(ctx, tx, events, fresh); err != nil {
			return err
		}
		made, err := in.fanout.spread(ctx, tx, fresh, false)
		if err != nil || made < fanoutPage {
			return err
		}
		// The rest is a discovery run's, which need not wait for the next tick.
		if _, err := in.fanout.client.InsertTx(ctx, tx, DiscoverArgs{Source: SourceOutbox}, nil); err != nil {
			return fmt.Errorf("ask for a discovery run: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("take events: %w", err)
	}
	return results, nil
}

// insertEvents writes the events that are new and tells duplicates and conflicts apart; results are in the order of events, fresh holds
// the new rows' ids in ascending order. The events are normalized.
//
// The same id with the same content is a duplicate, with other content a conflict. Another id for the same fact (tenant, type, subject,
// version) is a duplicate of the first, whatever its bytes: platforms emit one change twice.
func insertEvents(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, events []Event) (results []Result, fresh []int64, err error) {
	order := make([]int, len(events))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(events[a].ID, events[b].ID) })
	rows, err := queries.EventInsertMany(ctx, tx, eventColumns(events, order))
	if err != nil {
		return nil, nil, fmt.Errorf("insert events: %w", err)
	}
	inserted := make(map[string]bool, len(rows))
	for _, row := range rows {
		inserted[row.EventID] = true
		fresh = append(fresh, row.ID)
	}
	slices.Sort(fresh)

	results = make([]Result, len(events))
	var rest []int
	for _, i := range order {
		results[i].Receipt.ID = events[i].ID
		if inserted[events[i].ID] {
			inserted[events[i].ID] = false // a second one of the same id in this batch is compared below
			continue
		}
		rest = append(rest, i)
	}
	if len(rest) == 0 {
		return results, fresh, nil
	}
	return results, fresh, compareExisting(ctx, tx, queries, events, rest, results)
}

func eventColumns(events []Event, order []int) dbsqlc.EventInsertManyParams {
	var c dbsqlc.EventInsertManyParams
	for _, i := range order {
		e := &events[i]
		expires := e.ExpiresAt
		if expires.IsZero() {
			expires = never
		}
		c.EventIds = append(c.EventIds, e.ID)
		c.Tenants = append(c.Tenants, e.Tenant)
		c.Types = append(c.Types, e.Type)
		c.Subjects = append(c.Subjects, e.Subject)
		c.Versions = append(c.Versions, versionColumn(e.Version))
		c.Payloads = append(c.Payloads, e.Payload)
		c.OccurredAt = append(c.OccurredAt, e.OccurredAt)
		c.ExpiresAt = append(c.ExpiresAt, expires)
		c.Priorities = append(c.Priorities, e.Priority)
		c.OnlyDestinationIds = append(c.OnlyDestinationIds, e.onlyDestination)
	}
	return c
}

// versionColumn is -1 for no version: arrays for unnest hold no NULLs.
func versionColumn(v *int64) int64 {
	if v == nil {
		return -1
	}
	return *v
}

// compareExisting answers the events that were not inserted.
func compareExisting(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, events []Event, rest []int, results []Result) error {
	var c dbsqlc.EventListExistingParams
	for _, i := range rest {
		e := &events[i]
		c.Ords = append(c.Ords, int32(i)) // at most a batch
		c.EventIds = append(c.EventIds, e.ID)
		c.Tenants = append(c.Tenants, e.Tenant)
		c.Types = append(c.Types, e.Type)
		c.Subjects = append(c.Subjects, e.Subject)
		c.Versions = append(c.Versions, versionColumn(e.Version))
		c.Payloads = append(c.Payloads, e.Payload)
	}
	found, err := queries.EventListExisting(ctx, tx, c)
	if err != nil {
		return fmt.Errorf("compare with existing events: %w", err)
	}
	answered := map[int]bool{}
	for _, row := range found {
		i := int(row.Ord)
		if answered[i] {
			continue
		}
		answered[i] = true
		if row.EventID == events[i].ID && !sameContent(row, &events[i]) {
			results[i].Err = &ConflictError{"id", "this event id is taken by an event with another payload, type, subject, version or tenant"}
			continue
		}
		results[i].Receipt = Receipt{ID: row.EventID, Duplicate: true}
	}
	for _, i := range rest {
		if !answered[i] {
			return fmt.Errorf("compare with existing events: one was deleted meanwhile")
		}
	}
	return nil
}

func sameContent(row dbsqlc.EventListExistingRow, e *Event) bool {
	return row.SamePayload && row.Type == e.Type && row.Subject == e.Subject && row.Tenant == e.Tenant &&
		versionColumn(row.Version) == versionColumn(e.Version)
}
