// Package db is what Weir stores: the schema with its migrations, the queries (generated into dbsqlc) and the keyring for secrets at
// rest. Everything lives in the Postgres schema "weir", River's tables included, so that an application may share the database.
package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Schema is where all tables, functions and River's own tables are.
const Schema = "weir"

// MinVersion is the oldest Postgres that Weir runs on, as server_version_num.
const MinVersion = 150000

// Conn is what a pool and a transaction can both do; the generated queries take it, so the call site shows on which of them they run.
type Conn interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Options are the settings of a pool. The zero value works.
type Options struct {
	MaxConns int32         // 0: 20
	Timeout  time.Duration // for the first connection; 0: 10 s
}

// Open connects to dsn, a Postgres URL or keyword string, and checks that the server answers and is new enough. Every connection has the
// schema weir first in its search path. The error names what is wrong and never carries the DSN, which may hold a password.
func Open(ctx context.Context, dsn string, opts Options) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("parse DATABASE_URL: want postgres://user:password@host:port/database")
	}
	config.MaxConns = 20
	if opts.MaxConns > 0 {
		config.MaxConns = opts.MaxConns
	}
	timeout := 10 * time.Second
	if opts.Timeout > 0 {
		timeout = opts.Timeout
	}
	params := config.ConnConfig.RuntimeParams
	params["search_path"] = Schema + ",public"
	params["application_name"] = "weir"
	params["timezone"] = "UTC"
	// Short statements on indexes: compiling them never pays, and random reads are cached reads (River's scheduler join needs this).
	params["jit"] = "off"
	params["random_page_cost"] = "1.1"
	// A transaction that somebody forgot must not hold back vacuum, which a queue depends on.
	params["idle_in_transaction_session_timeout"] = "60000"

	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var version int
	if err := pool.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to postgres: %w", err)
	}
	if version < MinVersion {
		pool.Close()
		return nil, fmt.Errorf("connect to postgres: server is version %d, Weir needs 15 or later", version/10000)
	}
	return pool, nil
}

// PacingConns is how many connections OpenPacing's pool has at most: one for the commits of admissions and settlements, one for late
// senders, one for looks.
const PacingConns = 3

// OpenPacing opens a second pool to the same server, for the few statements that run once per batch of requests and hold lanes' locks.
// Their plans are made once per connection and always by key: with one plan per batch, planning took longer than running (4 ms of 6, while
// everybody else waited for the lane), and a plan made for an empty table would read all of it as soon as that is full. Nothing is
// connected yet when it returns.
func OpenPacing(pool *pgxpool.Pool) (*pgxpool.Pool, error) {
	config := pool.Config()
	config.MaxConns, config.MinConns = PacingConns, 0
	params := config.ConnConfig.RuntimeParams
	params["plan_cache_mode"] = "force_generic_plan"
	params["enable_seqscan"] = "off"
	pacing, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("open pool for pacing: %w", err)
	}
	return pacing, nil
}
