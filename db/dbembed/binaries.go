package dbembed

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// minMajor is the oldest Postgres that Weir runs on.
const minMajor = 15

// installedAt are the places where packages put server binaries, beside PATH. Debian and RedHat keep them out of PATH.
var installedAt = []string{
	"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                   // the PostgreSQL project's RPM packages
	"/usr/libexec/postgresql*",           // Alpine
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	`C:\Program Files\PostgreSQL\*\bin`,
}

// binary is one installation of the server.
type binary struct {
	dir     string // holds postgres and initdb
	major   int    // 18
	version string // "18.3"
}

func (b binary) path(program string) string {
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	return filepath.Join(b.dir, program)
}

// findOrDownload returns the binaries to use. With a major version (that of an existing cluster) only that version
// fits; with 0 the newest installed one is taken. Where nothing fits, the server is downloaded into cacheDir, once.
//
// Errors: what was looked for, what was found instead, and why the download failed.
func findOrDownload(ctx context.Context, log *slog.Logger, major int, cacheDir string) (binary, error) {
	found := installed(ctx)
	if b, ok := choose(found, major); ok {
		return b, nil
	}
	b, err := download(ctx, log, major, cacheDir, "")
	if err != nil {
		wanted := fmt.Sprintf("Postgres %d or later", minMajor)
		if major != 0 {
			wanted = fmt.Sprintf("Postgres %d, which made the data directory,", major)
		}
		return binary{}, fmt.Errorf("%s is not installed (found: %s) and could not be downloaded: %w; "+
			"install its server package, or set DATABASE_URL to a Postgres of your own", wanted, describe(found), err)
	}
	return b, nil
}

// choose takes the first that fits; found is sorted newest first.
func choose(found []binary, major int) (binary, bool) {
	for _, b := range found {
		if b.major == major || (major == 0 && b.major >= minMajor) {
			return b, true
		}
	}
	return binary{}, false
}

// installed lists the servers on this machine, newest first. What cannot be run is left out: a broken
// installation must not hide a working one.
func installed(ctx context.Context) []binary {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range installedAt {
		matches, _ := filepath.Glob(pattern) // the patterns are constants: no error is possible
		dirs = append(dirs, matches...)
	}
	var found []binary
	for _, dir := range dirs {
		if b, err := inspect(ctx, dir); err == nil {
			found = append(found, b)
		}
	}
	// stable, so that PATH wins among equals
	slices.SortStableFunc(found, func(a, b binary) int { return b.major - a.major })
	return found
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`)

// inspect asks the server in dir for its version. It fails where initdb is missing: distributions that split the
// packages have directories with clients alone.
func inspect(ctx context.Context, dir string) (binary, error) {
	b := binary{dir: dir}
	if _, err := os.Stat(b.path("initdb")); err != nil {
		return binary{}, err
	}
	out, err := exec.CommandContext(ctx, b.path("postgres"), "--version").Output()
	if err != nil {
		return binary{}, fmt.Errorf("%s --version: %w", b.path("postgres"), err)
	}
	match := versionPattern.FindStringSubmatch(string(out))
	if match == nil {
		return binary{}, fmt.Errorf("%s printed %q instead of a version", b.path("postgres"), out)
	}
	b.version = match[1]
	b.major, err = strconv.Atoi(match[2])
	return b, err
}

func describe(found []binary) string {
	if len(found) == 0 {
		return "none"
	}
	names := make([]string, len(found))
	for i, b := range found {
		names[i] = b.version + " in " + b.dir
	}
	return strings.Join(names, ", ")
}
