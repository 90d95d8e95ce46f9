package dbembed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// orphanState is what became of the server that postmaster.pid names.
type orphanState int

const (
	orphanGone    orphanState = iota // no process has that pid: Postgres itself overwrites the file
	orphanOther                      // the pid is another program's by now, or a zombie's
	orphanRunning                    // a server still runs on our data directory
)

// postmaster is what Postgres writes about itself into its data directory.
type postmaster struct {
	pid       int
	port      int
	socketDir string
}

// recover makes the data directory startable after a crash of ours. We hold its lock, so a server that still
// runs there belongs to nobody: either it is on its way down (Linux tells it that its parent died) or it was left
// behind, and then it is stopped. A pid file whose number went to another program is removed, since Postgres would take that
// program for itself: common in containers, where the same small numbers come again at each start.
//
// It returns an error where the old server cannot be stopped.
func (c cluster) recover(ctx context.Context, log *slog.Logger, bin binary) error {
	pidFile := filepath.Join(c.dir, "postmaster.pid")
	old, err := readPostmaster(pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what the last server left: %w", err)
	}
	if orphan(old, c.dir) == orphanRunning {
		log.WarnContext(ctx, "stopping a Postgres that a killed weir left behind", "pid", old.pid, "dir", c.dir)
		if err := c.stopOrphan(ctx, old, bin); err != nil {
			return fmt.Errorf("stop the Postgres (pid %d) that runs on %s: %w", old.pid, c.dir, err)
		}
	}
	if orphan(old, c.dir) == orphanOther {
		if err := os.Remove(pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a stale postmaster.pid: %w", err)
		}
	}
	return nil
}

// stopOrphan asks the server to stop and waits until it has.
func (c cluster) stopOrphan(ctx context.Context, old postmaster, bin binary) error {
	if err := signalOrphan(ctx, old, bin, c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fastTimeout)
	defer cancel()
	for orphan(old, c.dir) == orphanRunning {
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is still there: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// readPostmaster reads postmaster.pid. Its lines: pid, data directory, start time, port, socket directory, address, …;
// a server that was killed while starting has written only some.
func readPostmaster(path string) (postmaster, error) {
	content, err := os.ReadFile(path) //nolint:gosec // below the data directory, which is the operator's
	if err != nil {
		return postmaster{}, err
	}
	lines := append(strings.Split(string(content), "\n"), make([]string, 5)...)
	var p postmaster
	if p.pid, err = strconv.Atoi(strings.TrimSpace(lines[0])); err != nil {
		return postmaster{}, nil //nolint:nilerr // an empty file: Postgres was killed between creating and writing it
	}
	p.port, _ = strconv.Atoi(strings.TrimSpace(lines[3]))
	p.socketDir = strings.TrimSpace(lines[4])
	return p, nil
}
