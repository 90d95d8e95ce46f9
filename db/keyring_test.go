package db

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustKeyring(t *testing.T, s string) *Keyring {
	t.Helper()

	ring, err := ParseKeyring(s)
	require.NoError(t, err)

	return ring
}

func TestKeyringOpensOnlyTheRowItSealed(t *testing.T) {
	t.Parallel()

	ring := mustKeyring(t, GenerateKey())
	sealed := ring.Seal([]byte("whsec_x"), "destination_secret:1")
	require.NotContains(t, string(sealed), "whsec_x")
	require.NotEqual(t, sealed, ring.Seal([]byte("whsec_x"), "destination_secret:1"), "each has its own nonce")

	plain, err := ring.Open(sealed, "destination_secret:1")
	require.NoError(t, err)
	require.Equal(t, "whsec_x", string(plain))

	for _, aad := range []string{"destination_secret:2", "destination_secret:", "", "destination_secret:1 "} {
		_, err = ring.Open(sealed, aad)
		require.ErrorIs(t, err, ErrCannotOpen, aad)
		require.NotContains(t, err.Error(), "whsec_x")
	}
	for i := range sealed { // every single byte counts
		damaged := bytes.Clone(sealed)
		damaged[i] ^= 1
		_, err = ring.Open(damaged, "destination_secret:1")
		require.ErrorIs(t, err, ErrCannotOpen, i)
	}
	for n := range sealed {
		_, err = ring.Open(sealed[:n], "destination_secret:1")
		require.ErrorIs(t, err, ErrCannotOpen, n)
	}

	empty, err := ring.Open(ring.Seal(nil, "row"), "row")
	require.NoError(t, err)
	require.Empty(t, empty)
}

func TestKeyringRotation(t *testing.T) {
	t.Parallel()

	first, second := GenerateKey(), GenerateKey()
	before := mustKeyring(t, "2025:"+first)
	sealed := before.Seal([]byte("secret"), "row")

	during := mustKeyring(t, "2026:"+second+", 2025:"+first)
	require.Equal(t, []string{"2026", "2025"}, during.IDs())
	plain, err := during.Open(sealed, "row")
	require.NoError(t, err)
	require.False(t, during.SealedWithFirst(sealed))
	again := during.Seal(plain, "row")
	require.True(t, during.SealedWithFirst(again))

	after := mustKeyring(t, "2026:"+second)
	plain, err = after.Open(again, "row")
	require.NoError(t, err)
	require.Equal(t, "secret", string(plain))
	_, err = after.Open(sealed, "row")
	require.ErrorContains(t, err, `sealed with key "2025"`)
	_, err = before.Open(again, "row")
	require.ErrorIs(t, err, ErrCannotOpen)

	// The id is bound, too: the same key under another name does not open.
	_, err = mustKeyring(t, "x:"+first).Open(bytes.Replace(sealed, []byte("\x042025"), []byte("\x01x"), 1), "row")
	require.ErrorIs(t, err, ErrCannotOpen)
}

func TestParseKeyring(t *testing.T) {
	t.Parallel()

	key := GenerateKey()
	bare := mustKeyring(t, key+"\n")
	require.Regexp(t, "^[0-9a-f]{8}$", bare.IDs()[0])
	require.Equal(t, bare.IDs(), mustKeyring(t, strings.TrimRight(key, "=")).IDs())
	require.NotEqual(t, bare.IDs(), mustKeyring(t, GenerateKey()).IDs())

	short := base64.StdEncoding.EncodeToString(make([]byte, 16))
	for s, wantErr := range map[string]string{
		"": "is empty", " \n": "is empty",
		short:                               "key 1: a key has 32 bytes, this has 16",
		"hunter2-hunter2-hunter2":           "key 1: not standard base64",
		key + ",":                           "key 2: a key has 32 bytes, this has 0",
		key + "," + key:                     "key 2: its id is used twice",
		"a:" + key + ",a:" + GenerateKey():  "key 2: its id is used twice",
		":" + key:                           "key 1: its id must",
		"A b:" + key:                        "key 1: its id must",
		strings.Repeat("a", 33) + ":" + key: "key 1: its id must",
	} {
		_, err := ParseKeyring(s)
		require.ErrorContains(t, err, wantErr)
		require.ErrorContains(t, err, "WEIR_SECRET_KEY")
		require.NotContains(t, err.Error(), key[:8])
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestKeyringCanary(t *testing.T) {
	t.Parallel()

	first, second := GenerateKey(), GenerateKey()
	canary := mustKeyring(t, "old:"+first).NewCanary()

	require.NoError(t, mustKeyring(t, "old:"+first).CheckCanary(canary))
	require.NoError(t, mustKeyring(t, "new:"+second+",old:"+first).CheckCanary(canary))

	for ring, want := range map[string]string{
		"new:" + second: `sealed with key "old", but only key new is set`,
		"old:" + second: `a key with the id "old", but it is not the key`,
	} {
		err := mustKeyring(t, ring).CheckCanary(canary)
		var mismatch *KeyMismatchError
		require.ErrorAs(t, err, &mismatch)
		require.Equal(t, "old", mismatch.DatabaseKeyID)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "WEIR_SECRET_KEY")
	}
	require.ErrorContains(t, mustKeyring(t, first).CheckCanary(nil), "damaged")
	require.ErrorContains(t, mustKeyring(t, first).CheckCanary([]byte("\x01\xffx")), "damaged")
}

func TestKeyringNeverPrintsAKey(t *testing.T) {
	t.Parallel()

	ring := mustKeyring(t, "a:"+GenerateKey())
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "ring", ring)
	raw, err := json.Marshal(ring)
	require.NoError(t, err)
	require.Equal(t, "{}", string(raw))
	require.Contains(t, log.String(), `"ring":"db.Keyring(a)"`)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		require.Equal(t, "db.Keyring(a)", fmt.Sprintf(verb, ring))
	}
}

func TestLoadOrCreateKey(t *testing.T) {
	t.Parallel()

	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(dir, "secret.key")

	keys := make([]string, 8)
	var done sync.WaitGroup
	for i := range keys { // several processes start at once
		done.Go(func() {
			key, err := LoadOrCreateKey(dir)
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	done.Wait()
	for _, key := range keys {
		require.Equal(t, keys[0], key)
	}
	mustKeyring(t, keys[0])

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")

	for mode, ok := range map[os.FileMode]bool{0o400: true, 0o600: true, 0o440: true, 0o640: true, 0o644: false, 0o604: false, 0o660: false, 0o602: false} {
		require.NoError(t, os.Chmod(path, mode))
		key, err := LoadOrCreateKey(dir)
		if ok {
			require.NoError(t, err, "%o", mode)
			require.Equal(t, keys[0], key)
			continue
		}
		require.ErrorContains(t, err, "chmod 600")
		require.Empty(t, key)
	}
}

func TestLoadOrCreateKeyNeverReplacesAFile(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	path := filepath.Join(dir, "secret.key")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := LoadOrCreateKey(dir)
	require.ErrorContains(t, err, "no valid key")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, raw)

	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	_, err = LoadOrCreateKey(dir)
	require.ErrorContains(t, err, "not a file")
}
