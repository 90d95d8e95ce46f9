package jobs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"weir/db"
	"weir/db/dbsqlc"
	"weir/jobs/webhook"
)

// target is what a sender needs of a destination, secrets opened.
type target struct {
	version  int64
	name     string
	url      string
	timeout  time.Duration
	policy   webhook.Policy
	schedule Schedule
	headers  map[string]string
	keys     []expiringKey
}

type expiringKey struct {
	key     webhook.Key
	expires *time.Time
}

// signingKeys are those that sign at this time: two while a rotation overlaps.
func (t *target) signingKeys(now time.Time) []webhook.Key {
	keys := make([]webhook.Key, 0, len(t.keys))
	for _, k := range t.keys {
		if k.expires == nil || k.expires.After(now) {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// targets caches destinations by their version, which admission reads with each delivery: a change holds from the next attempt on, in
// every process, and nothing has to be told. At most one entry per destination.
type targets struct {
	conn    db.Conn
	queries *dbsqlc.Queries
	keyring *db.Keyring

	mu    sync.RWMutex
	cache map[int64]*target
}

func newTargets(conn db.Conn, queries *dbsqlc.Queries, keyring *db.Keyring) *targets {
	return &targets{conn: conn, queries: queries, keyring: keyring, cache: map[int64]*target{}}
}

func (t *targets) get(ctx context.Context, id, version int64) (*target, error) {
	t.mu.RLock()
	hit := t.cache[id]
	t.mu.RUnlock()
	if hit != nil && hit.version >= version {
		return hit, nil
	}
	loaded, err := t.load(ctx, id)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if hit := t.cache[id]; hit == nil || hit.version < loaded.version {
		t.cache[id] = loaded
	}
	return loaded, nil
}

func (t *targets) load(ctx context.Context, id int64) (*target, error) {
	row, err := t.queries.DestinationGetSending(ctx, t.conn, id)
	if err != nil {
		return nil, fmt.Errorf("load destination: %w", err)
	}
	policy, err := webhook.ParsePolicy(row.Responses)
	if err != nil {
		return nil, fmt.Errorf("read the destination's responses: %w", err)
	}
	loaded := &target{
		version: row.Version, name: row.Name, url: row.Url, timeout: time.Duration(row.TimeoutMs) * time.Millisecond,
		policy: policy, schedule: scheduleOf(row.RetryScheduleMs, row.RetryJitter), headers: map[string]string{},
	}
	secrets, err := t.queries.SecretListByDestination(ctx, t.conn, id)
	if err != nil {
		return nil, fmt.Errorf("load secrets: %w", err)
	}
	for _, secret := range secrets {
		plain, err := t.keyring.Open(secret.Sealed, fmt.Sprintf("secret/%d", secret.ID))
		if err != nil {
			return nil, fmt.Errorf("open secret: %w", err)
		}
		key, err := webhook.ParseSecret(string(plain))
		if err != nil {
			return nil, fmt.Errorf("read secret: %w", err)
		}
		loaded.keys = append(loaded.keys, expiringKey{key, secret.ExpiresAt})
	}
	headers, err := t.queries.HeaderListByDestination(ctx, t.conn, id)
	if err != nil {
		return nil, fmt.Errorf("load headers: %w", err)
	}
	for _, header := range headers {
		plain, err := t.keyring.Open(header.Sealed, fmt.Sprintf("header/%d/%s", id, strings.ToLower(header.Name)))
		if err != nil {
			return nil, fmt.Errorf("open header: %w", err)
		}
		loaded.headers[header.Name] = string(plain)
	}
	return loaded, nil
}

func scheduleOf(waitsMS []int64, jitter float64) Schedule {
	s := Schedule{Waits: make([]time.Duration, len(waitsMS)), Jitter: jitter}
	for i, ms := range waitsMS {
		s.Waits[i] = time.Duration(ms) * time.Millisecond
	}
	return s
}
