package jobs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/jobs/webhook"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	schedule := Schedule{Waits: []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}}
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		outcome  webhook.Outcome
		try      try
		state    string
		charge   int32
		delay    time.Duration
		hold     time.Duration
		holdsErr bool
	}{
		"delivered":                              {webhook.Outcome{Verdict: webhook.Delivered}, try{1, 0, day, schedule}, StateDelivered, 0, 0, 0, false},
		"a first failure takes the first step":   {webhook.Outcome{Verdict: webhook.Retry}, try{1, 0, day, schedule}, StateRetrying, 1, 5 * time.Second, 0, false},
		"429s before it do not move the step":    {webhook.Outcome{Verdict: webhook.Retry}, try{9, 0, day, schedule}, StateRetrying, 1, 5 * time.Second, 0, false},
		"the last step":                          {webhook.Outcome{Verdict: webhook.Retry}, try{3, 2, day, schedule}, StateRetrying, 1, 5 * time.Minute, 0, false},
		"after it the budget is spent":           {webhook.Outcome{Verdict: webhook.Retry}, try{4, 3, day, schedule}, StateDeadLettered, 1, 0, 0, false},
		"an empty schedule is one attempt":       {webhook.Outcome{Verdict: webhook.Retry}, try{1, 0, day, Schedule{}}, StateDeadLettered, 1, 0, 0, false},
		"a longer hint of a 500 is obeyed":       {webhook.Outcome{Verdict: webhook.Retry, HasRetryAfter: true, RetryAfter: time.Minute}, try{1, 0, day, schedule}, StateRetrying, 1, time.Minute, 0, false},
		"a shorter one is not":                   {webhook.Outcome{Verdict: webhook.Retry, HasRetryAfter: true}, try{1, 0, day, schedule}, StateRetrying, 1, 5 * time.Second, 0, false},
		"no wait goes beyond the expiry":         {webhook.Outcome{Verdict: webhook.Retry}, try{3, 2, time.Minute, schedule}, StateRetrying, 1, time.Minute, 0, false},
		"a 429 holds in full and is not charged": {webhook.Outcome{Verdict: webhook.Hold, Status: 429, HasRetryAfter: true, RetryAfter: 20 * time.Second}, try{1, 0, day, schedule}, StateRetrying, 0, 20 * time.Second, 20 * time.Second, true},
		"a 429 with a tiny hint waits a step":    {webhook.Outcome{Verdict: webhook.Hold, Status: 429, HasRetryAfter: true}, try{1, 0, day, schedule}, StateRetrying, 0, 5 * time.Second, 0, true},
		"a 429 without one takes the step":       {webhook.Outcome{Verdict: webhook.Hold, Status: 429}, try{2, 0, day, schedule}, StateRetrying, 0, 30 * time.Second, 30 * time.Second, true},
		"and never more than the third":          {webhook.Outcome{Verdict: webhook.Hold, Status: 429}, try{50, 0, day, schedule}, StateRetrying, 0, 5 * time.Minute, 5 * time.Minute, true},
		"a day is obeyed an hour at a time":      {webhook.Outcome{Verdict: webhook.Hold, Status: 429, HasRetryAfter: true, RetryAfter: day}, try{1, 0, 3 * day, schedule}, StateRetrying, 0, HoldCap, HoldCap, true},
		"a 503 holds and is charged":             {webhook.Outcome{Verdict: webhook.Hold, Status: 503, HasRetryAfter: true, RetryAfter: 10 * time.Second}, try{1, 0, day, schedule}, StateRetrying, 1, 10 * time.Second, 10 * time.Second, true},
		"a 503 for ever ends":                    {webhook.Outcome{Verdict: webhook.Hold, Status: 503, HasRetryAfter: true}, try{4, 3, day, schedule}, StateDeadLettered, 1, 0, 0, false},
		"our own shutdown is not charged":        {webhook.Outcome{Verdict: webhook.Retry, ErrorClass: webhook.ClassShutdown}, try{1, 3, day, schedule}, StateRetrying, 0, 0, 0, false},
		"an interruption is, and goes at once":   {webhook.Outcome{Verdict: webhook.Retry, ErrorClass: ClassInterrupted}, try{1, 0, 0, schedule}, StateRetrying, 1, 0, 0, false},
		"a refusal ends":                         {webhook.Outcome{Verdict: webhook.Reject}, try{1, 0, day, schedule}, StateDeadLettered, 1, 0, 0, false},
		"our own guard's, too":                   {webhook.Outcome{Verdict: webhook.Blocked}, try{1, 0, day, schedule}, StateDeadLettered, 1, 0, 0, false},
	} {
		got := decide(c.outcome, c.try)
		require.Equal(t, c.state, got.state, name)
		require.Equal(t, c.charge, got.charge, name)
		require.Equal(t, c.delay, got.delay, name)
		require.Equal(t, c.hold, got.hold, name)
		var hold *HoldError
		require.Equal(t, c.holdsErr, asHold(got.err, &hold), name)
	}
	require.True(t, decide(webhook.Outcome{Verdict: webhook.Gone}, try{1, 0, day, schedule}).gone)
}

func asHold(err error, into **HoldError) bool {
	hold, ok := err.(*HoldError) //nolint:errorlint // decide returns it as it is
	*into = hold
	return ok
}

func TestJitterSpreadsOverAFifth(t *testing.T) {
	t.Parallel()
	s := Schedule{Waits: []time.Duration{10 * time.Second}, Jitter: 0.2}
	least, most := time.Hour, time.Duration(0)
	for range 2000 {
		wait := s.wait(0)
		least, most = min(least, wait), max(most, wait)
	}
	require.GreaterOrEqual(t, least, 8*time.Second)
	require.LessOrEqual(t, most, 12*time.Second)
	require.Greater(t, most-least, 3*time.Second)
}
