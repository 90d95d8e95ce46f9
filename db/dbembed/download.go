package dbembed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// downloadable are the versions that the library has, by major version. defaultMajor is what a new cluster gets.
var downloadable = map[int]embeddedpostgres.PostgresVersion{
	15: embeddedpostgres.V15,
	16: embeddedpostgres.V16,
	17: embeddedpostgres.V17,
	18: embeddedpostgres.V18,
}

const defaultMajor = 18

// download fetches the server's binaries into cacheDir unless they are there already. repository replaces the
// library's own where it is not empty, which only tests do. A cancelled context ends the wait, not the transfer: the library
// takes none.
//
// Of the library we use the download, its checksum and the extraction, not its starter, which cannot run as root and
// leaves the server behind when the parent is killed.
func download(ctx context.Context, log *slog.Logger, major int, cacheDir, repository string) (binary, error) {
	if major == 0 {
		major = defaultMajor
	}
	version, ok := downloadable[major]
	if !ok {
		return binary{}, fmt.Errorf("there is no download of version %d", major)
	}
	target := filepath.Join(cacheDir, "postgres-"+string(version))
	if b, err := inspect(ctx, filepath.Join(target, "bin")); err == nil {
		return b, nil
	}

	log.InfoContext(ctx, "no installed Postgres found: downloading it once", "version", string(version), "to", target)
	if err := os.MkdirAll(cacheDir, 0o755); err != nil { //nolint:gosec // the server's account has to read it
		return binary{}, err
	}
	failed := make(chan error, 1)
	go func() { failed <- fetch(version, major, cacheDir, target, repository) }()
	select {
	case err := <-failed:
		if err != nil {
			return binary{}, err
		}
	case <-ctx.Done():
		return binary{}, fmt.Errorf("the download was interrupted: %w", ctx.Err())
	}
	return inspect(ctx, filepath.Join(target, "bin"))
}

// fetch makes the library download and extract, and then fail: it is handed a data directory that holds a version
// and nothing else, which it takes for an existing cluster and which no server can start from. The files are moved into place
// last, so that two processes may do this at once and an interrupted one leaves no half.
func fetch(version embeddedpostgres.PostgresVersion, major int, cacheDir, target, repository string) error {
	work, err := os.MkdirTemp(cacheDir, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	decoy := filepath.Join(work, "decoy")
	if err := os.Mkdir(decoy, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(decoy, "PG_VERSION"), []byte(strconv.Itoa(major)), 0o600); err != nil {
		return err
	}

	extracted := filepath.Join(work, "server")
	config := embeddedpostgres.DefaultConfig().Version(version).Port(0).Logger(io.Discard).
		CachePath(work).RuntimePath(filepath.Join(work, "runtime")).BinariesPath(extracted).DataPath(decoy)
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	library := embeddedpostgres.NewDatabase(config)
	switch err := library.Start(); {
	case err == nil:
		return errors.Join(errors.New("the decoy cluster started"), library.Stop())
	case !strings.HasPrefix(err.Error(), "could not start postgres using"):
		return err // it did not get as far as the start, so the files are not complete
	}

	if err := readableByAll(extracted); err != nil {
		return err
	}
	if err := os.Rename(extracted, target); err != nil && !isDir(target) {
		return err
	}
	return nil
}

// readableByAll undoes a strict umask: the server may run as another account than ours.
func readableByAll(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode) //nolint:gosec // nobody else writes into the directory that we just extracted
	})
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
