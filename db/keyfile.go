package db

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// keyFile is where a key lives that nobody has set, inside the data directory.
const keyFile = "secret.key"

// LoadOrCreateKey returns the content of <dataDir>/secret.key, as [ParseKeyring] takes it, and creates directory and
// file with a fresh key where there is none. The file is for its owner: mode 0600. A file that others can read, or
// that group or others can write, is refused, as is one without a valid key: a new key in its place would make all
// stored secrets unreadable.
//
// Several processes may start at once: all get the same key. It returns only after the key is on the disk.
func LoadOrCreateKey(dataDir string) (string, error) {
	path := filepath.Join(dataDir, keyFile)
	key, err := loadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}

	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return "", fmt.Errorf("create the data directory: %w", err)
	}
	if err := createKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("create %s: %w", path, err)
	}

	return loadKey(path)
}

func loadKey(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read the secret key: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", path)
	}
	const forbidden = 0o027 // others: anything; group: write. A group may read: mounted secrets come that way.
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&forbidden != 0 {
		return "", fmt.Errorf("%s has mode %04o, so others can read or change the key; run: chmod 600 %s", path, mode, path)
	}

	raw, err := os.ReadFile(path) //nolint:gosec // the path is the operator's
	if err != nil {
		return "", fmt.Errorf("read the secret key: %w", err)
	}
	key := strings.TrimSpace(string(raw))
	if _, err := ParseKeyring(key); err != nil {
		return "", fmt.Errorf("%s holds no valid key, restore it from a backup: %w", path, err)
	}

	return key, nil
}

// createKey writes a fresh key to path, all or nothing, and fails with fs.ErrExist when there is one already: a link,
// unlike a rename, never replaces a file.
func createKey(path string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+keyFile+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())

	_, err = temp.WriteString(GenerateKey() + "\n")
	if err == nil {
		err = temp.Sync()
	}
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}

	if err := os.Link(temp.Name(), path); err != nil {
		return err
	}

	return syncDir(filepath.Dir(path))
}

// syncDir makes a new directory entry durable. Windows cannot do it and needs no help.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path) //nolint:gosec // the path is the operator's
	if err != nil {
		return err
	}
	defer dir.Close()

	return dir.Sync()
}
