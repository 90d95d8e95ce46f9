package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
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

// visit is one request to a destination, from its arrival to its answer.
type visit struct {
	receiver  *receiver
	path      *receiverPath
	number    uint64 // in the request log
	elapsed   time.Duration
	eventID   string // empty where there is none to be used
	attempt   int
	temper    temper // the zero one where this request is spared
	temperErr error
	verifiers []*standardwebhooks.Webhook
	verified  bool
	read      bool // sum is set
	sum       [sha256.Size]byte
	finished  bool
}

// arrive counts a request in and settles how it will be treated.
func (r *receiver) arrive(path *receiverPath, req *http.Request) *visit {
	v := &visit{receiver: r, path: path}
	if id := req.Header.Get(standardwebhooks.HeaderWebhookID); isReceiverText(id) {
		v.eventID = id
	}
	if n, err := strconv.ParseInt(req.Header.Get("weir-attempt"), 10, 32); err == nil {
		v.attempt = int(n)
	}
	var own temper
	hasOwn := false
	if req.URL.RawQuery != "" && !r.noControl {
		own, hasOwn, v.temperErr = parseTemperQuery(req.URL.Query())
	}
	r.mu.RLock()
	v.verifiers = r.verifiers
	r.mu.RUnlock()

	path.mu.Lock()
	v.elapsed = time.Since(r.started) // under the lock, so that arrivals are in order
	path.counts.Requests++
	path.counts.InFlight++
	path.counts.MaxInFlight = max(path.counts.MaxInFlight, path.counts.InFlight)
	path.counts.MaxPerSecond = path.meter.arrive(v.elapsed)
	path.seen++
	if !hasOwn {
		own = path.temper
	}
	if v.temperErr == nil && path.picks(own) {
		v.temper = own
		path.counts.Tempered++
	}
	if len(path.verifiers) > 0 {
		v.verifiers = path.verifiers
	}
	path.mu.Unlock()

	v.number = r.log.begin(requestRecord{
		at:      r.started.Add(v.elapsed),
		path:    path.name,
		eventID: v.eventID,
		attempt: v.attempt,
		outcome: outcomeOpen,
	})
	return v
}

// verify checks the signature with each secret that holds. The error is one line that says why, and nothing secret.
func (v *visit) verify(body []byte, header http.Header) error {
	if len(v.verifiers) == 0 {
		v.path.mu.Lock()
		v.path.counts.Unverified++
		first := !v.path.warned
		v.path.warned = true
		v.path.mu.Unlock()
		if first {
			v.receiver.logger.Warn("NO SIGNATURE IS VERIFIED on this path: it has no secret", "path", v.path.name)
		}
		return nil
	}
	var err error
	for _, verifier := range v.verifiers {
		if err = verifier.Verify(body, header); err == nil {
			v.verified = true
			return nil
		}
	}
	for _, reason := range []error{
		standardwebhooks.ErrRequiredHeaders,
		standardwebhooks.ErrMessageTooOld,
		standardwebhooks.ErrMessageTooNew,
		standardwebhooks.ErrNoMatchingSignature,
	} {
		if errors.Is(err, reason) {
			return reason
		}
	}
	return errors.New("invalid signature headers")
}

// applied counts at once what the inbox has done: a temper may keep the answer for long.
func (v *visit) applied(result outcome) {
	v.path.mu.Lock()
	switch result {
	case outcomeApplied:
		v.path.counts.Effects++
	case outcomeConflict:
		v.path.counts.Conflicts++
		v.path.counts.Duplicates++
	default:
		v.path.counts.Duplicates++
	}
	v.path.mu.Unlock()
	if result == outcomeApplied {
		v.receiver.log.addEffect(inboxKey{v.path.name, v.eventID})
	}
}

// finish counts the request out.
func (v *visit) finish(answer reply) {
	if v.finished {
		return
	}
	v.finished = true
	v.path.mu.Lock()
	v.path.counts.InFlight--
	switch answer.outcome {
	case outcomeBadSignature:
		v.path.counts.BadSignatures++
	case outcomeRefused:
		v.path.counts.Refused++
	case outcomeFailed:
		v.path.counts.Failed++
	}
	v.path.mu.Unlock()

	record := requestRecord{
		at:      v.receiver.started.Add(v.elapsed),
		path:    v.path.name,
		eventID: v.eventID,
		attempt: v.attempt,
		status:  answer.status,
		outcome: answer.outcome,
		took:    time.Since(v.receiver.started) - v.elapsed,
	}
	if v.read {
		record.sum = v.sum[:]
	}
	v.receiver.log.end(v.number, record)
	if v.receiver.table != nil {
		v.receiver.table.add(record)
	}
}

// receiverPath is one destination.
type receiverPath struct {
	name string

	mu        sync.Mutex // never held while anything is read or written
	verifiers []*standardwebhooks.Webhook
	warned    bool
	temper    temper
	seen      int64 // requests since the temper was set
	spoiled   int64 // of them
	meter     rateMeter
	counts    counts
}

