package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weir/db/dbembed"
	"weir/jobs"
)

// benchOptions is how much to measure.
type benchOptions struct {
	deliveries, seconds, others, parked, storm, clients, rows, destinations int

	full, kill bool
	processes  []int
	only       []string
	jsonFile   string
	settings   map[string]string
}

// benchParts are the parts of the table, in its order.
var benchParts = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"a", (*bench).river}, {"b", (*bench).saturation}, {"c", (*bench).latency}, {"d", (*bench).fairness}, {"e", (*bench).accuracy}, {"f", (*bench).growth},
	{"g", (*bench).intake}, {"h", (*bench).statements}, {"i", (*bench).fanout},
}

func newBenchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure throughput, latency, fairness and rate accuracy beside what River alone reaches, in one run on one database",
		Long: `Measure Weir beside what River alone reaches, in one run on one database. The ratio is what can be compared between machines.

  a  River's ceiling: no-op jobs
  b  deliveries through everything that production does: one unlimited lane, and a fan-out over 80 limited ones
  c  from publish to arrival, at 50 events a second
  d  fairness: 20 events a second beside a backlog parked behind a lane of 20 a second, beside a receiver that takes 3 seconds to answer, and
     in a storm of retries; each time beside nothing first
  e  accuracy of a rate and of a cap at the receiver, held by 1, 2 and 4 processes together, and with one of four killed
  f  b's unlimited lane again, with a ledger full of settled deliveries
  g  events taken in by POST /events from many clients at once, and delivered at the same time by the same process
  h  statements: for deliveries that wait, and for each delivery at full speed
  i  one event to very many destinations: ledger rows and jobs

Under a row stands each bar that its figures should reach, and whether they do; the last line counts them. Workers, receiver and load generator
are processes of their own, so that CPU time can be told apart (Linux). The database is an embedded Postgres in a temporary directory, or
DATABASE_URL, which must be empty of Weir; it is emptied between the parts and at the end.`,
		Example: `  weir bench
  weir bench --full
  weir bench --only a,b --deliveries 60000
  weir bench --only f --rows 5000000
  weir bench --only g --clients 256 --json rows.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return fmt.Errorf("bench: %w", err)
			}
			return runBench(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.deliveries, "deliveries", 20000, "how many of each kind in a, b, f and h")
	flags.IntVar(&o.seconds, "seconds", 10, "how long each measurement of c, e and g takes; of h three times, and with a kill four times as long")
	flags.IntVar(&o.others, "others", 20, "for how many seconds the others of d are watched each time")
	flags.IntVar(&o.parked, "parked", 100000, "how large the backlog of d and h is; a fifth of it waits for d's slow receiver")
	flags.IntVar(&o.storm, "storm", 4000, "how many deliveries of d are all refused at first")
	flags.IntSliceVar(&o.processes, "processes", []int{1, 2, 4}, "how many share the limits of e")
	flags.BoolVar(&o.kill, "kill", true, "in e, kill one of the last number of processes as well")
	flags.IntVar(&o.rows, "rows", 1000000, "how many settled deliveries f measures with, beside none")
	flags.BoolVar(&o.full, "full", false, "measure f with 5,000,000 settled deliveries as well")
	flags.IntVar(&o.clients, "clients", 64, "how many clients of g publish at once")
	flags.IntVar(&o.destinations, "destinations", 10000, "how many destinations i's event goes to")
	flags.StringSliceVar(&o.only, "only", nil, "the parts to measure, such as a,b (default all)")
	flags.StringVar(&o.jsonFile, "json", "", "write the rows to this file as well, as lines of JSON")
	flags.StringToStringVar(&o.settings, "postgres", nil, "settings of the embedded Postgres, such as shared_buffers=1GB (default its own)")
	cmd.AddCommand(newBenchLoadCommand())
	cmd.AddCommand(newBenchReceiverCommand())
	return cmd
}

func (o benchOptions) check() error {
	for _, flag := range []struct {
		name           string
		got, low, high int
	}{
		{"deliveries", o.deliveries, 100, 10_000_000}, {"seconds", o.seconds, 1, 600}, {"others", o.others, 1, 600}, {"parked", o.parked, 1, 1_000_000},
		{"storm", o.storm, 1, 100_000}, {"rows", o.rows, 0, 50_000_000}, {"clients", o.clients, 1, 4096}, {"destinations", o.destinations, 1, 1_000_000},
	} {
		if flag.got < flag.low || flag.got > flag.high {
			return fmt.Errorf("--%s: want %d to %d", flag.name, flag.low, flag.high)
		}
	}
	if len(o.processes) == 0 || slices.Min(o.processes) < 1 || slices.Max(o.processes) > 16 {
		return errors.New("--processes: want numbers from 1 to 16, separated by commas")
	}
	if os.Getenv("DATABASE_URL") != "" && len(o.settings) > 0 {
		return errors.New("--postgres: want no DATABASE_URL with it, these are settings of the embedded server")
	}
	for _, name := range o.only {
		if !o.isPart(name) {
			return errors.New("--only: want some of a, b, c, d, e, f, g, h, i, separated by commas")
		}
	}
	return nil
}

func (o benchOptions) isPart(name string) bool {
	for _, part := range benchParts {
		if part.name == name {
			return true
		}
	}
	return false
}

// bench is one run.
type bench struct {
	benchOptions

	out      io.Writer
	config   config
	dsn      string // of the database, for the processes that are started
	store    *store
	engine   *jobs.Engine // takes events in; it does not deliver
	receiver *benchReceiver
	server   int           // process id of the embedded server's postmaster; 0: not ours to see
	noop     float64       // what River reached in part a; 0: not measured
	lines    *json.Encoder // --json; nil: not wanted
	score    benchScore
}

func runBench(ctx context.Context, o benchOptions, out io.Writer) (err error) {
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
			return fmt.Errorf("make data directory: %w", err)
		}
		defer os.RemoveAll(dir)
		c.cacheDir, c.DataDir = filepath.Join(c.DataDir, "binaries"), dir
	}
	c.allowed = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Roles = []string{jobs.RoleWeb}
	b := &bench{benchOptions: o, out: out, config: c, dsn: c.DatabaseURL}
	if o.jsonFile != "" {
		var file *os.File
		if file, err = os.Create(o.jsonFile); err != nil {
			return fmt.Errorf("create --json file: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		b.lines = json.NewEncoder(file)
	}
	if b.store, err = b.openStore(ctx, log); err != nil {
		return err
	}
	defer b.store.close(log)
	if b.store.server != nil {
		b.dsn = b.store.server.DSN()
		b.server = b.postmaster(ctx)
	}
	if err := b.checkEmpty(ctx); err != nil {
		return err
	}
	defer func() {
		if b.store.server != nil {
			return // its directory goes as a whole
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, b.empty(ctx))
	}()
	engine, sender, err := newEngine(c, b.store, discardLog())
	if err != nil {
		return err
	}
	defer sender.Close()
	defer engine.Stop(ctx) //nolint:errcheck // it was never started: there is nothing to fail but what publish has reported
	b.engine = engine
	if b.receiver, err = b.startReceiver(ctx); err != nil {
		return err
	}
	defer b.receiver.process.stop()

	if err := b.header(ctx); err != nil {
		return err
	}
	for _, part := range benchParts {
		if len(o.only) > 0 && !slices.Contains(o.only, part.name) {
			continue
		}
		if err := errors.Join(b.empty(ctx), b.receiver.forget(ctx)); err != nil {
			return err
		}
		if err := part.run(b, ctx); err != nil {
			return fmt.Errorf("bench %s: %w", part.name, err)
		}
	}
	say(b.out, "\n%s", &b.score)
	return nil
}

// openStore starts the embedded server as it is by default, but for room for the connections of four processes and, where the server has it,
// the counting of statements, which part h switches on for itself.
func (b *bench) openStore(ctx context.Context, log *slog.Logger) (*store, error) {
	if b.config.DatabaseURL != "" {
		return openStore(ctx, b.config, log)
	}
	settings := map[string]string{"max_connections": "200", "shared_preload_libraries": statementsLibrary, statementsLibrary + ".track": "none"}
	maps.Copy(settings, b.settings)
	options := dbembed.Options{DataDir: b.config.DataDir, CacheDir: b.config.cacheDir, Log: discardLog(), Settings: settings}
	server, err := dbembed.Start(ctx, options)
	if err != nil && ctx.Err() == nil { // not every installation has the library
		delete(settings, "shared_preload_libraries")
		delete(settings, statementsLibrary+".track")
		options.Log = log
		server, err = dbembed.Start(ctx, options)
	}
	if err != nil {
		return nil, fmt.Errorf("start embedded postgres: %w", err)
	}
	return connectStore(ctx, b.config, &store{server: server}, server.DSN(), log)
}

// checkEmpty protects whoever gave the wrong DATABASE_URL: everything in it will be removed.
func (b *bench) checkEmpty(ctx context.Context) error {
	var used bool
	err := b.store.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM destination) OR EXISTS (SELECT 1 FROM event) OR EXISTS (SELECT 1 FROM outbox)
		OR EXISTS (SELECT 1 FROM river_job) OR EXISTS (SELECT 1 FROM operator) OR EXISTS (SELECT 1 FROM api_token) OR EXISTS (SELECT 1 FROM process WHERE stopped_at IS NULL)`).Scan(&used)
	if err != nil {
		return fmt.Errorf("look into the database: %w", err)
	}
	if used {
		return errors.New("bench: DATABASE_URL is in use by Weir, and bench removes what it finds: give it an empty database")
	}
	return nil
}

// empty gives each part the same start: every table but what says how the database is laid out and sealed, and the
// audit, which refuses; whatever a later migration adds is emptied too. Nothing but this process works on the database then.
func (b *bench) empty(ctx context.Context) error {
	_, err := b.store.pool.Exec(ctx, `DO $$ BEGIN EXECUTE (
		SELECT 'TRUNCATE ' || string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables
		WHERE schemaname = current_schema() AND tablename NOT LIKE '%migration%' AND tablename NOT IN ('setting', 'audit', 'river_leader', 'river_queue')
	); END $$`)
	if err != nil {
		return fmt.Errorf("empty the database: %w", err)
	}
	return nil
}
