package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

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
