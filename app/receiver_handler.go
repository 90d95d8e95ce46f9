package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	receiverMaxBody   = 1 << 20
	receiverMaxText   = 512    // bytes of an event id, type, subject, path
	receiverMaxPaths  = 1000   // destinations; strangers must not fill the memory
	requestLogLimit   = 65_536 // requests kept in memory, of all paths together
	eventTallyLimit   = 200_000
	receiverPage      = 1000
	receiverPageLimit = 10_000
)

// outcome is what became of one request.
type outcome string

const (
	outcomeOpen         outcome = "open"          // not answered yet
	outcomeApplied      outcome = "applied"       // took effect
	outcomeDuplicate    outcome = "duplicate"     // had taken effect before
	outcomeConflict     outcome = "conflict"      // had taken effect before, with other bytes
	outcomeBadSignature outcome = "bad_signature" // 401
	outcomeRefused      outcome = "refused"       // other 4xx: no POST, too large, unreadable
	outcomeFailed       outcome = "failed"        // the inbox did not answer
	outcomeTempered     outcome = "tempered"      // answered as the temper says, without effect
	outcomeHung         outcome = "hung"
	outcomeClosed       outcome = "closed"
	outcomeDied         outcome = "died"
	outcomeGone         outcome = "gone" // the client left before its event took effect
)

// Handler serves the destinations, and under /-/ what watches and steers them.
func (r *receiver) Handler() http.Handler {
	control := http.NewServeMux()
	control.HandleFunc("GET /-/counts", r.serveCounts)
	control.HandleFunc("GET /-/requests", r.serveRequests)
	control.HandleFunc("GET /-/shipment", r.serveShipment)
	control.HandleFunc("PUT /-/secret", r.servePutSecret)
	control.HandleFunc("PUT /-/temper", r.servePutTemper)
	control.HandleFunc("DELETE /-/{$}", r.serveReset)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case !strings.HasPrefix(req.URL.Path, "/-/"):
			r.serveDelivery(w, req)
		case r.noControl:
			http.NotFound(w, req)
		default:
			control.ServeHTTP(w, req)
		}
	})
}

// reply is an answer before it is written.
type reply struct {
	outcome    outcome
	status     int // 0: none
	body       []byte
	json       bool
	retryAfter string
	location   string
	drip       time.Duration
	reset      bool // no answer: the connection is reset
}

func refuse(status int, reason string) reply {
	return reply{outcome: outcomeRefused, status: status, body: []byte(reason + "\n")}
}

// serveDelivery is the life of one request. It is counted out before its answer leaves, so that whoever has the answer
// finds it counted, and a sender's next request never meets its own last one in flight.
func (r *receiver) serveDelivery(w http.ResponseWriter, req *http.Request) {
	path, err := r.path(req.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	v := r.arrive(path, req)
	defer v.finish(reply{outcome: outcomeFailed}) // for a panic; otherwise it is finished long before

	answer := r.receive(w, req, v)
	if answer.drip > 0 && answer.status != 0 {
		answer = r.drip(w, req, answer)
	}
	v.finish(answer)
	switch {
	case answer.reset:
		resetConnection(w)
	case answer.status == 0:
		panic(http.ErrAbortHandler) // closes the connection without an answer
	case answer.drip > 0:
		_, _ = w.Write(answer.body)
	default:
		answer.writeHeader(w)
		_, _ = w.Write(answer.body)
	}
}

// receive does what a subscriber does: read, verify, apply once. The rest is the temper.
func (r *receiver) receive(w http.ResponseWriter, req *http.Request, v *visit) reply {
	t := v.temper
	switch {
	case v.temperErr != nil:
		return refuse(http.StatusBadRequest, v.temperErr.Error())
	case req.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return refuse(http.StatusMethodNotAllowed, "a webhook is a POST")
	case t.Close == closeBefore:
		return reply{outcome: outcomeClosed, reset: true}
	}

	body, err := readBody(w, req)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", receiverMaxBody))
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "the body could not be read")
	}
	v.sum = sha256.Sum256(body)
	v.read = true
	if err := v.verify(body, req.Header); err != nil {
		return reply{outcome: outcomeBadSignature, status: http.StatusUnauthorized, body: []byte("bad signature: " + err.Error() + "\n")}
	}
	event, err := readInboxEvent(v, req.Header, body)
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}

	if t.waits() { // else the read timeout would look like a client that has gone
		controller := http.NewResponseController(w)
		_ = controller.SetReadDeadline(time.Time{})
		_ = controller.SetWriteDeadline(time.Time{})
	}
	switch {
	case t.Die:
		r.exit(137)
		return reply{outcome: outcomeDied}
	case t.Hang:
		r.wait(req.Context(), math.MaxInt64)
		return reply{outcome: outcomeHung}
	case !r.wait(req.Context(), t.Delay):
		return reply{outcome: outcomeGone}
	case t.Close == closeAfter:
		return reply{outcome: outcomeClosed, reset: true}
	case !t.applies():
		return t.reply(reply{})
	}

	result, err := r.inbox.Apply(req.Context(), event)
	if err != nil {
		if req.Context().Err() != nil {
			return reply{outcome: outcomeGone}
		}
		r.logger.Error("event not applied", "path", event.Path, "event_id", event.EventID, "error", err)
		return reply{outcome: outcomeFailed, status: http.StatusServiceUnavailable, body: []byte("the inbox does not answer\n")}
	}
	v.applied(result)
	if !r.wait(req.Context(), t.ApplyThenTimeout) {
		return reply{outcome: result}
	}
	return t.reply(reply{outcome: result, status: http.StatusOK, body: acknowledge(result, v.verified), json: true})
}

