package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"weir/db/dbsqlc"
)

// Also is done at the end of a transaction of the engine's, before it commits: what a caller records about the change is there when the
// change is. An error undoes both.
type Also = func(context.Context, pgx.Tx) error

func do(ctx context.Context, tx pgx.Tx, also []Also) error {
	for _, f := range also {
		if err := f(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// DeleteDestination ends a destination for good: nothing is sent to it after this returns but what was in flight. What it was still owed
// is cancelled with the reason; its history stays, its secrets and headers do not.
func (e *Engine) DeleteDestination(ctx context.Context, id int64, reason string, also ...Also) error {
	if err := checkText("reason", reason, 500); err != nil {
		return err
	}
	var lane int64
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) (err error) {
		if lane, err = e.queries.DestinationDelete(ctx, tx, reason, id); err != nil {
			return explainState(err, id, "delete", "it is deleted already")
		}
		if err := e.queries.SecretDeleteByDestination(ctx, tx, id); err != nil {
			return fmt.Errorf("delete secrets: %w", err)
		}
		if err := e.queries.HeaderDeleteByDestination(ctx, tx, id); err != nil {
			return fmt.Errorf("delete headers: %w", err)
		}
		return do(ctx, tx, also)
	})
	if err != nil {
		return err
	}
	// The state alone stops every send (admission reads it), so the ledger may follow page by page; the sweep finishes what is left.
	return cancelOwed(ctx, e.pool, e.queries, e.tally, id, lane)
}

// cancelOwed ends what a deleted destination is owed, but for what is in flight. It may be run again at any time.
func cancelOwed(ctx context.Context, pool *pgxpool.Pool, queries *dbsqlc.Queries, tally *tally, id, lane int64) error {
	after := int64(0)
	for {
		var rows []dbsqlc.DeliveryCancelByDestinationRow
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			if err := queries.LaneLock(ctx, tx, []int64{lane}); err != nil {
				return fmt.Errorf("lock lane: %w", err)
			}
			rows, err = queries.DeliveryCancelByDestination(ctx, tx, dbsqlc.DeliveryCancelByDestinationParams{
				DestinationID: id, After: after, Max: 1000, Reason: "its destination was deleted",
			})
			if err != nil || len(rows) == 0 {
				return err
			}
			return releaseCancelled(ctx, tx, queries, lane, rows)
		})
		if err != nil {
			return fmt.Errorf("cancel deliveries: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		tally.ended(id, StateCancelled, len(rows))
		for _, row := range rows {
			after = max(after, row.ID)
		}
	}
}

func releaseCancelled(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, lane int64, rows []dbsqlc.DeliveryCancelByDestinationRow) error {
	gone := newDepartures(len(rows))
	for _, row := range rows {
		gone.add(lane, row.JobID, row.Parked, row.InWindow)
	}
	return gone.end(ctx, tx, queries)
}

// TypeTest is the type of a test event.
const TypeTest = "weir.test"

// SendTest publishes a weir.test event for this destination alone, whatever it subscribes to. It takes the way of every event, limits
// included, so what is seen is what production does. A destination that is not active is a *ConflictError.
func (e *Engine) SendTest(ctx context.Context, destinationID int64) (Receipt, error) {
	row, err := e.queries.DestinationLockForTest(ctx, e.pool, destinationID)
	if errors.Is(err, pgx.ErrNoRows) || row.State == "deleted" {
		return Receipt{}, &NotFoundError{"destination", fmt.Sprintf("dst_%d", destinationID)}
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("load destination: %w", err)
	}
	if row.State != "active" {
		return Receipt{}, &ConflictError{"destination", "it is " + row.State + ": resume it before sending a test event"}
	}
	now := time.Now().UTC()
	return e.Publish(ctx, Event{
		Type: TypeTest, Subject: "test", OccurredAt: now, ExpiresAt: now.Add(time.Hour), Priority: 1, onlyDestination: destinationID,
		Payload: fmt.Appendf(nil, `{"test":true,"sent_at":%q}`, now.Format(time.RFC3339)),
	})
}
