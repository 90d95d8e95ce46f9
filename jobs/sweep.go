package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"weir/db/dbsqlc"
	"weir/jobs/webhook"
)

// sweepLock is the advisory lock of the one process that sweeps: two would settle the same lease at once, and one of the successors would
// never be promoted.
const sweepLock = 0x73776565

// sweepPage bounds what one tick does of each kind; what is left is the next tick's.
const sweepPage = 500

// beatEvery is how often a process says that it lives; three misses and a half (15 s, see the queries) make it dead.
const beatEvery = 4 * time.Second

// sweeper is the net under the hot path: it opens the gate where nothing settles, closes what a dead process left open, expires what
// waits too long, and keeps the planner's statistics fresh. Every working process runs one; a lock lets one of them act.
type sweeper struct {
	pool    *pgxpool.Pool
	queries *dbsqlc.Queries
	commits *committer
	tally   *tally
	feeder  *replayFeeder
	log     *slog.Logger

	inbox   *inbox
	mender  *reconciler
	blocked int64 // where the look at blocked deliveries goes on
	tick    int64
}

// run sweeps every second until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "sweep", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *sweeper) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection to sweep: %w", err)
	}
	defer conn.Release()
	var mine bool
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", sweepLock).Scan(&mine); err != nil || !mine {
		return err
	}
	defer func() {
		// A connection that cannot unlock must not go back into the pool with the lock on it.
		if _, err := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", sweepLock); err != nil {
			_ = conn.Conn().Close(context.WithoutCancel(ctx))
		}
	}()
	s.tick++
	var errs []error // one step's fault must not keep the others from their work
	for _, step := range []struct {
		name  string
		every int64
		run   func(context.Context) error
	}{
		{"close expired leases", 1, s.closeExpiredLeases},
		{"expire parked deliveries", 1, s.expireParked},
		{"release blocked deliveries", 1, s.releaseBlocked},
		{"promote", 1, s.promote},
		{"feed replays", 1, s.feeder.step},
		{"follow dead letters", 1, s.inbox.step},
		{"analyze", 5, s.analyze},
		{"take over from dead processes", 5, s.mender.takeOver},
		{"reconcile", 1, s.mender.reconcile},
		{"count lanes", 5, s.mender.countLanes},
		{"finish deletions", 30, s.finishDeletions},
		{"learn", 10, s.learn},
		{"recover idle lanes", 30, s.recoverIdle},
		{"prune tally", 60, s.pruneTally},
		{"prune", 600, s.prune},
		{"prune mends", 600, s.mender.prune},
		{"prune dead letters", 600, s.inbox.prune},
	} {
		if s.tick%step.every != 0 {
			continue
		}
		if err := step.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", step.name, err))
		}
	}
	return errors.Join(errs...)
}

// closeExpiredLeases ends attempts whose process died, or lost the database for longer than a request takes. Their outcome is unknown:
// the receiver may have the event, so it goes out again under the same id, at once, charged to the budget so that a delivery which kills
// its process ends somewhere.
func (s *sweeper) closeExpiredLeases(ctx context.Context) error {
	rows, err := s.queries.AttemptListExpired(ctx, s.pool, sweepPage)
	if err != nil || len(rows) == 0 {
		return err
	}
	items := make([]settlement, len(rows))
	for i, row := range rows {
		outcome := webhook.Outcome{
			Verdict: webhook.Retry, ErrorClass: ClassInterrupted, Unknown: true,
			Reason: "interrupted: the process that made the request ended before the answer was recorded; outcome unknown",
		}
		decision := decide(outcome, try{no: row.No, failures: row.Failures, schedule: Schedule{Waits: make([]time.Duration, row.Retries)}})
		if row.DestinationDeleted && decision.state == StateRetrying {
			decision.state, decision.reason = StateCancelled, "its destination was deleted"
		}
		items[i] = settlement{
			deliveryID: row.DeliveryID, jobID: jobOf(row.JobID), laneID: row.LaneID, destinationID: row.DestinationID, limited: false,
			no: row.No, try: row.Try, priority: row.Priority, outcome: outcome, decision: decision, successor: decision.state == StateRetrying,
		}
	}
	s.log.InfoContext(ctx, "attempts interrupted", "count", len(items))
	return s.settle(ctx, items)
}

