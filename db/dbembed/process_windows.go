package dbembed

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// account does not exist on Windows: Postgres drops an administrator's rights by itself.
type account struct{}

func serverAccount() (*account, error)                            { return nil, nil }
func (*account) name() string                                     { return ourselves() }
func (*account) own(string) error                                 { return nil }
func (*account) openDir(string) error                             { return nil }
func (*account) checkReach(context.Context, binary, string) error { return nil }
func sysProcAttr(*account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// passwordFile keeps the superuser's password between starts, in the user's own data directory.
const passwordFile = "postgres.password"

// listenOn takes a free port on loopback. Another program may take it in between: then the start fails and says so.
func (*account) listenOn(dataDir string) (address, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return address{}, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	password, err := os.ReadFile(filepath.Join(dataDir, passwordFile))
	if err != nil {
		return address{}, fmt.Errorf("read the embedded server's password: %w", err)
	}
	return address{port: listener.Addr().(*net.TCPAddr).Port, password: strings.TrimSpace(string(password))}, nil
}

// initdbAuth asks for a password on every connection.
func initdbAuth(dataDir string) (args []string, cleanup func(), err error) {
	path := filepath.Join(dataDir, passwordFile)
	if err := os.WriteFile(path, []byte(rand.Text()), fs.FileMode(0o600)); err != nil {
		return nil, nil, fmt.Errorf("write the embedded server's password: %w", err)
	}
	return []string{"--auth=scram-sha-256", "--pwfile=" + path}, func() {}, nil
}

func (p *process) fastShutdown(bin binary, c cluster) error {
	return signalOrphan(context.Background(), postmaster{}, bin, c)
}

func (p *process) immediateShutdown() { _ = p.cmd.Process.Kill() }

// signalOrphan uses pg_ctl, since there are no signals to send.
func signalOrphan(ctx context.Context, _ postmaster, bin binary, c cluster) error {
	out, err := c.command(ctx, bin, "pg_ctl", "stop", "-D", c.dir, "-m", "fast", "-W").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_ctl stop: %w: %s", err, lastLines(out, 3))
	}
	return nil
}

// orphan knows a server by its port.
func orphan(old postmaster, _ string) orphanState {
	if old.port == 0 {
		return orphanGone
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(context.Background(), "tcp", "127.0.0.1:"+strconv.Itoa(old.port))
	if err != nil {
		return orphanGone
	}
	_ = conn.Close()
	return orphanRunning
}
