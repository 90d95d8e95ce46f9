package dbembed

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeServer is a tar.xz with bin/postgres, bin/initdb and bin/pg_ctl, shell scripts of which the first prints
// "postgres (PostgreSQL) 18.3" and the last fails. The standard library does not write xz.
const fakeServer = `
/Td6WFoAAAFpIt42AgAhARwAAAAQz1jM4Cf/ALBdADEaShsFkZA3OlG9V3Gz1uEhGuzodTR9POemV5xBuI5pdqsf/+4UwN7nrRvp
QeMYrrzpHOVTf9fS2x5PQ1XKE9eXofrYA6ntrw8P2R9XLIpLmvr6ntXbsbzII5M4GQyv0g9xGC7c8i0AZvoBJ5VbKJvALZNqsIB7
2c2HK1v6h9myxjFjMS8m6OjJh8QjHltK0WHNE0ATAF2IfxKOUgAbD+65/y7ZjmucKvgMRBeuieAAAPd1/VkAAcgBgFAAAD/5a4I+
MA2LAgAAAAABWVo=`

// repository serves the archive as the library's repository does, and counts the archives that were fetched.
func repository(t *testing.T, checksum func(archive []byte) string) (url string, fetched *atomic.Int64) {
	t.Helper()
	content, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(fakeServer, "\n", ""))
	require.NoError(t, err)
	var archive bytes.Buffer
	jar := zip.NewWriter(&archive)
	file, err := jar.Create("postgres-linux-x86_64.txz")
	require.NoError(t, err)
	_, err = file.Write(content)
	require.NoError(t, err)
	require.NoError(t, jar.Close())

	fetched = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			_, _ = w.Write([]byte(checksum(archive.Bytes())))
			return
		}
		fetched.Add(1)
		_, _ = w.Write(archive.Bytes())
	}))
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections() // the library uses the default client
		server.Close()
	})
	return server.URL, fetched
}

func sha(archive []byte) string {
	sum := sha256.Sum256(archive)
	return hex.EncodeToString(sum[:])
}

func TestDownload(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the server in the archive is a shell script")
	}

	t.Run("happens once, and leaves only the server", func(t *testing.T) {
		t.Parallel()
		url, fetched := repository(t, sha)
		cache := filepath.Join(dataDir(t), "binaries")
		for range 2 {
			b, err := download(t.Context(), quiet(), 0, cache, url)
			require.NoError(t, err)
			require.Equal(t, binary{dir: filepath.Join(cache, "postgres-18.3.0", "bin"), major: 18, version: "18.3"}, b)
		}
		require.EqualValues(t, 1, fetched.Load())
		entries, err := os.ReadDir(cache)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})

	t.Run("refuses an archive with another checksum", func(t *testing.T) {
		t.Parallel()
		url, _ := repository(t, func([]byte) string { return strings.Repeat("0", 64) })
		_, err := download(t.Context(), quiet(), 18, dataDir(t), url)
		require.ErrorContains(t, err, "checksums do not match")
	})

	t.Run("says so when nothing answers", func(t *testing.T) {
		t.Parallel()
		url, _ := repository(t, sha)
		_, err := download(t.Context(), quiet(), 17, dataDir(t), url+"0/") // no such port
		require.Error(t, err)
	})
}
