package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Names of the headers that Weir itself sets. The first three are those of the Standard Webhooks specification.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"

	HeaderEventType  = "Weir-Event-Type"
	HeaderSubject    = "Weir-Subject"
	HeaderVersion    = "Weir-Version"
	HeaderEventTime  = "Weir-Event-Time"
	HeaderAttempt    = "Weir-Attempt"
	HeaderDeliveryID = "Weir-Delivery-Id"
	HeaderReplay     = "Weir-Replay"
)

// headerIdempotencyKey is written in lower case on purpose. net/http takes a request that has a header stored under the
// canonical "Idempotency-Key" as safe to repeat, and sends it a second time by itself when a connection breaks before
// the answer: a request that no ledger row and no rate limit would know of. Header names have no case on the wire
// (RFC 9110 §5.1), so the receiver sees the same header.
const headerIdempotencyKey = "idempotency-key"

// Message is one event on its way to one destination.
type Message struct {
	ID      string // the event's id for life: webhook-id and Idempotency-Key
	Type    string // e.g. "shipment.updated"
	Subject string // e.g. the shipment's number; may be empty
	Version *int64 // the subject's version, where the producer gave one

	EventTime time.Time // when it happened; left out when zero
	Body      []byte    // sent and signed exactly as it is

	Attempt    int    // 1 for the first request of this delivery; left out when 0
	DeliveryID string // left out when empty
	Replay     bool   // true when an operator asked for this request
}

// setHeaders writes all headers of the message into h, except the timestamp and the signature, which belong to one
// attempt. version is the product's, for User-Agent. Empty values are left out.
func (m Message) setHeaders(h http.Header, version string) {
	set := func(name, value string) {
		if value != "" {
			h[name] = []string{encodeHeaderValue(value)}
		}
	}

	h["Content-Type"] = []string{"application/json"}
	h["User-Agent"] = []string{"Weir/" + encodeHeaderValue(version)}

	set(HeaderID, m.ID)
	set(headerIdempotencyKey, m.ID)
	set(HeaderEventType, m.Type)
	set(HeaderSubject, m.Subject)
	set(HeaderDeliveryID, m.DeliveryID)

	if m.Version != nil {
		set(HeaderVersion, strconv.FormatInt(*m.Version, 10))
	}
	if !m.EventTime.IsZero() {
		set(HeaderEventTime, m.EventTime.UTC().Format(time.RFC3339Nano))
	}
	if m.Attempt > 0 {
		set(HeaderAttempt, strconv.Itoa(m.Attempt))
	}
	if m.Replay {
		set(HeaderReplay, "true")
	}
}

// encodeHeaderValue returns s with everything that a header cannot carry unharmed percent-encoded: control bytes,
// bytes outside ASCII, and spaces at either end, which receivers strip (RFC 9110 §5.5). The percent sign is encoded
// too, so that percent-decoding always gives s back. A value without any of these is returned as it is.
func encodeHeaderValue(s string) string {
	const hex = "0123456789ABCDEF"

	mustEncode := func(i int) bool {
		c := s[i]
		atEnd := i == 0 || i == len(s)-1

		return c < ' ' || c >= 0x7f || c == '%' || (c == ' ' && atEnd)
	}

	clean := true
	for i := range len(s) {
		if mustEncode(i) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}

	var b strings.Builder
	for i := range len(s) {
		if mustEncode(i) {
			b.Write([]byte{'%', hex[s[i]>>4], hex[s[i]&15]})
			continue
		}
		b.WriteByte(s[i])
	}

	return b.String()
}