// finishDeletions cancels what deleted destinations are still owed, so that none of it waits for its expiry.
func (s *sweeper) finishDeletions(ctx context.Context) error {
	rows, err := s.queries.DestinationListUnfinishedDelete(ctx, s.pool, 100)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := cancelOwed(ctx, s.pool, s.queries, s.tally, row.ID, row.LaneID); err != nil {
			return err
		}
	}
	return nil
}

// settle runs outside the batcher: it is rare, and its page is a batch. Unlimited here means "lock the lane because work is parked in it".
func (s *sweeper) settle(ctx context.Context, items []settlement) error {
	_, err := s.commits.commit(ctx, items, nil)
	return err
}

func (s *sweeper) expireParked(ctx context.Context) error {
	lanes, err := s.queries.DeliveryListLaneIDExpired(ctx, s.pool, sweepPage)
	if err != nil || len(lanes) == 0 {
		return err
	}
	var rows []dbsqlc.DeliveryExpireParkedRow
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := s.queries.LaneLock(ctx, tx, lanes); err != nil {
			return fmt.Errorf("lock lanes: %w", err)
		}
		if rows, err = s.queries.DeliveryExpireParked(ctx, tx, lanes, sweepPage); err != nil {
			return fmt.Errorf("expire: %w", err)
		}
		gone := newDepartures(len(rows))
		for _, row := range rows {
			gone.add(row.LaneID, row.JobID, true, false)
		}
		return gone.end(ctx, tx, s.queries)
	})
	if err != nil {
		return err
	}
	for _, row := range rows {
		s.tally.ended(row.DestinationID, StateExpired, 1)
	}
	return nil
}

// releaseBlocked looks at a page of those that wait for an older version. Settling releases at once; this finds those whose older one ended
// otherwise (expired at the gate, cancelled, its process died), whose time is over, or whose destination does not order any more.
func (s *sweeper) releaseBlocked(ctx context.Context) error {
	rows, err := s.queries.DeliveryListBlocked(ctx, s.pool, s.blocked, sweepPage)
	if err != nil {
		return err
	}
	if s.blocked = 0; len(rows) == sweepPage {
		s.blocked = rows[sweepPage-1].ID
	}
	if len(rows) == 0 {
		return nil
	}
	var ids, lanes []int64
	for _, row := range rows {
		ids, lanes = append(ids, row.ID), append(lanes, row.LaneID)
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := s.queries.LaneLock(ctx, tx, lanes); err != nil {
			return fmt.Errorf("lock lanes: %w", err)
		}
		if _, err := s.queries.DeliveryUnblock(ctx, tx, ids); err != nil {
			return fmt.Errorf("unblock: %w", err)
		}
		_, err := s.queries.DeliveryRelease(ctx, tx, ids)
		return err
	})
}

// promote opens the gate of every lane that has work behind it: after a hold, a pause, or when the last delivery of a window was parked.
func (s *sweeper) promote(ctx context.Context) error {
	lanes, err := s.queries.LaneListIDPromotable(ctx, s.pool, 10000)
	if err != nil {
		return err
	}
	for start := 0; start < len(lanes); start += 100 {
		if err := promoteLanes(ctx, s.pool, lanes[start:min(start+100, len(lanes))]); err != nil {
			return err
		}
	}
	return nil
}

// promoteLanes locks and promotes in one round trip.
func promoteLanes(ctx context.Context, conn batchSender, lanes []int64) error {
	batch := &pgx.Batch{}
	batch.Queue(dbsqlc.LaneLock, lanes)
	batch.Queue(dbsqlc.LanePromote, lanes)
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	return nil
}

// recoverIdle takes the mark from slow lanes to which nothing was sent for a while.
func (s *sweeper) recoverIdle(ctx context.Context) error {
	lanes, err := s.queries.LaneMarkRecoveredIdle(ctx, s.pool)
	if err == nil && len(lanes) > 0 {
		s.log.InfoContext(ctx, "lanes recovered", "lanes", lanes, "reason", "nothing was sent to them")
	}
	return err
}
