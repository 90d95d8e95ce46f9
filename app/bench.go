package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weir/jobs"
)

// benchOptions is how much to measure.
type benchOptions struct {
	deliveries, seconds, parked, settled int
	only                                 []string
}

// benchParts are the parts of the table, in its order.
var benchParts = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"a", (*bench).river}, {"b", (*bench).saturation}, {"c", (*bench).latency}, {"d", (*bench).fairness}, {"e", (*bench).accuracy}, {"f", (*bench).growth},
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
  d  fairness: 20 events a second, beside nothing and beside a backlog parked behind a lane of 20 a second
  e  accuracy of a rate at the receiver, held by 1, 2 and 4 processes together
  f  b's unlimited lane again, with a ledger full of settled deliveries

Workers and receiver are processes of their own, so that CPU time can be told apart (Linux). The database is an embedded Postgres in a
temporary directory, or DATABASE_URL, which must be empty of Weir; it is emptied between the parts and at the end.`,
		Example: `  weir bench
  weir bench --only a,b --deliveries 60000
  weir bench --only a,f --settled 2000000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return fmt.Errorf("bench: %w", err)
			}
			return runBench(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&o.deliveries, "deliveries", 20000, "how many of each kind in a, b and f")
	cmd.Flags().IntVar(&o.seconds, "seconds", 10, "how long each measurement of c, d and e takes")
	cmd.Flags().IntVar(&o.parked, "parked", 20000, "how large the backlog of d is")
	cmd.Flags().IntVar(&o.settled, "settled", 200000, "how many settled deliveries f measures with, beside none")
	cmd.Flags().StringSliceVar(&o.only, "only", nil, "the parts to measure, such as a,b (default all)")
	cmd.AddCommand(newBenchReceiverCommand())
	return cmd
}

func (o benchOptions) check() error {
	for _, flag := range []struct {
		name           string
		got, low, high int
	}{
		{"deliveries", o.deliveries, 100, 10_000_000}, {"seconds", o.seconds, 1, 600}, {"parked", o.parked, 1, 100_000}, {"settled", o.settled, 0, 5_000_000},
	} {
		if flag.got < flag.low || flag.got > flag.high {
			return fmt.Errorf("--%s: want %d to %d", flag.name, flag.low, flag.high)
		}
	}
	for _, name := range o.only {
		if !slices.Contains([]string{"a", "b", "c", "d", "e", "f"}, name) {
			return errors.New("--only: want some of a, b, c, d, e, f, separated by commas")
		}
	}
	return nil
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
	server   int     // process id of the embedded server's postmaster; 0: not ours to see
	noop     float64 // what River reached in part a; 0: not measured
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
	if b.store, err = openStore(ctx, c, log); err != nil {
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

	b.header()
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
	return nil
}

// checkEmpty protects whoever gave the wrong DATABASE_URL: everything in it will be removed.
func (b *bench) checkEmpty(ctx context.Context) error {
	var used bool
	err := b.store.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM destination) OR EXISTS (SELECT 1 FROM event) OR EXISTS (SELECT 1 FROM outbox)
		OR EXISTS (SELECT 1 FROM river_job) OR EXISTS (SELECT 1 FROM process WHERE stopped_at IS NULL)`).Scan(&used)
	if err != nil {
		return fmt.Errorf("look into the database: %w", err)
	}
	if used {
		return errors.New("bench: DATABASE_URL is in use by Weir, and bench removes what it finds: give it an empty database")
	}
	return nil
}

// empty gives each part the same start. Nothing but this process works on the database then.
func (b *bench) empty(ctx context.Context) error {
	_, err := b.store.pool.Exec(ctx, "TRUNCATE attempt, delivery, event, subscription, secret, destination, lane, process, discovery_run, river_job CASCADE")
	if err != nil {
		return fmt.Errorf("empty the database: %w", err)
	}
	return nil
}
