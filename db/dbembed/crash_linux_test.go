package dbembed

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// helper runs this test binary as a program of its own, which starts a server on dir. It returns the program and
// its server's pid.
func helper(t *testing.T, program, dir string, attr *syscall.SysProcAttr) (*exec.Cmd, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	cmd.Dir = dir
	cmd.SysProcAttr = attr
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		require.NoError(t, err)
	}
	pid, isReady := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	require.True(t, isReady, "the helper says: %s", line)
	number, err := strconv.Atoi(pid)
	require.NoError(t, err)
	return cmd, number
}

// running is false for a zombie: in a container nobody may be there to collect it.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
}

func TestKilledParent(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)

	t.Run("leaves no server, and the next start recovers", func(t *testing.T) {
		t.Parallel()
		dir := dataDir(t)
		cmd, server := helper(t, self, dir, nil)
		require.True(t, running(server))
		_, dsn := readLock(dir)
		execute(t, dsn, `CREATE TABLE kept AS SELECT 42 AS answer`)
		kill(t, cmd)
		require.Eventually(t, func() bool { return !running(server) }, 10*time.Second, 20*time.Millisecond)
		require.Equal(t, 42, query[int](t, start(t, Options{DataDir: dir}).DSN(), `SELECT answer FROM kept`))
	})

	t.Run("and a start at once waits for the old server", func(t *testing.T) {
		t.Parallel()
		dir := dataDir(t)
		cmd, _ := helper(t, self, dir, nil)
		kill(t, cmd)
		start(t, Options{DataDir: dir})
	})

	t.Run("a server that was killed too is recovered, though its pid is another program's", func(t *testing.T) {
		t.Parallel()
		dir := dataDir(t)
		cmd, server := helper(t, self, dir, nil)
		pidFile := filepath.Join(dir, "postgres", "postmaster.pid")
		content, err := os.ReadFile(pidFile)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(server, syscall.SIGKILL))
		kill(t, cmd)
		require.Eventually(t, func() bool { return !running(server) }, 10*time.Second, 20*time.Millisecond)

		other := exec.CommandContext(t.Context(), "sleep", "60")
		account, err := serverAccount()
		require.NoError(t, err)
		other.SysProcAttr = unixAttr(account)
		require.NoError(t, other.Start())
		t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
		_, rest, _ := strings.Cut(string(content), "\n")
		require.NoError(t, os.WriteFile(pidFile, []byte(strconv.Itoa(other.Process.Pid)+"\n"+rest), 0o600))

		require.Equal(t, 1, query[int](t, start(t, Options{DataDir: dir}).DSN(), `SELECT 1`))
	})
}

// TestAsNobody runs the same as an ordinary account: most tests of a container or a CI machine run as root.
func TestAsNobody(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another account; the other tests run unprivileged then")
	}
	nobody, err := user.Lookup("nobody")
	require.NoError(t, err)
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	require.NoError(t, err)
	account := &account{username: "nobody", uid: uint32(uid), gid: uint32(uid)}

	dir := dataDir(t)
	require.NoError(t, account.own(dir))
	cmd, server := helper(t, copyOfSelf(t), dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: account.uid, Gid: account.gid}})
	stat, err := os.Stat("/proc/" + strconv.Itoa(server))
	require.NoError(t, err)
	require.EqualValues(t, uid, stat.Sys().(*syscall.Stat_t).Uid)
	kill(t, cmd)
	require.Eventually(t, func() bool { return !running(server) }, 10*time.Second, 20*time.Millisecond)
	again, server := helper(t, copyOfSelf(t), dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: account.uid, Gid: account.gid}})
	kill(t, again)
	require.Eventually(t, func() bool { return !running(server) }, 10*time.Second, 20*time.Millisecond)
}

// copyOfSelf puts this test binary where every account can run it: go test builds it in a private directory.
func copyOfSelf(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := dataDir(t)
	require.NoError(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "helper")
	// By another process: written by this one, a child that a parallel test forks meanwhile would hold it open for writing, and what is
	// open for writing cannot be run (golang/go#22315).
	out, err := exec.CommandContext(t.Context(), "install", "-m", "755", self, path).CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

func TestUnreachableDataDir(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs the server as another account")
	}
	dir := filepath.Join(t.TempDir(), "data") // below a directory that only root enters
	_, err := Start(t.Context(), Options{DataDir: dir, Log: quiet()})
	require.ErrorContains(t, err, "refuses to run as root")
	require.ErrorContains(t, err, "who cannot enter "+filepath.Dir(filepath.Dir(dir))+" (drwx------)")
	require.ErrorContains(t, err, "/var/lib/weir")
}
