package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
)

// States of a replay run. A run that has ended is done, or stopped with nothing of it under way.
const (
	ReplayRunning = "running"
	ReplayPaused  = "paused"
	ReplayStopped = "stopped"
	ReplayDone    = "done"
)

// DefaultReplayShare is the part of each lane's rate and window that a run takes where nothing is said.
const DefaultReplayShare = 0.5

// MaxReplayItems bounds one run. What a selection has beyond it is for the next run.
const MaxReplayItems = 1_000_000

// How much of the ledger is read at a time to select from it.
const selectStretch = 2000

// ReplayRun asks for a run over everything that a filter selects.
type ReplayRun struct {
	Filter        ReplayFilter
	Share         float64 // of each lane, more than 0 to 1; 0: DefaultReplayShare
	Actor, Reason string  // recorded
	Key           string  // the same key by the same actor starts one run, whenever; may be empty
	// Also, if not nil, is done in the transaction that starts it, with its number.
	Also func(ctx context.Context, tx pgx.Tx, id int64) error
}

// check looks at what is not about the filter.
func (r *ReplayRun) check() error {
	if r.Actor == "" {
		return &InvalidError{"actor", "is missing: a replay is recorded with who asked for it"}
	}
	if r.Share != 0 && !(r.Share >= minReplayShare && r.Share <= 1) {
		return &InvalidError{"share", "want a number from 0.001 to 1, such as 0.5 for half of each lane's rate"}
	}
	if err := checkText("reason", r.Reason, 500); err != nil {
		return err
	}
	return checkText("key", r.Key, 200)
}

const minReplayShare = 0.001

func (r *ReplayRun) normalize() error {
	r.Share = cmp.Or(r.Share, DefaultReplayShare)
	if err := r.check(); err != nil {
		return err
	}
	var err error
	r.Filter, err = r.Filter.normalized()
	return err
}

// selects tells whether a stored filter is this run's.
func (r *ReplayRun) selects(stored []byte) bool {
	f, err := DecodeReplayFilter(stored)
	if err != nil {
		return false
	}
	_, there, _ := f.encode()
	_, mine, err := r.Filter.encode()
	return err == nil && there == mine
}

// StartReplay starts a run and returns its id. It selects and sends in the background, at its share of each lane, whichever process
// works; this one need not. The same key, or the same selection by the same actor while it is under way, is the run that is there
// already: existing is true and nothing is started. Errors: *InvalidError, *ConflictError (the key belongs to another selection; nothing
// is selected).
func (e *Engine) StartReplay(ctx context.Context, run ReplayRun) (id int64, existing bool, err error) {
	if err := run.normalize(); err != nil {
		return 0, false, err
	}
	filter, digest, err := run.Filter.encode()
	if err != nil {
		return 0, false, err
	}
	err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		row, err := e.queries.ReplayInsert(ctx, tx, dbsqlc.ReplayInsertParams{
			Actor: run.Actor, Reason: run.Reason, Filter: filter, Selection: digest, Share: run.Share, Key: run.Key, Selecting: true,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			id, err = e.existingReplay(ctx, tx, run, digest)
			existing = true
			return err
		}
		if err != nil {
			return fmt.Errorf("record replay: %w", err)
		}
		id, existing = row.ID, false
		if err := run.Filter.checkChosen(ctx, e.queries, tx); err != nil {
			return err // only of a new run: one that is under way may have moved them to another group
		}
		n, more, err := e.feeder.selectStretch(ctx, tx, id)
		if err == nil && n == 0 && !more {
			return &ConflictError{"replay", "no delivery is like that"}
		}
		if err == nil {
			err = e.recordLetterReplay(ctx, tx, run, id)
		}
		if err != nil || run.Also == nil {
			return err
		}
		return run.Also(ctx, tx, id)
	})
	return id, existing, err
}

// existingReplay finds the run that an earlier click has started.
func (e *Engine) existingReplay(ctx context.Context, tx pgx.Tx, run ReplayRun, digest string) (int64, error) {
	if run.Key != "" {
		row, err := e.queries.ReplayGetByKey(ctx, tx, run.Actor, run.Key)
		if err == nil && !run.selects(row.Filter) {
			return 0, &ConflictError{"replay", "this key has started the replay of another selection"}
		}
		if err == nil || !errors.Is(err, pgx.ErrNoRows) {
			return row.ID, err
		}
	}
	row, err := e.queries.ReplayGetBySelection(ctx, tx, run.Actor, digest)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, &ConflictError{"replay", "the same replay has just ended; ask again"}
	}
	return row.ID, err
}

// PauseReplay feeds nothing more until ResumeReplay. What was fed already goes on.
func (e *Engine) PauseReplay(ctx context.Context, id int64, actor string, also ...Also) error {
	return e.setReplayState(ctx, id, actor, also, ReplayPaused, ReplayRunning)
}

// ResumeReplay goes on with a paused run.
func (e *Engine) ResumeReplay(ctx context.Context, id int64, actor string, also ...Also) error {
	return e.setReplayState(ctx, id, actor, also, ReplayRunning, ReplayPaused)
}

// StopReplay ends a run for good: what waits is left as it was, what was fed and not sent yet goes back to what it was, what was tried
// already goes on by its destination's schedule. A run that has ended is a *ConflictError.
func (e *Engine) StopReplay(ctx context.Context, id int64, actor string, also ...Also) error {
	if err := e.setReplayState(ctx, id, actor, also, ReplayStopped, ReplayRunning, ReplayPaused); err != nil {
		return err
	}
	return e.feeder.restore(ctx, e.pool, id) // cut short, it is finished by the feeder
}

func (e *Engine) setReplayState(ctx context.Context, id int64, actor string, also []Also, to string, from ...string) error {
	if actor == "" {
		return &InvalidError{"actor", "is missing"}
	}
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		if _, err := e.queries.ReplaySetState(ctx, tx, dbsqlc.ReplaySetStateParams{State: to, Actor: actor, ID: id, FromStates: from}); err != nil {
			return err
		}
		return do(ctx, tx, also)
	})
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	row, err := e.queries.ReplayGet(ctx, e.pool, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return &NotFoundError{"replay", fmt.Sprintf("rpl_%d", id)}
	}
	if err != nil {
		return fmt.Errorf("load replay: %w", err)
	}
	return &ConflictError{"replay", "it is " + row.State + " already"}
}

// ReplayPreview is what a run would do, counted and not done.
type ReplayPreview struct {
	Selected         int
	Complete         bool // false: there is more than was counted in the time
	States           map[string]int
	Oldest, Newest   time.Time // when the selected deliveries were made; zero: none
	Refused, Waiting map[string]int
	Destinations     []ReplayPreviewDestination // those of the most deliveries first; all of them
	Takes            time.Duration              // at the share, if each is delivered at once; 0: as fast as the receivers answer
}

// ReplayPreviewDestination is one destination's part.
type ReplayPreviewDestination struct {
	ID          int64
	Name, State string
	Count       int
}
