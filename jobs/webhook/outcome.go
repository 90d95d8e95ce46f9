package webhook

import "time"

// Verdict is what one request means for its delivery. It is a value and not an error: an unhappy answer is the
// ordinary business of a webhook sender.
type Verdict string

const (
	Delivered Verdict = "delivered" // the receiver has it
	Retry     Verdict = "retry"     // try again after the backoff
	Hold      Verdict = "hold"      // the receiver asks the whole lane to wait
	Reject    Verdict = "reject"    // it will never be taken; dead-letter it
	Gone      Verdict = "gone"      // dead-letter it and disable the destination
	Blocked   Verdict = "blocked"   // our own guard refused to connect
)

// Error classes: few, stable and without any detail of the request, so that they can be labels of a metric. The class
// of a guard refusal is ClassBlocked followed by its reason, e.g. "blocked_loopback".
const (
	ClassTimeout           = "timeout"            // connected, but no status within the request timeout
	ClassConnectTimeout    = "connect_timeout"    // no connection in time
	ClassDNS               = "dns"                // the name does not exist
	ClassDNSTemporary      = "dns_temporary"      // the name could not be looked up now
	ClassConnectionRefused = "connection_refused" // nobody listens there
	ClassConnectionReset   = "connection_reset"   // closed or reset before a status arrived
	ClassUnreachable       = "unreachable"        // no route to the address
	ClassTLS               = "tls"                // the handshake failed; the reason names the cause
	ClassProtocol          = "protocol"           // what came back is not a usable HTTP response
	ClassHeaderTooLarge    = "header_too_large"   // response headers over the limit
	ClassBlocked           = "blocked_"           // prefix; see BlockedError
	ClassRedirect          = "redirect"           // any 3xx: never followed
	ClassGone              = "gone"               // 410
	ClassStatus429         = "status_429"
	ClassStatus4xx         = "status_4xx"
	ClassStatus5xx         = "status_5xx"
	ClassStatus2xx         = "status_2xx"      // only where a destination's own rule does not count it as delivered
	ClassInvalidRequest    = "invalid_request" // our side: no key, or a URL that cannot be parsed
	ClassShutdown          = "shutdown"        // the caller's context ended
)

// Outcome is what came of one request.
type Outcome struct {
	Verdict    Verdict
	Status     int    // HTTP status; 0 when none arrived
	ErrorClass string // one of the classes above; empty when delivered

	// RetryAfter is the receiver's wish. It is meaningful only with HasRetryAfter, since "0" is a wish, too. Never
	// negative; not capped here.
	RetryAfter    time.Duration
	HasRetryAfter bool
	RetryAfterRaw string // what was sent, valid or not: printable, at most 100 bytes

	Took      time.Duration // from the call to the verdict, including the connection and the body
	Phases    Phases        // where that time went
	Excerpt   []byte        // the beginning of the response body, values of our own headers removed
	Truncated bool          // there was, or may have been, more than Excerpt
	Headers   []Header      // of the response, by name and without what is secret; nil where nobody asked and it was a success
	Location  string        // on 3xx: where it pointed, without userinfo, query and fragment

	// Unknown is true when the whole request was written but no status came back: the receiver may have applied it.
	// The next request carries the same id, which is how the receiver can tell.
	Unknown bool

	Reason string // one sentence for a person: no URL, no secret, no payload
}