// counts is what a path has seen. Effects, duplicates and so on are this process's; the inbox knows of earlier ones too.
// A request is in flight until its answer is about to leave, or until the receiver notices that the client has gone: a
// sender that gives up and sends the next at once may be seen with both.
type counts struct {
	Path          string `json:"path"`
	Requests      int64  `json:"requests"`
	Effects       int64  `json:"effects"`
	Duplicates    int64  `json:"duplicates"`
	Conflicts     int64  `json:"conflicts"` // duplicates whose bytes differ from the first
	BadSignatures int64  `json:"bad_signatures"`
	Unverified    int64  `json:"unverified"`
	Tempered      int64  `json:"tempered"`
	Refused       int64  `json:"refused"`
	Failed        int64  `json:"failed"`
	InFlight      int64  `json:"in_flight"`
	MaxInFlight   int64  `json:"max_in_flight"`
	MaxPerSecond  int    `json:"max_per_second"` // the most that arrived in any window of one second
}

// path finds a destination, or makes it.
func (r *receiver) path(name string) (*receiverPath, error) {
	name = trimReceiverPath(name)
	r.mu.RLock()
	p := r.paths[name]
	r.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	if !strings.HasPrefix(name, "/") || strings.HasPrefix(name+"/", "/-/") || !isReceiverText(name) {
		return nil, fmt.Errorf("path: must begin with / but not with /-/, and be text of at most %d bytes", receiverMaxText)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.paths[name]; p != nil {
		return p, nil
	}
	if len(r.paths) >= receiverMaxPaths {
		return nil, fmt.Errorf("path: there are %d already, no more are served", receiverMaxPaths)
	}
	p = &receiverPath{name: name, counts: counts{Path: name}}
	r.paths[name] = p
	return p, nil
}

func (r *receiver) allPaths() []*receiverPath {
	r.mu.RLock()
	defer r.mu.RUnlock()
	paths := make([]*receiverPath, 0, len(r.paths))
	for _, p := range r.paths {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, b *receiverPath) int { return strings.Compare(a.name, b.name) })
	return paths
}

// trimReceiverPath makes /acme/ the same destination as /acme.
func trimReceiverPath(name string) string {
	if trimmed := strings.TrimRight(name, "/"); trimmed != "" || name == "" {
		return trimmed
	}
	return "/"
}

func (p *receiverPath) snapshot() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

func (p *receiverPath) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts = counts{Path: p.name, InFlight: p.counts.InFlight, MaxInFlight: p.counts.InFlight}
	p.meter = rateMeter{}
	p.seen, p.spoiled = 0, 0
}

// rateMeter finds the most arrivals in any window of one second: [t, t + 1 s).
type rateMeter struct {
	arrivals []time.Duration // of the last second, oldest first
	max      int
}

func (m *rateMeter) arrive(at time.Duration) (most int) {
	m.arrivals = append(m.arrivals, at)
	old := 0
	for at-m.arrivals[old] >= time.Second {
		old++
	}
	m.arrivals = m.arrivals[old:]
	m.max = max(m.max, len(m.arrivals))
	return m.max
}

// requestLog is the last requests of all paths, and how often each event came.
type requestLog struct {
	mu       sync.Mutex
	requests *ring[requestRecord]
	events   *remembered[inboxKey, eventTally]
}

type requestRecord struct {
	at      time.Time
	path    string
	eventID string
	attempt int
	status  int // 0: no answer, or none yet
	outcome outcome
	took    time.Duration
	sum     []byte // SHA-256 of the body; nil where it was not read
}

type eventTally struct{ requests, effects int64 }

func newRequestLog() *requestLog {
	return &requestLog{
		requests: newRing[requestRecord](requestLogLimit),
		events:   newRemembered[inboxKey, eventTally](eventTallyLimit),
	}
}

func (l *requestLog) begin(record requestRecord) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if record.eventID != "" {
		tally, _ := l.events.touch(inboxKey{record.path, record.eventID})
		tally.requests++
	}
	return l.requests.push(record)
}

func (l *requestLog) addEffect(key inboxKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tally, _ := l.events.touch(key)
	tally.effects++
}

func (l *requestLog) end(number uint64, record requestRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept := l.requests.get(number); kept != nil {
		*kept = record
	}
}

func (l *requestLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests.reset()
	l.events.reset()
}

// receiverList is a page of what came after a number, oldest first. NextAfter is null on the last page.
type receiverList[T any] struct {
	Items     []T     `json:"items"`
	NextAfter *uint64 `json:"next_after"`
}

type receiverRequestItem struct {
	Number     uint64    `json:"number"`
	At         time.Time `json:"at"`
	AtMicros   int64     `json:"at_us"` // since 1970
	Path       string    `json:"path"`
	EventID    string    `json:"event_id"`
	Attempt    int       `json:"attempt"`
	Status     int       `json:"status"`
	Outcome    outcome   `json:"outcome"`
	TookMicros int64     `json:"took_us"`
	BodySHA256 string    `json:"body_sha256"`
}

