// Package jobs is what happens to an event: taken in, fanned out, paced, delivered, settled, replayed.
//
// The line one event takes:
//
//	publish or discover ─▶ event ─▶ fan-out (one transaction: event, ledger row and unique River job per destination)
//	─▶ gate ─▶ River ─▶ admit ─▶ send at the slot ─▶ judge ─▶ settle ─▶ River completes
//
// The states of a delivery:
//
//	          ┌────────── replay ───────────┐
//	          ▼                             │
//	pending ──▶ retrying ──▶ delivered  dead_lettered  expired
//	   │            │            ▲           ▲            ▲
//	   └────────────┴────────────┴───────────┴────────────┘   (and cancelled, with its destination)
package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"weir/db"
	"weir/db/dbsqlc"
	"weir/jobs/webhook"
)

// Roles of a process. Web publishes only; work delivers; discover reads sources.
const (
	RoleWeb      = "web"
	RoleWork     = "work"
	RoleDiscover = "discover"
)

// Options are what an Engine needs. Pool, Keyring and Sender are required; the rest has the defaults named.
type Options struct {
	Pool    *pgxpool.Pool
	Keyring *db.Keyring
	Sender  *webhook.Sender
	Log     *slog.Logger // discarded

	Roles             []string      // all
	Workers           int           // concurrent deliveries, waiting ones included; 1000
	BodyLimit         int           // bytes of a payload; MaxPayload
	DiscoveryInterval time.Duration // 10 s
	Grace             time.Duration // how long a stop waits for requests under way; 25 s
}

// Engine takes events in and delivers them. Make it with New; Publish and Replay work at once, the rest after Start.
type Engine struct {
	Options

	pool    *pgxpool.Pool
	pacing  *pgxpool.Pool // for what is done per request under the lanes' locks
	queries *dbsqlc.Queries
	client  *river.Client[pgx.Tx]
	process string
	intake  *intake
	tally   *tally
	commits *committer
	limiter *limiter
	slow    *slowTracker
	sweeper *sweeper
	feeder  *replayFeeder

	background sync.WaitGroup
	quit       context.CancelFunc
}

// New builds the engine on a migrated database.
func New(o Options) (*Engine, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.Roles) == 0 {
		o.Roles = []string{RoleWeb, RoleWork, RoleDiscover}
	}
	for _, role := range o.Roles {
		if role != RoleWeb && role != RoleWork && role != RoleDiscover {
			return nil, &InvalidError{"roles", "want some of web, work, discover; not " + printable(role)}
		}
	}
	o.Workers = orDefault(o.Workers, 1000)
	o.BodyLimit = orDefault(o.BodyLimit, MaxPayload)
	o.DiscoveryInterval = orDefault(o.DiscoveryInterval, 10*time.Second)
	o.Grace = orDefault(o.Grace, 25*time.Second)

	e := &Engine{Options: o, pool: o.Pool, queries: dbsqlc.New(), process: fmt.Sprintf("w%08x", rand.Uint32())}
	var err error
	if e.pacing, err = db.OpenPacing(o.Pool); err != nil {
		return nil, err
	}
	e.tally = newTally(e.pool, e.queries, o.Log)
	fan := &fanout{queries: e.queries, tally: e.tally, keys: &searchKeys{queries: e.queries}}
	e.commits = newCommitter(e.pacing, e.queries, e.process, e.tally)
	e.limiter = newLimiter(e.pacing, e.commits, o.Workers)
	e.slow = newSlowTracker(e.pool, e.queries, o.Log, o.Workers)
	e.slow.onSlow = e.slow.moveToQueue
	deliver := &DeliverWorker{
		limiter: e.limiter, ledger: &ledger{e.commits}, slow: e.slow, targets: newTargets(e.pool, e.queries, o.Keyring), sender: o.Sender, log: o.Log,
	}
	discover := &DiscoverWorker{
		pool: e.pool, queries: e.queries, fanout: fan, limit: o.BodyLimit, log: o.Log,
		client: func() *river.Client[pgx.Tx] { return e.client },
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, deliver)
	river.AddWorker(workers, discover)

	if e.client, err = river.NewClient(riverpgxv5.New(e.pool), e.riverConfig(workers)); err != nil {
		e.pacing.Close()
		return nil, fmt.Errorf("make river client: %w", err)
	}
	fan.client, e.commits.client = e.client, e.client
	e.feeder = &replayFeeder{replaySender: replaySender{queries: e.queries, client: e.client}, pool: e.pool, log: o.Log}
	e.sweeper = &sweeper{pool: e.pool, queries: e.queries, commits: e.commits, tally: e.tally, feeder: e.feeder, log: o.Log, mender: newReconciler(e.pool, e.queries, e.client, o.Log)}
	e.sweeper.inbox = &inbox{pool: e.pool, queries: e.queries, log: o.Log}
	e.intake = newIntake(e.pool, e.queries, fan, o.BodyLimit)
	return e, nil
}

