package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// benchProcess is this program once more, as a process of its own.
type benchProcess struct {
	name  string
	cmd   *exec.Cmd
	end   context.CancelFunc
	ended chan struct{} // closed when the process has ended
	stdin io.Closer
}

// startSelf starts the program with args. It ends with ctx: asked first, killed if it does not listen.
func startSelf(ctx context.Context, environ []string, out io.Writer, args ...string) (*benchProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &benchProcess{name: strings.Join(args, " "), cmd: exec.CommandContext(ctx, self, args...), end: cancel, ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), environ...)
	p.cmd.Stdout, p.cmd.Stderr = out, os.Stderr
	p.cmd.WaitDelay = 20 * time.Second
	p.cmd.Cancel = func() error {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return p.cmd.Process.Kill() // Windows has no such signal
		}
		return nil
	}
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // that it ended too early is seen by who waits for something; how it ended is on its stderr
	}()
	return p, nil
}

func (p *benchProcess) pid() int { return p.cmd.Process.Pid }

// stop ends the process and returns when it has ended; it may be called again.
func (p *benchProcess) stop() {
	p.end()
	<-p.ended // bounded by WaitDelay
}

// kill ends the process as a power cut would: nothing of it runs any more when this returns, and nothing was tidied up.
func (p *benchProcess) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

// benchWorkers are the processes that deliver.
type benchWorkers []*benchProcess

// startWorkers starts n processes that deliver, and returns when all of them are about to fetch.
func (b *bench) startWorkers(ctx context.Context, n int) (workers benchWorkers, err error) {
	defer func() {
		if err != nil {
			workers.stop()
		}
	}()
	for range n {
		p, err := b.startServe(ctx, io.Discard, "work,discover")
		if err != nil {
			return workers, err
		}
		workers = append(workers, p)
	}
	return workers, b.untilReady(ctx, workers)
}

// startServe starts a process that serves. Part of a bench is to learn nothing from the inside: it gets what an installation sets, by
// environment, and logs errors only.
func (b *bench) startServe(ctx context.Context, out io.Writer, roles string) (*benchProcess, error) {
	return startSelf(ctx, []string{
		"DATABASE_URL=" + b.dsn, "WEIR_DATA_DIR=" + b.config.DataDir, "WEIR_ALLOW_NETWORKS=127.0.0.0/8", "WEIR_LOG_LEVEL=error", "WEIR_GRACE=5s",
		"WEIR_ADDR=127.0.0.1:0",
	}, out, "serve", "--roles", roles)
}

// untilReady waits until all of these processes, and no others, have said in the database that they work.
func (b *bench) untilReady(ctx context.Context, workers benchWorkers) error {
	return b.until(ctx, workers, benchWait, "the workers are ready", func() (bool, error) {
		var ready int
		err := b.store.pool.QueryRow(ctx, "SELECT count(*) FROM process WHERE roles && '{work,discover}' AND stopped_at IS NULL").Scan(&ready)
		return ready == len(workers), err
	})
}

func (w benchWorkers) pids() (pids []int) {
	for _, p := range w {
		pids = append(pids, p.pid())
	}
	return pids
}

func (w benchWorkers) stop() {
	var all sync.WaitGroup
	for _, p := range w {
		all.Go(p.stop)
	}
	all.Wait()
}

// until waits for done, not for longer than limit, and not for processes that have ended.
func (b *bench) until(ctx context.Context, workers benchWorkers, limit time.Duration, what string, done func() (bool, error)) error {
	deadline := time.Now().Add(limit)
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		for _, p := range append(benchWorkers{b.receiver.process}, workers...) {
			select {
			case <-p.ended:
				return fmt.Errorf("wait until %s: %q ended by itself", what, p.name)
			default:
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait until %s: not after %s", what, limit)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.store.lost():
			return errors.New("the embedded postgres ended by itself")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