// acknowledge is the honest answer. A known id with other bytes is the sender's mistake, which sending it again would not mend.
func acknowledge(result outcome, verified bool) []byte {
	body := `{"duplicate": ` + strconv.FormatBool(result != outcomeApplied)
	if !verified {
		body += `, "verified": false`
	}
	return []byte(body + "}\n")
}

func (a reply) writeHeader(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	if a.json {
		header.Set("Content-Type", "application/json")
	}
	if a.retryAfter != "" {
		header.Set("Retry-After", a.retryAfter)
	}
	if a.location != "" {
		header.Set("Location", a.location)
	}
	if len(a.body) > 0 {
		header.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
}

// drip writes the header at once and then a byte per interval, all but the last one, which it leaves in the reply.
func (r *receiver) drip(w http.ResponseWriter, req *http.Request, a reply) reply {
	controller := http.NewResponseController(w)
	a.writeHeader(w)
	_ = controller.Flush()
	for r.wait(req.Context(), a.drip) {
		if len(a.body) <= 1 {
			return a
		}
		if _, err := w.Write(a.body[:1]); err != nil {
			break
		}
		_ = controller.Flush()
		a.body = a.body[1:]
	}
	return reply{outcome: a.outcome}
}

// wait returns false when the client goes, or the receiver stops, before d is over.
func (r *receiver) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-r.released:
	}
	return false
}

// resetConnection makes the peer see RST rather than an orderly end.
func resetConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil { // HTTP/2: the stream is reset
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func readBody(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	var body bytes.Buffer
	if n := req.ContentLength; n > 0 && n <= receiverMaxBody {
		body.Grow(int(n) + bytes.MinRead) // read to its end without growing, and the end is noticed
	}
	_, err := body.ReadFrom(http.MaxBytesReader(w, req.Body, receiverMaxBody))
	return body.Bytes(), err
}

// readInboxEvent reads what Weir's headers say. The signature covers the id, the time and the body only, so a subscriber
// that cannot trust the connection reads type, subject and version out of the body instead.
func readInboxEvent(v *visit, header http.Header, body []byte) (inboxEvent, error) {
	event := inboxEvent{
		Path:       v.path.name,
		EventID:    v.eventID,
		Type:       header.Get("weir-event-type"),
		Subject:    header.Get("weir-subject"),
		Body:       body,
		BodySHA256: v.sum,
	}
	if event.EventID == "" {
		return inboxEvent{}, errors.New("webhook-id: is missing, or is not text of at most 512 bytes")
	}
	if !isReceiverText(event.Type) || !isReceiverText(event.Subject) {
		return inboxEvent{}, errors.New("weir-event-type, weir-subject: must be text of at most 512 bytes")
	}
	if text := header.Get("weir-version"); text != "" {
		version, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return inboxEvent{}, errors.New("weir-version: must be a whole number")
		}
		event.Version = &version
	}
	return event, nil
}

// isReceiverText says whether Postgres would take s as text, and the memory too.
func isReceiverText(s string) bool {
	return len(s) <= receiverMaxText && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}
