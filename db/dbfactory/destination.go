// Package dbfactory makes rows for tests, one function per table, with sane defaults. Its functions never return an error: they fail the
// test.
package dbfactory

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db"
)

var serial atomic.Int64

// DestinationOpts are the fields that a test cares about; the zero value is an unlimited, active destination for every event.
type DestinationOpts struct {
	Name        string
	URL         string // http://127.0.0.1:9/ where empty
	State       string
	Tenant      string
	Rate        float64 // 0: unlimited
	Burst       int     // 0: 10
	MaxInFlight int     // 0: unlimited
	Types       []string
	Timeout     time.Duration
	TTL         time.Duration
	Retry       []time.Duration // nil: the default schedule; empty: one attempt
	Jitter      float64
	Responses   string // JSON
	Secret      string
}

// Destination is what a test needs to know of a row.
type Destination struct {
	ID, LaneID int64
	Secret     string
}

// Keyring is one for tests, the same for every call in a process.
var keyringText = db.GenerateKey()

// Keyring opens and seals what this package's rows hold.
func Keyring(tb testing.TB) *db.Keyring {
	tb.Helper()
	keyring, err := db.ParseKeyring(keyringText)
	require.NoError(tb, err)
	return keyring
}

// NewDestination inserts a destination with lane, secret and subscription.
func NewDestination(ctx context.Context, tb testing.TB, conn db.Conn, opts *DestinationOpts) Destination {
	tb.Helper()
	n := serial.Add(1)
	name, url, state := or(opts.Name, fmt.Sprintf("Destination %d", n)), or(opts.URL, "http://127.0.0.1:9/"), or(opts.State, "active")
	d := Destination{Secret: or(opts.Secret, "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")}
	require.NoError(tb, conn.QueryRow(ctx,
		"INSERT INTO lane (name, rate, burst, max_in_flight) VALUES ($1, nullif($2::float8, 0), $3, nullif($4::int, 0)) RETURNING id",
		name, opts.Rate, or(opts.Burst, 10), opts.MaxInFlight).Scan(&d.LaneID))
	require.NoError(tb, conn.QueryRow(ctx, `
		INSERT INTO destination (name, url, state, tenant, lane_id, timeout_ms, ttl_s, responses)
		VALUES ($1, $2, $3, nullif($4, ''), $5, $6, $7, $8::jsonb) RETURNING id`,
		name, url, state, opts.Tenant, d.LaneID, or(opts.Timeout, 10*time.Second).Milliseconds(),
		int64(or(opts.TTL, 72*time.Hour)/time.Second), or(opts.Responses, "[]")).Scan(&d.ID))
	if opts.Retry != nil {
		waits := make([]int64, len(opts.Retry))
		for i, wait := range opts.Retry {
			waits[i] = wait.Milliseconds()
		}
		_, err := conn.Exec(ctx, "UPDATE destination SET retry_schedule_ms = $2, retry_jitter = $3 WHERE id = $1", d.ID, waits, opts.Jitter)
		require.NoError(tb, err)
	}
	types := opts.Types
	if types == nil {
		types = []string{"*"}
	}
	_, err := conn.Exec(ctx, "INSERT INTO subscription (destination_id, types) VALUES ($1, $2)", d.ID, types)
	require.NoError(tb, err)
	newSecret(ctx, tb, conn, d)
	return d
}

func newSecret(ctx context.Context, tb testing.TB, conn db.Conn, d Destination) {
	tb.Helper()
	var id int64
	require.NoError(tb, conn.QueryRow(ctx, "SELECT nextval(pg_get_serial_sequence('secret', 'id'))").Scan(&id))
	sealed := Keyring(tb).Seal([]byte(d.Secret), fmt.Sprintf("secret/%d", id))
	_, err := conn.Exec(ctx, "INSERT INTO secret (id, destination_id, scheme, sealed, hint) VALUES ($1, $2, 'v1', $3, $4)",
		id, d.ID, sealed, d.Secret[len(d.Secret)-4:])
	require.NoError(tb, err)
}

func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
