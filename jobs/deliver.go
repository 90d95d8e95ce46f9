package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"weir/jobs/webhook"
)

// The queues in which deliveries are worked, by what their lane's receiver is like. Each has its workers, so that receivers which hang
// fill the slow one and nobody else waits for them.
const (
	QueueDeliver     = "deliver"
	QueueDeliverSlow = "deliver_slow"
)

func queueOf(slow bool) string {
	if slow {
		return QueueDeliverSlow
	}
	return QueueDeliver
}

// liveStates are those in which a job can still run. A job is unique only while it is in one of them: finished jobs leave the index, and
// the ledger's own constraint, which lasts, decides about them.
var liveStates = []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
}

// DeliverArgs names one delivery and which of its jobs this is. Everything else is read when the job runs: arguments are visible in
// River, and stale as soon as somebody edits a destination.
type DeliverArgs struct {
	DeliveryID int64 `json:"delivery_id" river:"unique"`
	Try        int32 `json:"try" river:"unique"`
}

// Kind is the stable name of the job.
func (DeliverArgs) Kind() string { return "deliver" }

// InsertOpts make the job unique by delivery and try. The retry budget is the ledger's, so River's is out of the way.
func (DeliverArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{
		Queue: QueueDeliver, MaxAttempts: 1000, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: liveStates},
	}
}

// DeliverWorker makes one delivery: admit, send at the slot, judge, settle.
type DeliverWorker struct {
	river.WorkerDefaults[DeliverArgs]

	limiter *limiter
	ledger  *ledger
	targets *targets
	sender  *webhook.Sender
	slow    *slowTracker
	log     *slog.Logger
}

// Work does what the name says; what it returns steers River: nil completes the job, the typed errors become a snooze or a discard.
func (w *DeliverWorker) Work(ctx context.Context, job *river.Job[DeliverArgs]) (err error) {
	defer w.recoverPanic(ctx, &err)
	admission, err := w.limiter.admit(ctx, admitAsk{job.Args.DeliveryID, job.ID, job.Queue == QueueDeliverSlow})
	if err != nil {
		return fmt.Errorf("admit delivery: %w", err)
	}
	if admission.Verdict != verdictGranted {
		return w.turnAway(job, admission)
	}
	outcome, schedule := w.send(ctx, admission)
	decision := decide(outcome, try{admission.No, admission.Failures, admission.until(admission.ExpiresAt), schedule})
	if err := w.ledger.close(job, admission, outcome, decision); err != nil {
		return fmt.Errorf("settle delivery: %w", err)
	}
	w.log.LogAttrs(ctx, slog.LevelDebug, "delivery attempted", slog.Int64("delivery", admission.DeliveryID),
		slog.Int64("destination", admission.DestinationID), slog.Int("attempt", int(admission.No)), slog.String("state", decision.state),
		slog.Int("status", outcome.Status), slog.String("class", outcome.ErrorClass), slog.Duration("took", outcome.Took))
	return riverError(decision.err)
}

// recoverPanic keeps a panic's text, which may quote a payload, out of River's record and the log: the type and the stack say enough.
func (w *DeliverWorker) recoverPanic(ctx context.Context, err *error) {
	if v := recover(); v != nil {
		w.log.ErrorContext(ctx, "panic in a delivery", "type", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
		*err = fmt.Errorf("panic of type %T in a delivery", v)
	}
}

// Timeout is above the longest wait for a slot (2 s) plus the longest request (60 s).
func (w *DeliverWorker) Timeout(*river.Job[DeliverArgs]) time.Duration { return 90 * time.Second }

// NextRetry is for faults of our own (no database): soon, since nothing was sent or the lease protects what was.
func (w *DeliverWorker) NextRetry(*river.Job[DeliverArgs]) time.Time {
	return time.Now().Add(2 * time.Second)
}

func (w *DeliverWorker) send(ctx context.Context, a admission) (outcome webhook.Outcome, _ Schedule) {
	target, err := w.targets.get(ctx, a.DestinationID, a.DestinationVersion)
	if err != nil {
		w.log.ErrorContext(ctx, "load destination for sending", "destination", a.DestinationID, "error", err)
		return webhook.Outcome{
			Verdict: webhook.Retry, ErrorClass: ClassConfig, Reason: "the destination's secrets or headers could not be read; no request was made",
		}, Schedule{Waits: []time.Duration{time.Minute}}
	}
	if a.late {
		return webhook.Outcome{Verdict: webhook.Retry, ErrorClass: ClassLate, Reason: "the process was late for its slot; no request was made"}, target.schedule
	}
	leave := w.slow.enter(a.LaneID)
	defer func() { leave(outcome) }()
	outcome = w.sender.Send(ctx, webhook.Request{
		URL: target.url, Keys: target.signingKeys(time.Now()), Headers: target.headers, Timeout: target.timeout, Policy: target.policy,
		KeepHeaders: a.Type == TypeTest,
		Message: webhook.Message{
			ID: a.EventID, Type: a.Type, Subject: a.Subject, Version: a.Version, EventTime: a.OccurredAt, Body: a.Payload,
			Attempt: int(a.No), DeliveryID: FormatDeliveryID(a.DeliveryID), Replay: a.ReplayID != 0,
		},
	})
	return outcome, target.schedule
}

// turnAway ends a job that may not send now. Those that only wait leave a pending successor behind and end well.
func (w *DeliverWorker) turnAway(job *river.Job[DeliverArgs], a admission) error {
	switch a.Verdict {
	case "missing", "settled", "foreign":
		return nil // the ledger has nothing for this job to do
	case "busy":
		return riverError(&RetryableError{Class: a.Verdict, Wait: a.until(a.LeaseUntil) + time.Second})
	case "early":
		return riverError(&RetryableError{Class: a.Verdict, Wait: a.until(a.DueAt)})
	case "expired":
		return w.end(job, a, StateExpired, "expired before it could be delivered", &ExpiredError{})
	case "superseded":
		return w.end(job, a, StateSuperseded, "a newer version came while it waited", &PermanentError{Class: StateSuperseded})
	case "deleted":
		return w.end(job, a, StateCancelled, "its destination was deleted", &PermanentError{Class: "cancelled"})
	case "behind":
		if err := w.ledger.block(job, a); err != nil {
			return fmt.Errorf("block delivery: %w", err)
		}
		return nil
	default: // paused, held, full, slow, rate, cap
		if err := w.ledger.park(job, a); err != nil {
			return fmt.Errorf("park delivery: %w", err)
		}
		return nil
	}
}

func (w *DeliverWorker) end(job *river.Job[DeliverArgs], a admission, state, reason string, why error) error {
	if err := w.ledger.end(job, a, state, reason); err != nil {
		return fmt.Errorf("end delivery: %w", err)
	}
	return riverError(why)
}

// riverError is the one place where what a delivery came to becomes what River does: a snooze with the wait, or a discard.
func riverError(err error) error {
	var (
		retryable *RetryableError
		hold      *HoldError
		permanent *PermanentError
		expired   *ExpiredError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &retryable):
		return errors.Join(river.JobSnooze(max(0, retryable.Wait)), err)
	case errors.As(err, &hold):
		return errors.Join(river.JobSnooze(max(0, hold.Wait)), err)
	case errors.As(err, &permanent), errors.As(err, &expired):
		return river.JobCancel(err)
	default:
		return err
	}
}

// FormatDeliveryID is how a delivery is named outside the database: "dlv_" and its number.
func FormatDeliveryID(id int64) string { return fmt.Sprintf("dlv_%d", id) }