func orDefault[T int | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

// riverConfig: every process that works can become River's leader, so all of them know all workers and the periodic job; only those with
// the role fetch from its queue.
func (e *Engine) riverConfig(workers *river.Workers) *river.Config {
	config := &river.Config{
		ID:      e.process, // short: River appends it to each job, up to a hundred times
		Logger:  e.Log,
		Workers: workers,
		Queues:  map[string]river.QueueConfig{},
		// Resolution of what is not notified, such as short snoozes.
		FetchCooldown:     10 * time.Millisecond,
		FetchPollInterval: 100 * time.Millisecond,
		JobTimeout:        30 * time.Second,
		// A delivery's own timeout is longer; its job is taken over by the sweep long before this.
		RescueStuckJobsAfter: 2 * time.Minute,
		SoftStopTimeout:      e.Grace,
		// The ledger keeps the history.
		CompletedJobRetentionPeriod: 15 * time.Minute,
		CancelledJobRetentionPeriod: 24 * time.Hour,
		DiscardedJobRetentionPeriod: 7 * 24 * time.Hour,
		// Without the indexes that the migrations drop.
		ReindexerIndexNames: slices.DeleteFunc(river.ReindexerIndexNamesDefault(), func(name string) bool {
			return name == "river_job_args_index" || name == "river_job_metadata_index" || name == "river_job_kind"
		}),
	}
	if slices.Contains(e.Roles, RoleWork) {
		config.Queues[QueueDeliver] = river.QueueConfig{MaxWorkers: e.Workers}
		config.Queues[QueueDeliverSlow] = river.QueueConfig{MaxWorkers: e.Workers}
	}
	if slices.Contains(e.Roles, RoleDiscover) {
		config.Queues[QueueDiscover] = river.QueueConfig{MaxWorkers: 4}
	}
	if len(config.Queues) == 0 {
		config.Queues = nil
		return config
	}
	config.PeriodicJobs = []*river.PeriodicJob{river.NewPeriodicJob(
		river.PeriodicInterval(e.DiscoveryInterval),
		func() (river.JobArgs, *river.InsertOpts) { return DiscoverArgs{Source: SourceOutbox}, nil },
		// A new leader starts its clock anew: without this, restarts more frequent than the interval would never discover.
		&river.PeriodicJobOpts{RunOnStart: true},
	)}
	return config
}

// works says whether this process fetches jobs.
func (e *Engine) works() bool {
	return slices.Contains(e.Roles, RoleWork) || slices.Contains(e.Roles, RoleDiscover)
}

// Start begins to work, in the background, until Stop.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.limiter.clock.warm(ctx, e.pool); err != nil {
		return err
	}
	if err := e.beat(ctx); err != nil {
		return err
	}
	running, quit := context.WithCancel(context.WithoutCancel(ctx))
	e.quit = quit
	e.background.Go(func() { e.keepBeating(running) })
	e.background.Go(func() { e.tally.run(running) })
	if e.works() {
		e.background.Go(func() { e.sweeper.run(running) })
		if slices.Contains(e.Roles, RoleWork) {
			e.background.Go(func() { e.slow.run(running) })
		}
		if err := e.client.Start(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("start river: %w", err)
		}
	}
	return nil
}

// Stop lets requests under way end (up to the grace time, then they are cut and recorded as shut down), settles them and stops. It is
// bounded by the grace time and ten seconds.
func (e *Engine) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Grace+10*time.Second)
	defer cancel()
	var errs []error
	if e.works() && e.quit != nil {
		errs = append(errs, e.client.Stop(ctx))
	}
	if e.quit != nil {
		e.quit()
		e.background.Wait()
		errs = append(errs, e.queries.ProcessStop(ctx, e.pool, e.process))
	}
	e.intake.batch.close()
	e.commits.batch.close()
	e.limiter.close()
	errs = append(errs, e.tally.flush(ctx))
	e.pacing.Close()
	return errors.Join(errs...)
}

func (e *Engine) beat(ctx context.Context) error {
	if err := e.queries.ProcessBeat(ctx, e.pool, e.process, e.Roles); err != nil {
		return fmt.Errorf("register process: %w", err)
	}
	return nil
}

func (e *Engine) keepBeating(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := e.beat(ctx); err != nil && ctx.Err() == nil {
				e.Log.WarnContext(ctx, "beat", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// Publish takes one event in. When it returns, the event, what it owes and the jobs are durable. Errors: *InvalidError, *ConflictError
// (the id is taken by other content), or a fault of the database.
func (e *Engine) Publish(_ context.Context, event Event) (Receipt, error) {
	result := e.intake.publish([]Event{event})[0]
	return result.Receipt, result.Err
}

// PublishMany takes events in, each on its own: one that is refused does not hold up the others. Results are in the order given.
func (e *Engine) PublishMany(_ context.Context, events []Event) []Result {
	return e.intake.publish(events)
}
