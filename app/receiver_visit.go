package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

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
	default: // counted by applied or, as tempered, by arrive
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
