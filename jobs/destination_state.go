package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
)

// PauseDestination stops promoting what a destination is owed: it keeps being owed, and waits. What is in flight ends by itself. reason is
// shown beside the state. A destination that is not active is a *ConflictError.
func (e *Engine) PauseDestination(ctx context.Context, id int64, reason string, also ...Also) error {
	if err := checkText("reason", reason, 500); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		if _, err := e.queries.DestinationPause(ctx, tx, reason, id); err != nil {
			return explainState(err, id, "pause", "only an active destination can be paused")
		}
		return do(ctx, tx, also)
	})
}

// DisableDestination is PauseDestination for good: until somebody has mended what the reason names. A destination that is neither active nor
// paused is a *ConflictError.
func (e *Engine) DisableDestination(ctx context.Context, id int64, reason string, also ...Also) error {
	if err := checkText("reason", reason, 500); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		disabled, err := e.queries.DestinationDisable(ctx, tx, reason, []int64{id})
		if err != nil {
			return fmt.Errorf("disable destination: %w", err)
		}
		if len(disabled) == 0 {
			return explainState(pgx.ErrNoRows, id, "disable", "only an active or paused destination can be disabled")
		}
		return do(ctx, tx, also)
	})
}

// DrainDestination keeps new events from a destination, while what it is owed already goes on being delivered (or, where it is paused,
// waiting). Test events and replays still reach it. One that drains already is a *ConflictError.
func (e *Engine) DrainDestination(ctx context.Context, id int64, reason string, also ...Also) error {
	if err := checkText("reason", reason, 500); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		if _, err := e.queries.DestinationDrain(ctx, tx, reason, id); err != nil {
			return explainState(err, id, "drain", "it drains already")
		}
		return do(ctx, tx, also)
	})
}

// UndrainDestination lets new events be owed to a destination again: those that come from then on. Those that came while it drained are not.
func (e *Engine) UndrainDestination(ctx context.Context, id int64, also ...Also) error {
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		if _, err := e.queries.DestinationUndrain(ctx, tx, id); err != nil {
			return explainState(err, id, "undrain", "it does not drain")
		}
		return do(ctx, tx, also)
	})
}

// disableGone disables destinations whose receivers answered 410, each with its entry in the audit log. The caller holds their lanes.
func disableGone(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	const reason = "the receiver answered 410 Gone"
	disabled, err := queries.DestinationDisable(ctx, tx, reason, ids)
	if err != nil {
		return fmt.Errorf("disable destination: %w", err)
	}
	for _, d := range disabled {
		err := queries.AuditInsert(ctx, tx, dbsqlc.AuditInsertParams{
			ActorKind: "weir", Actor: "weir", Action: "destination.disable", ObjectKind: "destination", ObjectID: fmt.Sprintf("dst_%d", d.ID),
			ObjectName: d.Name, Before: fmt.Appendf(nil, `{"state": %q}`, d.StateBefore), After: []byte(`{"state": "disabled"}`), Note: reason,
		})
		if err != nil {
			return fmt.Errorf("write audit entry: %w", err)
		}
	}
	return nil
}

// ResumeDestination lets a paused or disabled destination's work through again, at its lane's rate and without the burst.
func (e *Engine) ResumeDestination(ctx context.Context, id int64, also ...Also) error {
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		// The lane first, as in settlement, which may disable a destination while it holds the lane.
		lane, err := e.queries.DestinationGetLane(ctx, tx, id)
		if err != nil {
			return explainState(err, id, "resume", "there is no such destination")
		}
		if err := e.queries.LaneLock(ctx, tx, []int64{lane}); err != nil {
			return fmt.Errorf("lock lane: %w", err)
		}
		if _, err := e.queries.DestinationResume(ctx, tx, id); err != nil {
			return explainState(err, id, "resume", "only a paused or disabled destination can be resumed")
		}
		if err := e.queries.LaneRamp(ctx, tx, lane); err != nil {
			return fmt.Errorf("ramp lane: %w", err)
		}
		if err := promoteLanes(ctx, tx, []int64{lane}); err != nil {
			return err
		}
		return do(ctx, tx, also)
	})
}

// explainState turns "no row" of a guarded update into what the caller did wrong.
func explainState(err error, id int64, action, rule string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return &ConflictError{action + " destination", fmt.Sprintf("dst_%d does not exist or is not in a state for it: %s", id, rule)}
	}
	if err != nil {
		return fmt.Errorf("%s destination: %w", action, err)
	}
	return nil
}
