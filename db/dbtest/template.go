package dbtest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"weir/db"
)

const (
	templatePrefix = "weir_template_"
	testPrefix     = "weir_test_"
	// leftAfter is when a test database that still exists belongs to a run that was killed.
	leftAfter = 2 * time.Hour
)

// templateName names the template by everything that makes it: our migrations, River's, and the code that runs
// them. Change any of them and the name is new, so nobody gets a stale one.
func templateName() (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(db.Migrations, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := db.Migrations.ReadFile(path)
		fmt.Fprintf(hash, "%s %d\n%s\n", path, len(content), content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read migrations: %w", err)
	}
	river, err := rivermigrate.New(riverpgxv5.New(nil), &rivermigrate.Config{Schema: db.Schema})
	if err != nil {
		return "", fmt.Errorf("read River's migrations: %w", err)
	}
	for _, migration := range river.AllVersions() {
		fmt.Fprintf(hash, "river %d\n%s\n", migration.Version, migration.SQLUp)
	}
	hashCode(hash)
	return templatePrefix + hex.EncodeToString(hash.Sum(nil)[:12]), nil
}

// hashCode adds db/migrate.go, where its source is at hand; it is not when built with -trimpath.
func hashCode(hash io.Writer) {
	if _, file, _, ok := runtime.Caller(0); ok {
		if content, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(file)), "migrate.go")); err == nil {
			_, _ = hash.Write(content)
		}
	}
}

// ensureTemplate makes the template database unless it is there. Packages that start at once take turns; that a database is
// marked as a template is what says that it is complete.
func ensureTemplate(ctx context.Context, admin *pgxpool.Pool, dsn, name string) error {
	conn, err := admin.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	key := sha256.Sum256([]byte(name))
	lock := int64(binary.BigEndian.Uint64(key[:8])) // any 64 bits will do
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, lock); err != nil {
		return fmt.Errorf("wait for the template: %w", err)
	}
	defer func() { _, _ = conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, lock) }()

	var complete bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)`, name).Scan(&complete)
	if err != nil || complete {
		return err
	}
	identifier := pgx.Identifier{name}.Sanitize()
	for _, sql := range []string{"DROP DATABASE IF EXISTS " + identifier + " WITH (FORCE)", "CREATE DATABASE " + identifier} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("create the template: %w", err)
		}
	}
	if err := migrate(ctx, withDatabase(dsn, name)); err != nil {
		return err
	}
	// no connections: Postgres clones only a database that nobody is connected to
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+identifier+" IS_TEMPLATE true ALLOW_CONNECTIONS false"); err != nil {
		return fmt.Errorf("finish the template: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, dsn string) error {
	pool, err := db.Open(ctx, dsn, db.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	return db.Migrate(ctx, pool, slog.New(slog.DiscardHandler))
}

// sweep drops what killed runs left on a server that outlives them. Their age is in their names.
func sweep(ctx context.Context, admin *pgxpool.Pool) error {
	rows, err := admin.Query(ctx, `SELECT datname FROM pg_database WHERE starts_with(datname, $1)`, testPrefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		unix, _, _ := strings.Cut(strings.TrimPrefix(name, testPrefix), "_")
		seconds, err := strconv.ParseInt(unix, 10, 64)
		if err != nil || time.Since(time.Unix(seconds, 0)) < leftAfter {
			continue
		}
		// another run may sweep at the same time, and a stopped debugger may still be connected: neither matters
		_, _ = admin.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize())
	}
	return nil
}
