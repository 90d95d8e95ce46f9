//go:build !windows

package dbembed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the unprivileged account that runs the server when we are root. A nil account means ourselves; its methods
// then do nothing.
type account struct {
	username string
	uid, gid uint32
}

// serverAccount is nil unless we are root, whom Postgres refuses; then it is postgres, which a server package makes,
// or nobody.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil // nil is a valid account, see its type
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil || uid == 0 {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &account{username: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("Postgres refuses to run as root, and there is no account postgres or nobody to run it as; run weir as another user")
}

func (a *account) name() string {
	if a == nil {
		return ourselves()
	}
	return a.username
}

// own hands a directory, and nothing in it, to the account.
func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(dir, int(a.uid), int(a.gid))
}

// openDir lets the account pass through our data directory, but not list it: our own files there are 0600. Where it
// can already pass, nothing is changed.
func (a *account) openDir(dataDir string) error {
	if a == nil {
		return nil
	}
	info, err := os.Stat(dataDir)
	if err != nil || a.mayEnter(info) {
		return err
	}
	return os.Chmod(dataDir, info.Mode().Perm()|0o011)
}

// checkReach finds out whether the account can run the binaries and enter the data directory, by doing both: reading modes
// alone would miss access lists and security modules. The error names the directory that is in the way. We do not
// open directories that are not ours, and do not fall back to another place: data would then not be where it was asked for.
func (a *account) checkReach(ctx context.Context, bin binary, dataDir string) error {
	if a == nil {
		return nil
	}
	cmd := cluster{account: a}.command(ctx, bin, "postgres", "--version")
	cmd.Dir = dataDir
	p, err := launch(cmd)
	if err == nil {
		<-p.done
		err = p.err
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("run Postgres as the account %s: %w", a.username, err)
	}
	for _, dir := range []string{dataDir, bin.dir} {
		if blocking, mode, ok := a.blocked(dir); ok {
			return fmt.Errorf("Postgres refuses to run as root and is run as %s, who cannot enter %s (%s); "+
				"choose a data directory elsewhere, such as /var/lib/weir, or run: chmod o+x %s", a.username, blocking, mode, blocking)
		}
	}
	return fmt.Errorf("Postgres refuses to run as root and could not be run as %s: %w; "+
		"run weir as another user, or set DATABASE_URL to a Postgres of your own", a.username, err)
}

// blocked returns the outermost parent of dir that the account may not pass through.
func (a *account) blocked(dir string) (blocking string, mode fs.FileMode, found bool) {
	for d := dir; ; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err == nil && !a.mayEnter(info) {
			blocking, mode, found = d, info.Mode(), true
		}
		if d == filepath.Dir(d) {
			return blocking, mode, found
		}
	}
}

func (a *account) mayEnter(info fs.FileInfo) bool {
	perm := info.Mode().Perm()
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && stat.Uid == a.uid:
		return perm&0o100 != 0
	case ok && stat.Gid == a.gid:
		return perm&0o010 != 0
	default:
		return perm&0o001 != 0
	}
}
