package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/spf13/cobra"

	"weir/jobs"
	"weir/jobs/webhook"
)

func newBenchCommand() *cobra.Command {
	var deliveries int
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure deliveries per second beside what River alone reaches, in one run on one database",
		Long: `Measure deliveries per second beside what River alone reaches, in one run on one database: no-op River jobs, then deliveries through
everything that production does, to a receiver in the same process. The ratio is what can be compared between machines.

It uses a database of its own: an embedded Postgres in a temporary directory, or DATABASE_URL, which must be empty of Weir.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return bench(cmd, deliveries) },
	}
	cmd.Flags().IntVar(&deliveries, "deliveries", 20000, "how many of each kind")
	return cmd
}

func bench(cmd *cobra.Command, n int) error {
	ctx := cmd.Context()
	if n < 100 || n > 10_000_000 {
		return fmt.Errorf("bench: --deliveries: want 100 to 10000000")
	}
	c, err := loadConfig()
	if err != nil {
		return err
	}
	c.LogLevel = "error"
	log, err := newLog(c, os.Stderr)
	if err != nil {
		return err
	}
	if c.DatabaseURL == "" {
		dir, err := os.MkdirTemp("", "weir-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		c.cacheDir, c.DataDir = c.DataDir+"/binaries", dir
	}
	c.allowed = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	store, err := openStore(ctx, c, log)
	if err != nil {
		return err
	}
	defer store.close(log)

	noop, err := benchRiver(ctx, store.pool, n)
	if err != nil {
		return fmt.Errorf("bench river: %w", err)
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', tabwriter.AlignRight)
	say(table, "what\tper second\tof River's no-op\tWAL per piece\t")
	say(table, "River, no-op jobs\t%.0f\t1.00\t%.1f KB\t", noop.rate, noop.wal)
	for _, kind := range []struct {
		name         string
		destinations int
		rate         float64
	}{{"deliveries, one unlimited lane", 1, 0}, {"deliveries, 80 limited lanes", 80, 1000}} {
		result, err := benchDeliveries(ctx, c, store, n, kind.destinations, kind.rate)
		if err != nil {
			return fmt.Errorf("bench %s: %w", kind.name, err)
		}
		say(table, "%s\t%.0f\t%.2f\t%.1f KB\t", kind.name, result.rate, result.rate/noop.rate, result.wal)
	}
	return table.Flush()
}

type measured struct {
	rate float64 // per second
	wal  float64 // KB per piece
}

// measure times f, which does n pieces of work, and what was written ahead until stop has returned, so with the last piece's record.
func measure(ctx context.Context, pool *pgxpool.Pool, n int, f func() error, stop func(context.Context) error) (measured, error) {
	wal := func() (bytes float64, err error) {
		err = pool.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8").Scan(&bytes)
		return bytes, err
	}
	before, err := wal()
	if err != nil {
		return measured{}, err
	}
	start := time.Now()
	if err := f(); err != nil {
		return measured{}, err
	}
	took := time.Since(start)
	if err := stop(ctx); err != nil {
		return measured{}, err
	}
	after, err := wal()
	return measured{rate: float64(n) / took.Seconds(), wal: (after - before) / float64(n) / 1024}, err
}

// noopArgs is a River job that does nothing: the engine's own ceiling.
type noopArgs struct{}

func (noopArgs) Kind() string { return "noop" }

func benchRiver(ctx context.Context, pool *pgxpool.Pool, n int) (measured, error) {
	var done atomic.Int64
	finished := make(chan struct{})
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[noopArgs]) error {
		if done.Add(1) == int64(n) {
			close(finished)
		}
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		ID: "bench", Workers: workers, Queues: map[string]river.QueueConfig{"noop": {MaxWorkers: 2000}},
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		ReindexerIndexNames: []string{}, Logger: discardLog(),
	})
	if err != nil {
		return measured{}, err
	}
	for start := 0; start < n; start += 5000 {
		params := make([]river.InsertManyParams, min(5000, n-start))
		for i := range params {
			params[i] = river.InsertManyParams{Args: noopArgs{}, InsertOpts: &river.InsertOpts{Queue: "noop"}}
		}
		if _, err := client.InsertManyFast(ctx, params); err != nil {
			return measured{}, err
		}
	}
	if _, err := pool.Exec(ctx, "ANALYZE river_job"); err != nil {
		return measured{}, err
	}
	return measure(ctx, pool, n, func() error {
		if err := client.Start(ctx); err != nil {
			return err
		}
		return wait(ctx, finished)
	}, client.Stop)
}

// benchDeliveries publishes first and starts to work then: what is timed is delivery alone, through everything that production does.
func benchDeliveries(ctx context.Context, c config, s *store, n, destinations int, rate float64) (measured, error) {
	n -= n % destinations
	var arrived atomic.Int64
	finished := make(chan struct{})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return measured{}, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if arrived.Add(1) == int64(n) {
			close(finished)
		}
	})}
	go server.Serve(listener) //nolint:errcheck // closed below
	defer server.Close()

	eventType := fmt.Sprintf("bench.d%d", destinations)
	for i := range destinations {
		if err := benchDestination(ctx, s, eventType, "http://"+listener.Addr().String()+"/"+fmt.Sprint(i), rate); err != nil {
			return measured{}, err
		}
	}
	engine, sender, err := newEngine(c, s, discardLog())
	if err != nil {
		return measured{}, err
	}
	defer sender.Close()
	payload := make([]byte, 1024)
	for i := range payload {
		payload[i] = 'x'
	}
	payload[0], payload[1023] = '"', '"'
	events := make([]jobs.Event, n/destinations)
	for i := range events {
		events[i] = jobs.Event{Type: eventType, Subject: fmt.Sprint(i), Payload: payload}
	}
	for _, result := range engine.PublishMany(ctx, events) {
		if result.Err != nil {
			return measured{}, result.Err
		}
	}
	if _, err := s.pool.Exec(ctx, "ANALYZE"); err != nil {
		return measured{}, err
	}
	return measure(ctx, s.pool, n, func() error {
		if err := engine.Start(ctx); err != nil {
			return err
		}
		return wait(ctx, finished)
	}, engine.Stop)
}

// benchDestination inserts a destination that no form would let through: an unlimited one on loopback.
func benchDestination(ctx context.Context, s *store, eventType, url string, rate float64) error {
	_, err := s.pool.Exec(ctx, `
		WITH l AS (INSERT INTO lane (name, rate, burst, max_in_flight) VALUES ($1, nullif($2::float8, 0), 1000, CASE WHEN $2 > 0 THEN 500 END) RETURNING id),
		d AS (INSERT INTO destination (name, url, lane_id) SELECT $1, $1, id FROM l RETURNING id)
		INSERT INTO subscription (destination_id, types) SELECT id, ARRAY[$3] FROM d`, url, rate, eventType)
	if err != nil {
		return err
	}
	var id, destination int64
	err = s.pool.QueryRow(ctx, "SELECT nextval(pg_get_serial_sequence('secret', 'id')), id FROM destination WHERE name = $1", url).Scan(&id, &destination)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, "INSERT INTO secret (id, destination_id, scheme, sealed, hint) VALUES ($1, $2, 'v1', $3, '')",
		id, destination, s.keyring.Seal([]byte(webhook.NewSecret()), fmt.Sprintf("secret/%d", id)))
	return err
}

// wait bounds a measurement: one that does not end in ten minutes has failed.
func wait(ctx context.Context, finished <-chan struct{}) error {
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Minute):
		return fmt.Errorf("not finished after ten minutes")
	}
}
