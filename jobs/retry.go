package jobs

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"weir/jobs/webhook"
)

// States of a delivery; see db/migrations for what each implies.
const (
	StatePending      = "pending"
	StateRetrying     = "retrying"
	StateDelivered    = "delivered"
	StateExpired      = "expired"
	StateDeadLettered = "dead_lettered"
	StateSuperseded   = "superseded"
	StateCancelled    = "cancelled"
)

// HoldCap is the longest that one answer can hold a lane: a Retry-After of a day is obeyed an hour at a time.
const HoldCap = time.Hour

// Error classes that the jobs themselves give an attempt, besides those of package webhook.
const (
	ClassInterrupted = "interrupted" // the process ended while the request was under way: its outcome is unknown
	ClassLate        = "late"        // the process was too late for its slot; no request was made
	ClassConfig      = "config"      // the destination's secrets or headers could not be read
)

// Schedule is a destination's retry policy: the waits between attempts (n waits mean n + 1 attempts, none mean one) and the share by
// which each is randomly longer or shorter, so that an outage does not end in one instant.
type Schedule struct {
	Waits  []time.Duration
	Jitter float64 // 0 to 1
}

func (s Schedule) wait(step int) time.Duration {
	if len(s.Waits) == 0 {
		return 0
	}
	wait := s.Waits[min(max(step, 0), len(s.Waits)-1)]
	return time.Duration(float64(wait) * (1 + s.Jitter*(2*rand.Float64()-1)))
}

// decision is what one outcome means for its delivery.
type decision struct {
	state  string
	charge int32         // 1 when the attempt counts against the retry budget
	delay  time.Duration // until the next attempt
	hold   time.Duration // for the whole lane; 0: none
	gone   bool          // disable the destination
	reason string
	err    error // for River: nil, or one of the typed errors
}

// try is what decide must know of the attempt besides its outcome.
type try struct {
	no       int32         // of the attempt, from 1
	failures int32         // what the budget was charged before it
	left     time.Duration // until the delivery expires: no wait is longer
	schedule Schedule
}

// decide judges an outcome by the destination's schedule.
//
//   - A 429 is about pace, not about the delivery: it holds the lane and is never charged, so a receiver that is busy for a day costs
//     nobody their budget; the delivery's expiry bounds it. The wait is at least the schedule's first step.
//   - A 503 with Retry-After holds the lane and is charged: that receiver is ill. The wait is the longer of schedule and hint.
//   - A request cut short by our own shutdown, or never made, is not charged.
func decide(o webhook.Outcome, t try) decision {
	switch o.Verdict {
	case webhook.Delivered:
		return decision{state: StateDelivered}
	case webhook.Hold:
		return decideHold(o, t)
	case webhook.Retry:
		if o.ErrorClass == webhook.ClassShutdown || o.ErrorClass == ClassLate {
			return decision{state: StateRetrying, reason: o.Reason, err: &RetryableError{Class: o.ErrorClass}}
		}
		if o.ErrorClass == ClassInterrupted {
			return charged(o, t, 0)
		}
		wait := t.schedule.wait(int(t.failures))
		if o.HasRetryAfter {
			wait = max(wait, min(o.RetryAfter, HoldCap))
		}
		return charged(o, t, wait)
	default: // reject, gone, blocked: sending the same again would be refused again
		return decision{
			state: StateDeadLettered, charge: 1, reason: cmp.Or(o.Reason, o.ErrorClass, "refused"), gone: o.Verdict == webhook.Gone,
			err: &PermanentError{Class: o.ErrorClass},
		}
	}
}

func decideHold(o webhook.Outcome, t try) decision {
	hint := min(o.RetryAfter, HoldCap)
	if o.Status != http.StatusTooManyRequests {
		wait := max(t.schedule.wait(int(t.failures)), hint)
		d := charged(o, t, wait)
		if d.hold = hint; !o.HasRetryAfter {
			d.hold = wait
		}
		if d.state == StateRetrying {
			d.err = &HoldError{Class: o.ErrorClass, Wait: d.delay}
		}
		return d
	}
	// Without a hint the wait grows, but not beyond the third step: nobody asked for hours.
	wait := t.schedule.wait(min(int(t.no)-1, 2))
	hold := wait
	if o.HasRetryAfter {
		wait, hold = max(t.schedule.wait(0), hint), hint
	}
	wait = min(wait, t.left)
	return decision{
		state: StateRetrying, delay: wait, hold: hold, reason: o.Reason, err: &HoldError{Class: o.ErrorClass, Wait: wait},
	}
}

// charged takes one from the budget and dead-letters when it is spent.
func charged(o webhook.Outcome, t try, wait time.Duration) decision {
	if int(t.failures) >= len(t.schedule.Waits) {
		return decision{
			state: StateDeadLettered, charge: 1, err: &PermanentError{Class: o.ErrorClass},
			reason: fmt.Sprintf("all %d attempts failed; the last: %s", t.failures+1, o.Reason),
		}
	}
	wait = min(wait, t.left)
	return decision{
		state: StateRetrying, charge: 1, delay: wait, reason: o.Reason, err: &RetryableError{Class: o.ErrorClass, Wait: wait},
	}
}
