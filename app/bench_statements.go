package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

// statementsLibrary is the extension that counts statements.
const statementsLibrary = "pg_stat_statements"

// statements is part h: what waiting costs, and how many statements a delivery takes at full speed. Whole statements are counted where the
// server can (BEGIN, COMMIT and the like apart), transactions where it cannot; none of them are the bench's own.
func (b *bench) statements(ctx context.Context) error {
	counter, err := b.newCounter(ctx)
	if err != nil {
		return err
	}
	defer counter.close(ctx)
	if err := b.waiting(ctx, counter); err != nil {
		return err
	}
	if err := b.empty(ctx); err != nil {
		return err
	}
	row, err := b.drain(ctx, 1, 0, counter.begin)
	if err != nil {
		return err
	}
	counted, err := counter.read(ctx)
	if err != nil {
		return err
	}
	n := float64(b.deliveries)
	row.what = "(h) statements per delivery, one unlimited lane"
	row.figures = counted.figures(1/n, "%.3f")
	row.top = counted.top
	row.bars = []benchBar{atMost("statements per delivery", counted.statements/n, 0.06)}
	return b.row(row)
}

// waiting compares a process beside nothing with the same beside a backlog that may not leave: one an hour is let through.
func (b *bench) waiting(ctx context.Context, counter *counter) error {
	lane := benchLane{path: "/hourly", eventType: "bench.hourly", rate: 1.0 / 3600, burst: 1, cap: 4}
	if err := b.subscribe(ctx, lane); err != nil {
		return err
	}
	quiet, limit := [2]counted{}, 3*time.Duration(b.seconds)*time.Second
	perMinute := float64(time.Minute) / float64(limit)
	for i, parked := range []int{0, b.parked} {
		if err := b.publish(ctx, lane.eventType, parked, 1000); err != nil {
			return err
		}
		workers, err := b.startWorkers(ctx, 1)
		if err != nil {
			return err
		}
		quiet[i], err = b.quiet(ctx, counter, workers, limit)
		workers.stop()
		if err != nil {
			return err
		}
		row := benchRow{
			what: fmt.Sprintf("(h) statements per minute, %d wait for %s", parked, limit), rate: math.NaN(), ratio: math.NaN(), cost: unknownCost,
			figures: append(quiet[i].figures(perMinute, "%.0f"), benchFigure{"postgres", quiet[i].cpu * perMinute, "%.2f CPU s"}),
			note:    counter.how(), top: quiet[i].top,
		}
		if parked > 0 {
			each := perMinute / float64(parked)
			statements := math.Max(0, quiet[1].statements-quiet[0].statements) * each
			row.figures = append(row.figures, benchFigure{"each that waits", statements, "%.4f a minute"})
			// Nothing, but for what the same process does a little more or less often in one interval than in another.
			row.bars = []benchBar{atMost("statements per waiting delivery and minute", math.Round(statements*1000)/1000, 0)}
		}
		if err := b.row(row); err != nil {
			return err
		}
	}
	return nil
}

// quiet counts for as long as limit, once what the start and the publishing left to do is done.
func (b *bench) quiet(ctx context.Context, counter *counter, workers benchWorkers, limit time.Duration) (counted, error) {
	if err := b.pause(ctx, workers, time.Now().Add(limit/6)); err != nil {
		return counted{}, err
	}
	if err := counter.begin(ctx); err != nil {
		return counted{}, err
	}
	before := b.usage()
	if err := b.pause(ctx, workers, time.Now().Add(limit)); err != nil {
		return counted{}, err
	}
	after := b.usage()
	got, err := counter.read(ctx)
	got.cpu = after.postgres - before.postgres
	return got, err
}

// counted is what the server has worked off: NaN for statements where it counts only transactions.
type counted struct {
	statements, transactions, cpu float64
	top                           []topStatement
}

// topStatement is one of those that took longest.
type topStatement struct {
	Calls int64   `json:"calls"`
	Ms    float64 `json:"ms"`
	Rows  int64   `json:"rows"`
	Query string  `json:"query"`
}

func (c counted) figures(per float64, format string) []benchFigure {
	return []benchFigure{{"statements", c.statements * per, format}, {"transactions", c.transactions * per, format}}
}

// counter counts over a connection of its own.
type counter struct {
	conn     *pgx.Conn
	whole    bool    // the server has the extension
	ours     bool    // and it is the bench's server: counting is switched on for the database's new connections, that is the workers'
	started  float64 // transactions so far
	database string
}

func (b *bench) newCounter(ctx context.Context) (*counter, error) {
	conn, err := pgx.Connect(ctx, b.dsn)
	if err != nil {
		return nil, fmt.Errorf("connect to count statements: %w", err)
	}
	c := &counter{conn: conn, ours: b.store.server != nil}
	var loaded bool
	err = conn.QueryRow(ctx, `SELECT quote_ident(current_database()), current_setting($1, true) IS NOT NULL`, statementsLibrary+".max").Scan(&c.database, &loaded)
	if err == nil && loaded && c.ours {
		_, err = conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS "+statementsLibrary+" SCHEMA public; ALTER DATABASE "+c.database+" SET "+statementsLibrary+".track = 'top'")
	}
	if err == nil && loaded {
		err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = $1)", statementsLibrary).Scan(&c.whole)
	}
	if err != nil {
		c.close(ctx)
		return nil, fmt.Errorf("prepare to count statements: %w", err)
	}
	return c, nil
}

// how says what is counted.
func (c *counter) how() string {
	if c.whole {
		return "by " + statementsLibrary
	}
	return "by pg_stat_database: " + statementsLibrary + " is not there"
}

func (c *counter) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if c.whole && c.ours {
		_, _ = c.conn.Exec(ctx, "ALTER DATABASE "+c.database+" RESET "+statementsLibrary+".track") // the server goes with the run
	}
	_ = c.conn.Close(ctx)
}

func (c *counter) begin(ctx context.Context) error {
	got, err := c.now(ctx)
	c.started = got.transactions
	if err == nil && c.whole {
		_, err = c.conn.Exec(ctx, "SELECT public."+statementsLibrary+"_reset()")
	}
	return err
}

// read returns what was worked off since begin.
func (c *counter) read(ctx context.Context) (counted, error) {
	got, err := c.now(ctx)
	got.transactions -= c.started
	if err != nil || !c.whole {
		return got, err
	}
	rows, err := c.conn.Query(ctx, `SELECT calls, total_exec_time, rows, left(regexp_replace(query, '\s+', ' ', 'g'), 160) FROM public.`+statementsLibrary+` s
		JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = current_database() ORDER BY total_exec_time DESC LIMIT 10`)
	if err == nil {
		got.top, err = pgx.CollectRows(rows, pgx.RowToStructByPos[topStatement])
	}
	if err != nil {
		return got, fmt.Errorf("read the statements that took longest: %w", err)
	}
	return got, nil
}

func (c *counter) now(ctx context.Context) (counted, error) {
	got := counted{statements: math.NaN()}
	err := c.conn.QueryRow(ctx, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&got.transactions)
	if err == nil && c.whole {
		err = c.conn.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::float8 FROM public.`+statementsLibrary+` s JOIN pg_database d ON d.oid = s.dbid
			WHERE d.datname = current_database() AND query !~* '^\s*(begin|commit|rollback|savepoint|release|deallocate|set|reset|listen|unlisten)\M'
				AND query NOT LIKE '%`+statementsLibrary+`%' AND query NOT LIKE '%pg_stat_database%'`).Scan(&got.statements)
	}
	if err != nil {
		return got, fmt.Errorf("read statistics: %w", err)
	}
	return got, nil
}
