package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"weir/db/dbsqlc"
)

// QueueDiscover is where discovery is worked, apart from deliveries so that a backlog of those cannot hold it up.
const QueueDiscover = "discover"

// SourceOutbox is the built-in source.
const SourceOutbox = "outbox"

// discoveryPage bounds what one run reads, and so its transaction.
const discoveryPage = 500

// DiscoverArgs name the source to read.
type DiscoverArgs struct {
	Source string `json:"source" river:"unique"`
}

// Kind is the stable name of the job.
func (DiscoverArgs) Kind() string { return "discover" }

// InsertOpts keep one run per source: a tick that comes while a run is at work adds nothing.
func (DiscoverArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueDiscover, MaxAttempts: 5, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: liveStates}}
}

// DiscoverWorker moves one page from a source into the ledger: events, deliveries, jobs, the run's record and the completion of its own
// job in one transaction. A tick that is missed costs time, nothing else: the next run takes what waits. A full page asks for another
// run in the same transaction. Runs that overlap take different rows.
type DiscoverWorker struct {
	river.WorkerDefaults[DiscoverArgs]

	pool    *pgxpool.Pool
	queries *dbsqlc.Queries
	client  func() *river.Client[pgx.Tx] // made after its workers
	fanout  *fanout
	limit   int
	log     *slog.Logger
}

// Timeout bounds a run; the page is sized to take a fraction of it.
func (w *DiscoverWorker) Timeout(*river.Job[DiscoverArgs]) time.Duration { return 30 * time.Second }

// NextRetry is soon: the next tick is the real retry.
func (w *DiscoverWorker) NextRetry(*river.Job[DiscoverArgs]) time.Time {
	return time.Now().Add(time.Second)
}

// Work runs one page. Where a row is refused by the database itself, the page is run again row by row, so that this row is parked with its
// reason and takes no other with it.
func (w *DiscoverWorker) Work(ctx context.Context, job *river.Job[DiscoverArgs]) error {
	if job.Args.Source != SourceOutbox {
		return river.JobCancel(fmt.Errorf("source %q is not known to this version", printable(job.Args.Source)))
	}
	started := time.Now()
	run, err := w.page(ctx, job, started, false)
	if isDataError(err) {
		run, err = w.page(ctx, job, started, true)
	}
	if err != nil {
		w.recordFailure(ctx, job, started, err)
		return fmt.Errorf("discover: %w", err)
	}
	if run.Read > 0 {
		w.log.InfoContext(ctx, "discovered", "source", run.Source, "read", run.Read, "new", run.New,
			"duplicate", run.Duplicate, "refused", run.Refused, "deliveries", run.Deliveries)
	}
	return nil
}

func (w *DiscoverWorker) page(ctx context.Context, job *river.Job[DiscoverArgs], started time.Time, alone bool) (dbsqlc.DiscoveryRunInsertParams, error) {
	run := dbsqlc.DiscoveryRunInsertParams{JobID: job.ID, Source: SourceOutbox, StartedAt: started}
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		more, err := w.resume(ctx, tx, &run)
		if err != nil {
			return err
		}
		rows, err := w.queries.OutboxTake(ctx, tx, discoveryPage)
		if err != nil {
			return fmt.Errorf("read outbox: %w", err)
		}
		p := page{w: w, run: &run}
		if err := p.take(ctx, tx, rows, alone); err != nil {
			return err
		}
		if err := w.queries.DiscoveryRunInsert(ctx, tx, run); err != nil {
			return fmt.Errorf("record run: %w", err)
		}
		return w.complete(ctx, tx, job, more || len(rows) == discoveryPage || p.unfinished)
	})
	return run, err
}

// resume goes on with fan-outs that were wider than a page. It reports whether there may be more to do.
func (w *DiscoverWorker) resume(ctx context.Context, tx pgx.Tx, run *dbsqlc.DiscoveryRunInsertParams) (bool, error) {
	events, err := w.queries.EventListUnfinished(ctx, tx, 100)
	if err != nil || len(events) == 0 {
		return false, err
	}
	made, err := w.fanout.spread(ctx, tx, events, true)
	run.Deliveries += int32(made) // bounded by the page
	return true, err
}

// complete finishes the job in the run's own transaction. JobCompleteTx does not fail when the job no longer runs (it was rescued), so
// its state is checked: then this run must not commit, the other one will.
func (w *DiscoverWorker) complete(ctx context.Context, tx pgx.Tx, job *river.Job[DiscoverArgs], more bool) error {
	completed, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
	if err != nil {
		return fmt.Errorf("complete job: %w", err)
	}
	if completed.State != rivertype.JobStateCompleted {
		return fmt.Errorf("complete job: it is %s, another run has taken over", completed.State)
	}
	if more {
		if _, err := w.client().InsertTx(ctx, tx, DiscoverArgs{Source: job.Args.Source}, nil); err != nil {
			return fmt.Errorf("ask for another run: %w", err)
		}
	}
	return nil
}

