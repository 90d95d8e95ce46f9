//go:build !windows

package dbembed

import (
	"context"
	"errors"
	"syscall"
)

// unixAttr starts a program in a process group of its own, as the account where there is one, without
// our supplementary groups.
func unixAttr(a *account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// fastShutdown asks the server to end its sessions, write a checkpoint and stop.
func (p *process) fastShutdown(binary, cluster) error { return p.cmd.Process.Signal(syscall.SIGINT) }

// immediateShutdown asks it to stop at once; it recovers from its log at the next start.
func (p *process) immediateShutdown() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) }

// signalOrphan asks a server that is not our child for a fast shutdown. One that has just ended is fine.
func signalOrphan(_ context.Context, old postmaster, _ binary, _ cluster) error {
	if err := syscall.Kill(old.pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
