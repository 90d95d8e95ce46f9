package db

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// Migrations are our own, in goose's format. They only go forward.
//
//go:embed migrations/*.sql
var Migrations embed.FS

// migrateLock is the advisory lock that one migrating process holds: "weir" in ASCII.
const migrateLock = 0x77656972

// migrateWait is how long a process waits while another one migrates.
const migrateWait = 2 * time.Minute

// Migrate brings the database up to date: River's migrations first, since ours tune River's table, then ours. Processes that start at
// once take turns on an advisory lock; the second finds nothing to do. It waits for them at most two minutes.
func Migrate(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection to migrate: %w", err)
	}
	defer conn.Release()
	if err := lockMigrations(ctx, conn); err != nil {
		return err
	}
	defer func() {
		if _, err := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", migrateLock); err != nil {
			log.WarnContext(ctx, "release migration lock", "error", err)
		}
	}()
	if _, err := conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+Schema); err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	if err := migrateRiver(ctx, pool, log); err != nil {
		return err
	}
	return migrateOurs(ctx, pool, log)
}

// lockMigrations asks again and again instead of waiting in the database: a statement that waits there holds a snapshot, and the process
// that migrates would wait for it to end before it can build an index concurrently.
func lockMigrations(ctx context.Context, conn *pgxpool.Conn) error {
	deadline := time.Now().Add(migrateWait)
	for {
		var mine bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", migrateLock).Scan(&mine); err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if mine {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for the migration lock: another process has held it for %s", migrateWait)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for the migration lock: %w", ctx.Err())
		}
	}
}

func migrateRiver(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	// River narrates each statement group at info level; its own result says enough.
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet, Schema: Schema})
	if err != nil {
		return fmt.Errorf("prepare river migrations: %w", err)
	}
	result, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	if err != nil {
		return fmt.Errorf("migrate river: %w", err)
	}
	if n := len(result.Versions); n > 0 {
		log.InfoContext(ctx, "river schema migrated", "versions", n)
	}
	return nil
}

func migrateOurs(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	files, err := fs.Sub(Migrations, "migrations")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	sqlDB := stdlib.OpenDBFromPool(pool)
	defer sqlDB.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, sqlDB, files,
		goose.WithTableName("schema_migration"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("prepare migrations: %w", err)
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	for _, result := range results {
		log.InfoContext(ctx, "schema migrated", "migration", result.Source.Path, "took", result.Duration)
	}
	return nil
}
