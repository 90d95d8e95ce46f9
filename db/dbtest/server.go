package dbtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"weir/db/dbembed"
)

// kind is where a server comes from.
type kind string

const (
	containers  kind = "testcontainers"
	external    kind = "TEST_DATABASE_URL"
	embeddedOne kind = "the embedded server"
)

// settings make throw-away servers faster without changing what SQL does: only a power cut would notice.
var settings = map[string]string{
	"fsync":            "off",
	"full_page_writes": "off",
	"max_connections":  "300",
	"shared_buffers":   "256MB",
}

// server is the one Postgres of this test process.
type server struct {
	kind     kind
	detail   string // the image and container, for people
	version  string // server_version
	dsn      string // its maintenance database
	admin    *pgxpool.Pool
	template string // the migrated database that tests get clones of
	nonce    string
	stop     func() error
}

func (s *server) String() string {
	return fmt.Sprintf("%s: PostgreSQL %s%s", s.kind, s.version, s.detail)
}

// choose is the rule: testcontainers where a Docker engine answers (engine is nil), else TEST_DATABASE_URL, else the embedded
// server; in CI testcontainers or an error.
func choose(ci bool, engine error, databaseURL string) (kind, error) {
	switch {
	case engine == nil:
		return containers, nil
	case ci:
		return "", fmt.Errorf("CI=true requires testcontainers, and no Docker engine answers: %w", engine)
	case databaseURL != "":
		return external, nil
	default:
		return embeddedOne, nil
	}
}

// startServer picks the server, starts it where that is ours to do, and makes the template database.
func startServer(ctx context.Context) (_ *server, err error) {
	ci, _ := strconv.ParseBool(os.Getenv("CI"))
	picked, err := choose(ci, engine(ctx), os.Getenv("TEST_DATABASE_URL"))
	if err != nil {
		return nil, err
	}
	s := &server{kind: picked, nonce: strings.ToLower(rand.Text()[:8]), stop: func() error { return nil }}
	switch picked {
	case containers:
		err = s.startContainer(ctx, cmp.Or(os.Getenv("WEIR_TEST_POSTGRES_IMAGE"), defaultImage))
	case external:
		s.dsn = os.Getenv("TEST_DATABASE_URL")
	case embeddedOne:
		err = s.startEmbedded(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", picked, err)
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", picked, err), s.close())
	}
	return s, nil
}

// startEmbedded starts a server on a directory that is removed at the end. It is not below a private directory (as
// t.TempDir is), because as root the server runs as another account. Downloaded binaries are kept.
func (s *server) startEmbedded(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "weir-dbtest-")
	if err != nil {
		return err
	}
	cache := "/var/cache/weir"
	if os.Geteuid() != 0 {
		if cache, err = os.UserCacheDir(); err != nil {
			cache = dir
		}
		cache = filepath.Join(cache, "weir")
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	embedded, err := dbembed.Start(ctx, dbembed.Options{DataDir: dir, CacheDir: cache, Log: log, Settings: settings})
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	s.dsn = embedded.DSN()
	s.stop = func() error { return errors.Join(embedded.Stop(), os.RemoveAll(dir)) }
	return nil
}

// prepare connects, waiting for a server that is just starting, and makes the template.
func (s *server) prepare(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(s.dsn)
	if err != nil {
		return err
	}
	config.MaxConns = 4 // it only creates and drops databases
	if s.admin, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	deadline := time.Now().Add(time.Minute)
	for {
		err := s.admin.QueryRow(ctx, `SHOW server_version`).Scan(&s.version)
		if err == nil {
			break
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("it does not answer: %w", err)
		}
		time.Sleep(100 * time.Millisecond) // no signal comes from a server that starts
	}
	s.version, _, _ = strings.Cut(s.version, " ")
	if err := sweep(ctx, s.admin); err != nil {
		return err
	}
	if s.template, err = templateName(); err != nil {
		return err
	}
	return ensureTemplate(ctx, s.admin, s.dsn, s.template)
}

func (s *server) close() error {
	if s.admin != nil {
		s.admin.Close()
	}
	return s.stop()
}

// withDatabase returns dsn with another database's name. A keyword string takes the last of two values.
func withDatabase(dsn, name string) string {
	if u, err := url.Parse(dsn); err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") {
		u.Path = "/" + name
		return u.String()
	}
	return dsn + " dbname=" + name
}
