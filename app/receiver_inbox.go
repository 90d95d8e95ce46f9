package main

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// receiverInbox makes an event take effect once, however often it is sent.
type receiverInbox interface {
	// Apply does the event's effect and remembers its id in one step, and says which it was: outcomeApplied,
	// outcomeDuplicate, or outcomeConflict for an id that came before with other bytes. Only the first has an effect.
	Apply(ctx context.Context, event inboxEvent) (outcome, error)
	// Effects counts the effects that path has had, also those from before a restart.
	Effects(ctx context.Context, path string) (int64, error)
	// Shipment is what path knows of subject; ok is false where that is nothing.
	Shipment(ctx context.Context, path, subject string) (s shipmentState, ok bool, err error)
	Reset(ctx context.Context) error
	Close()
	String() string
}

// inboxEvent is one verified request. The path belongs to its identity: several destinations may end in one receiver, and
// each is owed the event.
type inboxEvent struct {
	Path       string
	EventID    string
	Type       string
	Subject    string
	Version    *int64 // nil where the sender gives none
	Body       []byte
	BodySHA256 [sha256.Size]byte
}

// moves says whether the event can move its subject: without a version nothing tells which of two is newer.
func (e inboxEvent) moves() bool { return e.Subject != "" && e.Version != nil }

// shipmentState is the newest version of one subject that has arrived.
type shipmentState struct {
	Subject    string
	Version    int64
	EventID    string
	BodySHA256 [sha256.Size]byte
}

const (
	inboxTimeout     = 10 * time.Second
	memoryInboxLimit = 1_000_000
)

// memoryInbox is for trying out. It forgets the oldest ids and subjects beyond its limit, and everything when it stops.
type memoryInbox struct {
	mu        sync.Mutex
	seen      *remembered[inboxKey, [sha256.Size]byte]
	shipments *remembered[inboxKey, shipmentState]
	effects   map[string]int64
}

// inboxKey is an event id or a subject of one path.
type inboxKey struct{ path, id string }

func newMemoryInbox(limit int) *memoryInbox {
	return &memoryInbox{
		seen:      newRemembered[inboxKey, [sha256.Size]byte](limit),
		shipments: newRemembered[inboxKey, shipmentState](limit),
		effects:   map[string]int64{},
	}
}

func (m *memoryInbox) Apply(_ context.Context, event inboxEvent) (outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum, isNew := m.seen.touch(inboxKey{event.Path, event.EventID})
	switch {
	case !isNew && *sum != event.BodySHA256:
		return outcomeConflict, nil
	case !isNew:
		return outcomeDuplicate, nil
	}
	*sum = event.BodySHA256
	m.effects[event.Path]++
	if event.moves() {
		shipment, isNew := m.shipments.touch(inboxKey{event.Path, event.Subject})
		if isNew || shipment.Version < *event.Version {
			*shipment = shipmentState{event.Subject, *event.Version, event.EventID, event.BodySHA256}
		}
	}
	return outcomeApplied, nil
}

func (m *memoryInbox) Effects(_ context.Context, path string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.effects[path], nil
}

func (m *memoryInbox) Shipment(_ context.Context, path, subject string) (shipmentState, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	shipment, ok := m.shipments.values[inboxKey{path, subject}]
	if !ok {
		return shipmentState{}, false, nil
	}
	return *shipment, true, nil
}

func (m *memoryInbox) Reset(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen.reset()
	m.shipments.reset()
	clear(m.effects)
	return nil
}

func (m *memoryInbox) Close() {}

func (m *memoryInbox) String() string { return "memory, gone when it stops" }
