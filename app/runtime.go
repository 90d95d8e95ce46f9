package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lmittmann/tint"

	"weir/db"
	"weir/db/dbembed"
	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/jobs/webhook"
)

// newLog makes the process's logger: text with colours on a terminal, JSON lines elsewhere. It becomes slog's default too.
//
// The log package falls silent. Only libraries write to it, and net/http quotes there what a receiver sends unasked on an idle connection
// ("Unsolicited response received on idle HTTP channel starting with …"): that could be a payload, and no payload is ever logged.
func newLog(c config, w *os.File) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return nil, errors.New("WEIR_LOG_LEVEL: want debug, info, warn or error")
	}
	format := c.LogFormat
	if format == "auto" {
		format = "json"
		if info, err := w.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			format = "text"
		}
	}
	var logger *slog.Logger
	switch format {
	case "text":
		logger = slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: "15:04:05.000"}))
	case "json":
		logger = slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	default:
		return nil, errors.New("WEIR_LOG_FORMAT: want json, text or auto")
	}
	slog.SetDefault(logger)   // this also makes the log package write to logger,
	log.SetOutput(io.Discard) // so this comes after it
	return logger, nil
}

// store is an open, migrated database with the keyring that fits it.
type store struct {
	pool    *pgxpool.Pool
	keyring *db.Keyring
	server  *dbembed.Server // nil where DATABASE_URL names one
}

// openStore connects (starting the embedded server where there is no DATABASE_URL), migrates, and checks the key against the database.
// Close the store when done.
func openStore(ctx context.Context, c config, log *slog.Logger) (*store, error) {
	if c.DatabaseURL != "" {
		return connectStore(ctx, c, &store{}, c.DatabaseURL, log)
	}
	server, err := dbembed.Start(ctx, dbembed.Options{DataDir: c.DataDir, CacheDir: c.cacheDir, Log: log})
	if err != nil {
		return nil, fmt.Errorf("start embedded postgres: %w", err)
	}
	return connectStore(ctx, c, &store{server: server}, server.DSN(), log)
}

// openRunningStore is openStore for the short commands: where a "weir serve" runs the embedded server of this data directory, they use it.
func openRunningStore(ctx context.Context, c config, log *slog.Logger) (*store, error) {
	opened, err := openStore(ctx, c, log)
	var inUse *dbembed.InUseError
	if errors.As(err, &inUse) && inUse.DSN != "" {
		return connectStore(ctx, c, &store{}, inUse.DSN, log)
	}
	return opened, err
}

func connectStore(ctx context.Context, c config, s *store, dsn string, log *slog.Logger) (_ *store, err error) {
	defer func() {
		if err != nil {
			s.close(log)
		}
	}()
	if s.pool, err = db.Open(ctx, dsn, db.Options{MaxConns: int32(c.MaxConns)}); err != nil { // checked: at most 1000
		return nil, err
	}
	if err = db.Migrate(ctx, s.pool, log); err != nil {
		return nil, err
	}
	s.keyring, err = openKeyring(ctx, c, s.pool)
	return s, err
}

// lost is closed when the embedded server ends by itself; nil, which blocks for ever, where there is none.
func (s *store) lost() <-chan struct{} {
	if s.server == nil {
		return nil
	}
	return s.server.Done()
}

func (s *store) close(log *slog.Logger) {
	if s.pool != nil {
		s.pool.Close()
	}
	if s.server != nil {
		if err := s.server.Stop(); err != nil {
			log.Warn("stop embedded postgres", "error", err)
		}
	}
}

// canary is the setting that tells whether a key fits the database.
const canary = "keyring_canary"

// openKeyring takes the key from the settings or the data directory, and refuses one that does not fit the database: with the wrong key
// nothing could be signed, and what is sealed now could not be opened later.
func openKeyring(ctx context.Context, c config, pool *pgxpool.Pool) (*db.Keyring, error) {
	text := c.SecretKey
	if text == "" {
		var err error
		if text, err = db.LoadOrCreateKey(c.DataDir); err != nil {
			return nil, err
		}
	}
	keyring, err := db.ParseKeyring(text)
	if err != nil {
		return nil, fmt.Errorf("WEIR_SECRET_KEY: %w", err)
	}
	queries := dbsqlc.New()
	sealed, err := queries.SettingGet(ctx, pool, canary)
	if errors.Is(err, pgx.ErrNoRows) {
		if err := queries.SettingInsert(ctx, pool, canary, keyring.NewCanary()); err != nil {
			return nil, fmt.Errorf("write canary: %w", err)
		}
		// Another process may have been first, with another key.
		sealed, err = queries.SettingGet(ctx, pool, canary)
		if err != nil {
			return nil, fmt.Errorf("read canary: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("read canary: %w", err)
	}
	if err := keyring.CheckCanary(sealed); err != nil {
		return nil, err
	}
	return keyring, nil
}

// newEngine wires the engine of one process. Close the sender after the engine has stopped.
func newEngine(c config, s *store, log *slog.Logger) (*jobs.Engine, *webhook.Sender, error) {
	sender := webhook.NewSender(webhook.SenderOptions{
		Guard: webhook.Guard{Allow: c.allowed}, Version: version(),
		// As many as can be under way at once: fewer, and an unlimited lane dials anew all the time (7 % of the CPU when measured).
		MaxIdlePerHost: c.Workers,
	})
	engine, err := jobs.New(jobs.Options{
		Pool: s.pool, Keyring: s.keyring, Sender: sender, Log: log, Roles: c.Roles, Workers: c.Workers,
		BodyLimit: c.BodyLimit, DiscoveryInterval: c.DiscoveryInterval, Grace: c.Grace,
	})
	return engine, sender, err
}

// discardLog is for parts whose log nobody reads.
func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// say prints a line for the person at the terminal.
func say(w io.Writer, format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// openCommand is what the short commands need: settings, a logger that only warns, and the store.
func openCommand(ctx context.Context) (config, *store, *slog.Logger, error) {
	c, err := loadConfig()
	if err != nil {
		return c, nil, nil, err
	}
	if os.Getenv("WEIR_LOG_LEVEL") == "" {
		c.LogLevel = "warn" // their output is the answer
	}
	log, err := newLog(c, os.Stderr)
	if err != nil {
		return c, nil, nil, err
	}
	s, err := openRunningStore(ctx, c, log)
	return c, s, log, err
}
