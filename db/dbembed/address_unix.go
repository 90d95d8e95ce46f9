//go:build !windows

package dbembed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// socketPort is only part of the socket's name: nothing listens on TCP.
	socketPort = 5432
	// maxSocketPath is what fits sun_path on every system: 107 bytes on Linux, 103 on macOS and the BSDs.
	maxSocketPath = 103
)

// listenOn chooses the socket's directory, private to the server's account (and root): whoever can enter it is let in without a
// password. It is in the data directory unless that path is too long for a socket. What a killed server left in it is
// removed: its lock file can name a pid that is another program's by now, and Postgres would not start beside that.
func (a *account) listenOn(dataDir string) (address, error) {
	addr := address{socketDir: filepath.Join(dataDir, "run"), port: socketPort}
	if err := os.RemoveAll(addr.socketDir); err != nil {
		return address{}, fmt.Errorf("remove the last socket: %w", err)
	}
	if name := fmt.Sprintf("%s/.s.PGSQL.%d.lock", addr.socketDir, socketPort); len(name) > maxSocketPath || strings.Contains(name, ",") {
		// a comma would separate two directories; a random name, since anybody can make directories in a shared temporary one
		dir, err := os.MkdirTemp("", socketTemp)
		if err != nil {
			return address{}, fmt.Errorf("create a directory for the socket: %w", err)
		}
		addr.socketDir, addr.ownTemp = dir, true
	} else if err := os.Mkdir(addr.socketDir, 0o700); err != nil {
		return address{}, fmt.Errorf("create a directory for the socket: %w", err)
	}
	if err := a.own(addr.socketDir); err != nil {
		return address{}, fmt.Errorf("hand the socket's directory to %s: %w", a.name(), err)
	}
	return addr, nil
}

// initdbAuth are the rules for pg_hba.conf: whoever reaches the private socket is let in, nobody by TCP.
func initdbAuth(string) (args []string, cleanup func(), err error) {
	return []string{"--auth-local=trust", "--auth-host=reject"}, func() {}, nil
}
