package dbembed

import (
	"errors"
	"os/exec"
	"runtime"
	"time"
)

// process is a started program that somebody waits for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; read it after done is closed
}

// launch starts cmd from an operating system thread that lives until the program ends. On Linux the
// kernel sends the parent-death signal when the *thread* that forked ends, not the process (golang/go#27505): from an
// ordinary goroutine the server would be stopped at some random moment.
//
// Elsewhere there is no such signal: after a kill -9 of this process its server runs on until the next start, which
// stops it (recover.go).
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// wait reports whether the program ended in time.
func (p *process) wait(timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// failure is why a server ended that should be running. It never returns nil: an exit code 0 is wrong there too.
func (p *process) failure() error {
	<-p.done
	if p.err == nil {
		return errors.New("the server was stopped from outside")
	}
	return p.err
}