type receiverEventItem struct {
	EventID  string `json:"event_id"`
	Requests int64  `json:"requests"`
	Effects  int64  `json:"effects"`
}

// page walks a ring from after on, and keeps what keep turns into an item, up to limit.
func page[T, Item any](from *ring[T], after uint64, limit int, keep func(n uint64, item *T) (Item, bool)) receiverList[Item] {
	list := receiverList[Item]{Items: []Item{}}
	last := after
	for n := max(after+1, from.first()); n < from.next; n++ {
		item, ok := keep(n, from.get(n))
		if !ok {
			continue
		}
		if len(list.Items) == limit {
			list.NextAfter = &last
			break
		}
		list.Items = append(list.Items, item)
		last = n
	}
	return list
}

func (l *requestLog) requestPage(path string, after uint64, limit int) receiverList[receiverRequestItem] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return page(l.requests, after, limit, func(n uint64, r *requestRecord) (receiverRequestItem, bool) {
		if path != "" && path != r.path {
			return receiverRequestItem{}, false
		}
		return receiverRequestItem{
			n, r.at, r.at.UnixMicro(), r.path, r.eventID, r.attempt, r.status, r.outcome, r.took.Microseconds(), hex.EncodeToString(r.sum),
		}, true
	})
}

func (l *requestLog) eventPage(path string, after uint64, limit int) receiverList[receiverEventItem] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return page(l.events.order, after, limit, func(_ uint64, key *inboxKey) (receiverEventItem, bool) {
		if key.path != path {
			return receiverEventItem{}, false
		}
		tally := l.events.values[*key]
		return receiverEventItem{key.id, tally.requests, tally.effects}, true
	})
}

func (r *receiver) serveCounts(w http.ResponseWriter, req *http.Request) {
	path := trimReceiverPath(req.URL.Query().Get("path"))
	if path == "" {
		list := receiverList[counts]{Items: []counts{}}
		for _, p := range r.allPaths() {
			list.Items = append(list.Items, p.snapshot())
		}
		writeReceiverJSON(w, list)
		return
	}
	after, limit, err := readPage(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	stored, err := r.inbox.Effects(req.Context(), path)
	if err != nil {
		r.inboxError(w, err)
		return
	}
	writeReceiverJSON(w, struct {
		counts
		StoredEffects int64                           `json:"stored_effects"` // in the inbox, also from before a restart
		Events        receiverList[receiverEventItem] `json:"events"`
	}{r.Counts(path), stored, r.log.eventPage(path, after, limit)})
}

func (r *receiver) serveRequests(w http.ResponseWriter, req *http.Request) {
	after, limit, err := readPage(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeReceiverJSON(w, r.log.requestPage(trimReceiverPath(req.URL.Query().Get("path")), after, limit))
}

func (r *receiver) serveShipment(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	shipment, ok, err := r.inbox.Shipment(req.Context(), trimReceiverPath(query.Get("path")), query.Get("subject"))
	switch {
	case err != nil:
		r.inboxError(w, err)
	case !ok:
		http.NotFound(w, req)
	default:
		writeReceiverJSON(w, map[string]any{
			"subject":     shipment.Subject,
			"version":     shipment.Version,
			"event_id":    shipment.EventID,
			"body_sha256": hex.EncodeToString(shipment.BodySHA256[:]),
		})
	}
}

func (r *receiver) servePutSecret(w http.ResponseWriter, req *http.Request) {
	r.servePut(w, req, func(path string, body []byte) error { return r.SetSecret(path, string(body)) })
}

func (r *receiver) servePutTemper(w http.ResponseWriter, req *http.Request) {
	r.servePut(w, req, func(path string, body []byte) error {
		t, err := parseTemperJSON(body)
		if err != nil {
			return err
		}
		return r.SetTemper(path, t)
	})
}

func (r *receiver) servePut(w http.ResponseWriter, req *http.Request, set func(path string, body []byte) error) {
	path := req.URL.Query().Get("path")
	if path == "" {
		http.Error(w, "path: is missing", http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 2*receiverMaxBody))
	if err == nil {
		err = set(path, body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) serveReset(w http.ResponseWriter, req *http.Request) {
	if err := r.Reset(req.Context()); err != nil {
		r.inboxError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) inboxError(w http.ResponseWriter, err error) {
	r.logger.Error("inbox", "error", err)
	http.Error(w, "the inbox does not answer", http.StatusServiceUnavailable)
}

func readPage(req *http.Request) (after uint64, limit int, err error) {
	query := req.URL.Query()
	limit = receiverPage
	if text := query.Get("after"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 63); err != nil {
			return 0, 0, errors.New("after: must be a whole number")
		}
	}
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > receiverPageLimit {
			return 0, 0, fmt.Errorf("limit: must be from 1 to %d", receiverPageLimit)
		}
	}
	return after, limit, nil
}

func writeReceiverJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // a client that has gone
}
