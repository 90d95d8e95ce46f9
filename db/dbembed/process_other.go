//go:build !windows && !linux

package dbembed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// sysProcAttr has no parent-death signal to set here: see launch.
func sysProcAttr(a *account) *syscall.SysProcAttr { return unixAttr(a) }

// orphan knows a server by its socket: the pid alone may be anybody's by now.
func orphan(old postmaster, _ string) orphanState {
	if old.pid <= 0 || errors.Is(syscall.Kill(old.pid, 0), syscall.ESRCH) {
		return orphanGone
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(context.Background(), "unix", fmt.Sprintf("%s/.s.PGSQL.%d", old.socketDir, old.port))
	if err != nil {
		return orphanOther
	}
	_ = conn.Close()
	return orphanRunning
}
