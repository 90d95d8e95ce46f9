package jobs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
	"weir/db/dbtest"
	"weir/jobs/webhook"
)

// bundle is a whole Weir on a database of its own, and a receiver that does what the test says.
type bundle struct {
	pool     *pgxpool.Pool
	engine   *Engine
	receiver *receiver
	stop     func() error // of the first process
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{pool: dbtest.Pool(t), receiver: newReceiver(t)}
	b.engine, b.stop = b.startStoppable(t, Options{})
	return b
}

// start runs one more process on the bundle's database.
func (b *bundle) start(t *testing.T, o Options) *Engine {
	t.Helper()
	engine, _ := b.startStoppable(t, o)
	return engine
}

func (b *bundle) startStoppable(t *testing.T, o Options) (*Engine, func() error) {
	t.Helper()
	sender := webhook.NewSender(webhook.SenderOptions{Guard: webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	o.Pool, o.Keyring, o.Sender = b.pool, dbfactory.Keyring(t), sender
	if o.DiscoveryInterval == 0 {
		o.DiscoveryInterval = time.Hour
	}
	if o.Log == nil {
		level := slog.LevelError
		if os.Getenv("WEIR_TEST_LOG") != "" {
			level = slog.LevelDebug
		}
		o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level}))
	}
	if o.Workers == 0 {
		o.Workers = 200
	}
	engine, err := New(o)
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	stop := sync.OnceValue(func() error {
		defer sender.Close()
		return engine.Stop(context.Background())
	})
	t.Cleanup(func() { require.NoError(t, stop()) })
	return engine, stop
}

func (b *bundle) destination(t *testing.T, opts *dbfactory.DestinationOpts) dbfactory.Destination {
	t.Helper()
	if opts.URL == "" {
		opts.URL = b.receiver.URL + "/hook"
	}
	return dbfactory.NewDestination(t.Context(), t, b.pool, opts)
}

func (b *bundle) publish(t *testing.T, event Event) Receipt {
	t.Helper()
	if event.Type == "" {
		event.Type = "shipment.updated"
	}
	if event.Payload == nil {
		event.Payload = []byte(`{"status":"in_transit"}`)
	}
	receipt, err := b.engine.Publish(t.Context(), event)
	require.NoError(t, err)
	return receipt
}

// deliveryRow is what a test asks of the ledger.
type deliveryRow struct {
	ID       int64
	State    string
	Attempts int
	Failures int
	Parked   bool
	Reason   string
	Class    string
	DueIn    time.Duration
}

func (b *bundle) delivery(t *testing.T, eventID string, destination int64) deliveryRow {
	t.Helper()
	var d deliveryRow
	var due time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `
		SELECT d.id, d.state, d.attempts, d.failures, d.parked, d.reason, d.last_error_class, d.due_at
		FROM delivery d JOIN event e ON e.id = d.event_id WHERE e.event_id = $1 AND d.destination_id = $2`, eventID, destination).
		Scan(&d.ID, &d.State, &d.Attempts, &d.Failures, &d.Parked, &d.Reason, &d.Class, &due))
	d.DueIn = time.Until(due)
	return d
}

// eventually polls a condition of the ledger, which has no signal to wait for.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, within, 20*time.Millisecond, what)
}

func (b *bundle) awaitState(t *testing.T, eventID string, destination int64, state string) deliveryRow {
	t.Helper()
	var d deliveryRow
	deadline := time.Now().Add(20 * time.Second)
	for {
		if d = b.delivery(t, eventID, destination); d.State == state {
			return d
		}
		if time.Now().After(deadline) {
			require.Failf(t, "state not reached", "want %s, is %+v", state, d)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (b *bundle) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	var n int
	require.NoError(t, b.pool.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

// receiver is a real HTTP server that records what arrives and answers as told.
type receiver struct {
	*httptest.Server

	mu       sync.Mutex
	arrivals []arrival
	came     chan struct{}
	answer   func(n int, r *http.Request, body []byte, w http.ResponseWriter)
	inFlight int
	most     int
}

type arrival struct {
	at     time.Time
	path   string
	id     string
	body   []byte
	header http.Header
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{came: make(chan struct{}, 1)}
	r.Server = httptest.NewServer(http.HandlerFunc(r.handle))
	t.Cleanup(r.Close)
	return r
}

// answers sets what the receiver does with the nth request, counted from 1. nil: 200.
func (r *receiver) answers(f func(n int, req *http.Request, body []byte, w http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// statuses makes it answer these in turn, then the last one for ever.
func (r *receiver) statuses(codes ...int) {
	r.answers(func(n int, _ *http.Request, _ []byte, w http.ResponseWriter) {
		w.WriteHeader(codes[min(n, len(codes))-1])
	})
}

func (r *receiver) handle(w http.ResponseWriter, req *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.arrivals = append(r.arrivals, arrival{at, req.URL.Path, req.Header.Get("Webhook-Id"), body, req.Header.Clone()})
	n, answer := len(r.arrivals), r.answer
	r.inFlight++
	r.most = max(r.most, r.inFlight)
	r.mu.Unlock()
	select {
	case r.came <- struct{}{}:
	default:
	}
	if answer != nil {
		answer(n, req, body, w)
	}
	r.mu.Lock()
	r.inFlight--
	r.mu.Unlock()
}

func (r *receiver) all() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]arrival(nil), r.arrivals...)
}

// await returns once n requests have arrived.
func (r *receiver) await(t *testing.T, n int, within time.Duration) []arrival {
	t.Helper()
	timeout := time.After(within)
	for {
		if all := r.all(); len(all) >= n {
			return all
		}
		select {
		case <-r.came:
		case <-timeout:
			require.Failf(t, "too few requests", "%d of %d within %s", len(r.all()), n, within)
		}
	}
}

// verify checks a request with the standard's own library.
func (a arrival) verify(t *testing.T, secret string) {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	require.NoError(t, wh.Verify(a.body, a.header))
}

func fields(format string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return out
}
