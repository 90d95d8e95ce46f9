package jobs

import (
	"fmt"
	"time"
)

// InvalidError is input that cannot be taken. Field is its name as the caller wrote it ("expires_at", "subscriptions[0].types[1]"),
// Problem says what would be right. Neither carries a secret or a payload.
type InvalidError struct{ Field, Problem string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Problem }

// ConflictError is a request that contradicts what is there: the same event id with other bytes, a replay of what is still being sent.
type ConflictError struct{ What, Problem string }

func (e *ConflictError) Error() string { return e.What + ": " + e.Problem }

// NotFoundError is a name that nothing has.
type NotFoundError struct{ What, ID string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("%s %q not found", e.What, e.ID) }

// The errors below are what DeliverWorker.Work makes of a request's outcome. They are typed so that one place (riverError) maps them onto
// River: a snooze or a discard. Their text is short and without address or payload, because River keeps it with the job.

// RetryableError is an answer after which the same request may succeed later: the job sleeps for Wait.
type RetryableError struct {
	Class string
	Wait  time.Duration
}

func (e *RetryableError) Error() string { return fmt.Sprintf("retry in %s: %s", e.Wait, e.Class) }

// HoldError is an answer that asks for time (429, 503 with Retry-After): the lane is held and the job sleeps for Wait.
type HoldError struct {
	Class string
	Wait  time.Duration
}

func (e *HoldError) Error() string { return fmt.Sprintf("held for %s: %s", e.Wait, e.Class) }

// PermanentError is an end without delivery: refused, gone, blocked, or the retry budget is spent. The job is discarded.
type PermanentError struct{ Class string }

func (e *PermanentError) Error() string { return "dead-lettered: " + e.Class }

// ExpiredError is a delivery whose time ran out before it could be made. The job is discarded.
type ExpiredError struct{}

func (e *ExpiredError) Error() string { return "expired" }
