package dbembed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// databaseName is the database, and the superuser who owns it.
const databaseName = "weir"

// cluster is one Postgres data directory and how its server is reached.
type cluster struct {
	dir      string            // what Postgres calls PGDATA
	logFile  string            // the server's standard error
	account  *account          // who runs it; nil: as ourselves
	settings map[string]string // the caller's, which override ours
	address  address
}

// major is the version that made the cluster, 0 where there is none yet.
func (c cluster) major() (int, error) {
	content, err := os.ReadFile(filepath.Join(c.dir, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the version of the data directory: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("%s/PG_VERSION holds %q, which is no version", c.dir, content)
	}
	return major, nil
}

// init creates the cluster under another name and renames it last, so that an interrupted initdb leaves nothing that
// the next start takes for a cluster.
func (c cluster) init(ctx context.Context, bin binary) error {
	unfinished := c.dir + ".init"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("remove an unfinished cluster: %w", err)
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return fmt.Errorf("create the cluster's directory: %w", err)
	}
	if err := c.account.own(unfinished); err != nil {
		return fmt.Errorf("hand the cluster's directory to %s: %w", c.account.name(), err)
	}
	// --locale=C: strings sort by byte on every machine, and no operating system upgrade can change an index's order.
	args := []string{"--pgdata", unfinished, "--username", databaseName, "--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions"}
	if c.settings["fsync"] == "off" {
		args = append(args, "--no-sync") // who does not want the data on disk does not want to wait for that here
	}
	auth, cleanup, err := initdbAuth(filepath.Dir(c.dir))
	if err != nil {
		return err
	}
	defer cleanup()

	var output bytes.Buffer
	cmd := c.command(ctx, bin, "initdb", append(args, auth...)...)
	cmd.Dir = unfinished
	cmd.Stdout, cmd.Stderr = &output, &output
	p, err := launch(cmd)
	if err != nil {
		return fmt.Errorf("start initdb: %w", err)
	}
	<-p.done
	if p.err != nil {
		return fmt.Errorf("initdb failed: %w\n%s", p.err, lastLines(output.Bytes(), 10))
	}
	if err := os.Rename(unfinished, c.dir); err != nil {
		return fmt.Errorf("put the new cluster in place: %w", err)
	}
	return nil
}

// run starts the server and waits until it answers.
func (s *Server) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	logFile, offset, err := openLog(s.cluster.logFile)
	if err != nil {
		return err
	}
	defer logFile.Close() // the server has its own copy

	// no CommandContext: the server outlives the start
	cmd := s.cluster.command(context.WithoutCancel(ctx), s.binary, "postgres", s.cluster.serverArgs()...)
	cmd.Dir = s.cluster.dir
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if s.process, err = launch(cmd); err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	if err := s.ready(ctx); err != nil {
		close(s.stopping)
		_ = s.shutdown()
		return fmt.Errorf("embedded Postgres did not start: %w\n%s", err, logSince(s.cluster.logFile, offset))
	}
	return nil
}

func (s *Server) ready(ctx context.Context) error {
	for {
		err := s.cluster.ensureDatabase(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.process.done:
			return s.process.failure()
		case <-ctx.Done():
			return fmt.Errorf("%w; the last try: %w", ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c cluster) ensureDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.dsn("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, databaseName).Scan(&exists); err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{databaseName}.Sanitize())
	return err
}

// dsn is a URL, since every client of ours takes one. The port and sslmode are written out: else PGPORT and PGSSLMODE in our own environment would change them.
func (c cluster) dsn(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(databaseName), Path: "/" + database}
	query := url.Values{"sslmode": {"disable"}}
	if c.address.socketDir != "" {
		query.Set("host", c.address.socketDir)
		query.Set("port", strconv.Itoa(c.address.port))
	} else {
		u.User = url.UserPassword(databaseName, c.address.password)
		u.Host = "127.0.0.1:" + strconv.Itoa(c.address.port)
	}
	u.RawQuery = query.Encode()
	return u.String()
}
