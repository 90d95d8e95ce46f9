package dbembed

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// sysProcAttr adds what only Linux has: the kernel asks the server to stop when we die, however we die. SIGINT is its
// fast shutdown. See launch for the thread that this is tied to.
func sysProcAttr(a *account) *syscall.SysProcAttr {
	attr := unixAttr(a)
	attr.Pdeathsig = syscall.SIGINT
	return attr
}

// orphan knows a server by its working directory, which is always its data directory.
func orphan(old postmaster, dir string) orphanState {
	if old.pid <= 0 || errors.Is(syscall.Kill(old.pid, 0), syscall.ESRCH) {
		return orphanGone
	}
	cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(old.pid), "cwd"))
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	if err == nil && cwd == dir {
		return orphanRunning
	}
	return orphanOther
}
