// Package webhook is the wire alone: it turns one event into one signed HTTP request, sends it past a guard that knows
// which networks may be reached, and says in a value what came of it. It knows no database and no queue, and never
// retries: whether and when an event is sent again is the caller's decision, made from the [Outcome].
//
// The reading order is the order of one request: [Message] (message.go), [Sign] (sign.go), [Guard] (guard.go and
// address.go), [Sender.Send] (send.go), [Policy] (policy.go) and [Outcome] (outcome.go).
package webhook
