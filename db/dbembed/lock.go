package dbembed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// errLocked is what tryLock returns when another process holds the lock.
var errLocked = errors.New("locked by another process")

// lock is held for the life of the process, by the kernel: a process that is killed releases it. The file says who
// holds it, for the error message, and where the server listens.
type lock struct {
	file     *os.File
	previous string // the DSN of a holder that did not end in order, else empty
}

func lockPath(dataDir string) string { return filepath.Join(dataDir, "weir.lock") }

// acquireLock takes the data directory or returns an *InUseError. The file is never removed: a process that waits
// on a removed file and one that makes a new one would both hold "the" lock.
func acquireLock(dataDir string) (*lock, error) {
	file, err := os.OpenFile(lockPath(dataDir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data directory: %w", err)
	}
	if err := tryLock(file); err != nil {
		_ = file.Close()
		if !errors.Is(err, errLocked) {
			return nil, fmt.Errorf("lock the data directory: %w", err)
		}
		inUse := &InUseError{DataDir: dataDir}
		inUse.PID, inUse.DSN = readLock(dataDir)
		return nil, inUse
	}
	l := &lock{file: file}
	_, l.previous = readLock(dataDir)
	if err := l.write(strconv.Itoa(os.Getpid()) + "\n"); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// publish adds the connection string for others to find.
func (l *lock) publish(dsn string) error {
	return l.write(fmt.Sprintf("%d\n%s\n", os.Getpid(), dsn))
}

func (l *lock) write(content string) error {
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("write the lock of the data directory: %w", err)
	}
	if _, err := l.file.WriteAt([]byte(content), 0); err != nil {
		return fmt.Errorf("write the lock of the data directory: %w", err)
	}
	return nil
}

// release empties the file, so that nobody takes a stopped server's address for a running one's, and lets go.
func (l *lock) release() {
	_ = l.file.Truncate(0)
	_ = l.file.Close()
}

// readLock returns what the holder wrote; zero values where it has not written yet.
func readLock(dataDir string) (pid int, dsn string) {
	content, err := os.ReadFile(lockPath(dataDir))
	if err != nil {
		return 0, ""
	}
	first, rest, _ := strings.Cut(string(content), "\n")
	pid, _ = strconv.Atoi(first)
	return pid, strings.TrimSpace(rest)
}
