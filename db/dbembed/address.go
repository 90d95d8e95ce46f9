package dbembed

import (
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// address is where the server listens: a private Unix socket, or loopback with a password where there are none.
type address struct {
	socketDir string
	ownTemp   bool // socketDir was made for this run alone and goes with it
	port      int
	password  string
}

// socketTemp begins the names of socket directories outside of the data directory.
const socketTemp = "weir-socket-"

// DefaultDataDir is where a program with no settings keeps its data: /var/lib/weir as root, the user's data directory
// otherwise (XDG_DATA_HOME or ~/.local/share, ~/Library/Application Support, %LocalAppData%). As root it is
// not below /root, which the account that runs Postgres cannot enter.
func DefaultDataDir() string {
	if runtime.GOOS != "windows" && os.Geteuid() == 0 {
		return "/var/lib/weir"
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "weir-data" // no home: the working directory, where it is at least seen
	}
	switch runtime.GOOS {
	case "windows":
		if local := os.Getenv("LocalAppData"); local != "" {
			return filepath.Join(local, "weir")
		}
		return filepath.Join(home, "AppData", "Local", "weir")
	case "darwin":
		return filepath.Join(home, "Library", "Application Support", "weir")
	}
	if xdg := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(xdg) {
		return filepath.Join(xdg, "weir")
	}
	return filepath.Join(home, ".local", "share", "weir")
}

// removeSocketDir removes a socket directory made for one run.
func (c cluster) removeSocketDir() {
	if c.address.ownTemp {
		_ = os.RemoveAll(c.address.socketDir)
	}
}

// removeLeftSocketDir removes the temporary socket directory of a run that was killed, given that run's DSN.
func removeLeftSocketDir(dsn string) {
	u, err := url.Parse(dsn)
	if err != nil {
		return
	}
	if dir := u.Query().Get("host"); strings.HasPrefix(filepath.Base(dir), socketTemp) {
		_ = os.RemoveAll(dir)
	}
}

// ourselves names the account that we run as, for error messages.
func ourselves() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}