func (w *DiscoverWorker) recordFailure(ctx context.Context, job *river.Job[DiscoverArgs], started time.Time, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := w.queries.DiscoveryRunInsert(ctx, w.pool, dbsqlc.DiscoveryRunInsertParams{
		JobID: job.ID, Source: SourceOutbox, StartedAt: started, Error: databaseFault(cause),
	})
	if err != nil {
		w.log.ErrorContext(ctx, "record failed discovery run", "error", err)
	}
}

// databaseFault describes an error without its detail, which may quote a row.
func databaseFault(err error) string {
	var pgError *pgconn.PgError
	if !errors.As(err, &pgError) {
		return "the run failed: " + printable(err.Error())
	}
	text := "the database refused it: SQLSTATE " + pgError.Code
	if pgError.ConstraintName != "" {
		text += ", constraint " + pgError.ConstraintName
	}
	return text
}

// page is one run's way through the rows that it took.
type page struct {
	w          *DiscoverWorker
	run        *dbsqlc.DiscoveryRunInsertParams
	taken      []int64
	refused    []int64
	reasons    []string
	unfinished bool
}

func (p *page) take(ctx context.Context, tx pgx.Tx, rows []dbsqlc.Outbox, alone bool) error {
	now := time.Now()
	var events []Event
	var ids []int64
	for _, row := range rows {
		p.run.Read++
		event := outboxEvent(row)
		if err := event.normalize(now, p.w.limit); err != nil {
			p.refuse(row.ID, err.Error())
			continue
		}
		events, ids = append(events, event), append(ids, row.ID)
	}
	size := len(events)
	if alone {
		size = 1
	}
	for start := 0; start < len(events); start += size {
		end := min(start+size, len(events))
		if err := p.takeSome(ctx, tx, events[start:end], ids[start:end], alone); err != nil {
			return err
		}
	}
	if len(p.taken) > 0 {
		if err := p.w.queries.OutboxDeleteMany(ctx, tx, p.taken); err != nil {
			return fmt.Errorf("take from outbox: %w", err)
		}
	}
	if len(p.refused) > 0 {
		if err := p.w.queries.OutboxRefuse(ctx, tx, p.refused, p.reasons); err != nil {
			return fmt.Errorf("park refused: %w", err)
		}
	}
	return nil
}

// takeSome inserts and fans out; alone, inside a savepoint, so that a row which the database refuses is parked.
func (p *page) takeSome(ctx context.Context, tx pgx.Tx, events []Event, ids []int64, alone bool) error {
	if !alone {
		return p.insert(ctx, tx, events, ids)
	}
	saved := *p.run
	err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error { return p.insert(ctx, savepoint, events, ids) })
	if isDataError(err) {
		*p.run = saved
		p.refuse(ids[0], databaseFault(err))
		return nil
	}
	return err
}

func (p *page) insert(ctx context.Context, tx pgx.Tx, events []Event, ids []int64) error {
	results, fresh, err := insertEvents(ctx, tx, p.w.queries, events)
	if err != nil {
		return err
	}
	if err := p.w.fanout.keys.index(ctx, tx, events, fresh); err != nil {
		return err
	}
	if len(fresh) > 0 {
		made, err := p.w.fanout.spread(ctx, tx, fresh, false)
		if err != nil {
			return err
		}
		p.run.Deliveries += int32(made) // bounded by the page
		p.unfinished = p.unfinished || made >= fanoutPage
	}
	for i, result := range results {
		switch {
		case result.Err != nil:
			p.refuse(ids[i], result.Err.Error())
			continue
		case result.Receipt.Duplicate:
			p.run.Duplicate++
		default:
			p.run.New++
		}
		p.taken = append(p.taken, ids[i])
	}
	return nil
}

func (p *page) refuse(id int64, reason string) {
	p.run.Refused++
	p.refused = append(p.refused, id)
	p.reasons = append(p.reasons, reason)
}

func outboxEvent(row dbsqlc.Outbox) Event {
	e := Event{Type: row.Type, Subject: row.Subject, Version: row.Version, Payload: row.Payload, OccurredAt: row.CreatedAt}
	if row.EventID != nil {
		e.ID = *row.EventID
	}
	if row.Tenant != nil {
		e.Tenant = *row.Tenant
	}
	if row.OccurredAt != nil {
		e.OccurredAt = *row.OccurredAt
	}
	if row.ExpiresAt != nil {
		e.ExpiresAt = *row.ExpiresAt
	}
	if row.Priority != nil {
		e.Priority = *row.Priority
	}
	return e
}
