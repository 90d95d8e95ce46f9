//go:build !windows

package dbembed

import (
	"errors"
	"os"
	"syscall"
)

// tryLock uses flock: unlike fcntl's locks it belongs to the open file, so closing another handle of it loses nothing.
func tryLock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
