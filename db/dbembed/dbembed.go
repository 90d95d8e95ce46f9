// Package dbembed runs a Postgres of our own beside the program, so that Weir starts with no settings at all and its
// tests run without Docker. It looks for installed server binaries, downloads them once where there are none, and
// runs both with the same starter.
//
// Three things make this more than a call of pg_ctl, and each has its file:
//
//   - Postgres refuses to run as root, so as root it is run as an unprivileged account (account_unix.go).
//   - A parent that is killed with SIGKILL must not leave a server behind (process.go), and what a crash did leave must
//     not stop the next start (recover.go).
//   - Two programs on one data directory destroy it, so the directory is locked (lock.go).
package dbembed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// readyTimeout is long because a server that was killed replays its log before it answers.
	readyTimeout = 2 * time.Minute
	// fastTimeout is how long a fast shutdown may take: it writes a checkpoint, so it depends on the disk.
	fastTimeout = 20 * time.Second
	// immediateTimeout is how long we wait after SIGQUIT, when Postgres stops without a checkpoint.
	immediateTimeout = 5 * time.Second
)

// Options says where and how to run the server.
type Options struct {
	// DataDir holds everything: the cluster in postgres/, postgres.log, the lock, the socket, downloaded binaries. It is
	// created if missing. Required; DefaultDataDir suggests one.
	DataDir string

	// CacheDir is where downloaded server binaries are kept. The default is DataDir/binaries; tests, whose data
	// directories are thrown away, give one that stays.
	CacheDir string

	// Log gets one line for each step that takes time. The default is slog.Default().
	Log *slog.Logger

	// Settings are server settings (postgresql.conf names) which override ours, such as fsync or max_connections.
	Settings map[string]string
}

// Server is a running Postgres, owned by this process. Stop it, or it is stopped when the process ends.
type Server struct {
	dsn     string
	version string
	log     *slog.Logger
	lock    *lock
	process *process
	binary  binary
	cluster cluster

	stopOnce sync.Once
	stopErr  error
	stopping chan struct{}
}

// InUseError is returned by Start when another process holds the data directory. A command that only needs a
// connection can use its DSN instead of a server of its own.
type InUseError struct {
	DataDir string // the directory that is held
	PID     int    // the process that holds it, 0 where that is not known
	DSN     string // its server, empty while it is still starting
}

func (e *InUseError) Error() string {
	if e.PID == 0 {
		return "another weir runs on " + e.DataDir
	}
	return fmt.Sprintf("another weir runs on %s (pid %d)", e.DataDir, e.PID)
}

// Start finds or downloads Postgres, creates the cluster in opts.DataDir if there is none, and returns once the
// server answers and the database "weir" exists. The context bounds the start alone; it does not stop the server later.
//
// Errors: *InUseError where another process runs on the directory; otherwise a sentence that says which step failed,
// with the server's own last words where it has any.
func Start(ctx context.Context, opts Options) (_ *Server, err error) {
	log := cmp.Or(opts.Log, slog.Default())
	if opts.DataDir == "" {
		return nil, errors.New("dbembed: no data directory given")
	}
	dataDir, err := filepath.Abs(opts.DataDir)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", opts.DataDir, err)
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}

	held, err := acquireLock(dataDir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			held.release()
		}
	}()

	c := cluster{dir: filepath.Join(dataDir, "postgres"), logFile: filepath.Join(dataDir, "postgres.log"), settings: opts.Settings}
	if c.account, err = serverAccount(); err != nil {
		return nil, err
	}
	if err := c.account.openDir(dataDir); err != nil {
		return nil, err
	}

	major, err := c.major()
	if err != nil {
		return nil, err
	}
	bin, err := findOrDownload(ctx, log, major, cmp.Or(opts.CacheDir, filepath.Join(dataDir, "binaries")))
	if err != nil {
		return nil, err
	}
	if err := c.account.checkReach(ctx, bin, dataDir); err != nil {
		return nil, err
	}

	if err := c.recover(ctx, log, bin); err != nil {
		return nil, err
	}
	if major == 0 {
		log.InfoContext(ctx, "creating a Postgres cluster", "dir", c.dir, "version", bin.version)
		if err := c.init(ctx, bin); err != nil {
			return nil, err
		}
	}
	removeLeftSocketDir(held.previous)
	if c.address, err = c.account.listenOn(dataDir); err != nil {
		return nil, err
	}

	s := &Server{dsn: c.dsn(databaseName), version: bin.version, log: log, lock: held, binary: bin, cluster: c, stopping: make(chan struct{})}
	if err := s.run(ctx); err != nil {
		c.removeSocketDir()
		return nil, err
	}
	if err := held.publish(s.dsn); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	log.InfoContext(ctx, "embedded Postgres is ready", "version", bin.version, "dir", c.dir, "pid", s.process.cmd.Process.Pid)
	go s.watch()
	return s, nil
}

// DSN is a connection string for the database "weir" as its owner, a superuser of this server.
func (s *Server) DSN() string { return s.dsn }

// Version is the server's version as its binary prints it, such as "18.3".
func (s *Server) Version() string { return s.version }

// Done is closed when the server has ended, by Stop or by itself.
func (s *Server) Done() <-chan struct{} { return s.process.done }

// Stop ends the server: open connections are closed, transactions rolled back, a checkpoint written. It takes
// at most fastTimeout + immediateTimeout and a moment; an error says that the server had to be forced, or had ended by itself. Calling
// it again returns the first result.
func (s *Server) Stop() error {
	s.stopOnce.Do(func() {
		close(s.stopping)
		s.stopErr = s.shutdown()
		s.cluster.removeSocketDir()
		s.lock.release()
	})
	return s.stopErr
}

func (s *Server) shutdown() error {
	select {
	case <-s.process.done:
		return fmt.Errorf("embedded Postgres had already ended: %w", s.process.failure())
	default:
	}
	if err := s.process.fastShutdown(s.binary, s.cluster); err != nil {
		s.log.Warn("embedded Postgres did not take the request to stop", "error", err)
	}
	if s.process.wait(fastTimeout) {
		return s.process.err
	}
	s.process.immediateShutdown()
	if !s.process.wait(immediateTimeout) {
		_ = s.process.cmd.Process.Kill()
		s.process.wait(immediateTimeout)
	}
	return fmt.Errorf("embedded Postgres did not stop within %s and was forced; it recovers at its next start", fastTimeout)
}

// watch says so when the server ends without having been asked to.
func (s *Server) watch() {
	select {
	case <-s.stopping:
	case <-s.process.done:
		select {
		case <-s.stopping:
		default:
			s.log.Error("embedded Postgres ended by itself", "error", s.process.failure(), "log", s.cluster.logFile)
		}
	}
}
