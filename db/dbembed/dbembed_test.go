package dbembed

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// dataDir is not t.TempDir: that is below a directory which only its owner enters, and as root the server runs as
// another account.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-dbembed-") //nolint:usetesting // see above
	require.NoError(t, err)
	// A server that was killed may have children that still write for a moment.
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return os.RemoveAll(dir) == nil }, 10*time.Second, 50*time.Millisecond)
	})
	return dir
}

// unsafeButFast is for tests that are not about keeping data.
var unsafeButFast = map[string]string{"fsync": "off"}

func start(t *testing.T, opts Options) *Server {
	t.Helper()
	opts.Log = quiet()
	server, err := Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	return server
}

func query[T any](t *testing.T, dsn, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), sql)
	require.NoError(t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return value
}

func TestStart(t *testing.T) {
	t.Parallel()

	t.Run("keeps its data over a restart, and applies settings", func(t *testing.T) {
		t.Parallel()
		dir := dataDir(t)
		first := start(t, Options{DataDir: dir})
		require.Equal(t, "weir", query[string](t, first.DSN(), `SELECT current_database()`))
		require.Equal(t, "UTF8 C checksums=on fsync=on", query[string](t, first.DSN(),
			`SELECT concat_ws(' ', pg_encoding_to_char(encoding), datcollate, 'checksums=' || current_setting('data_checksums'), 'fsync=' || current_setting('fsync'))
			 FROM pg_database WHERE datname = current_database()`))
		execute(t, first.DSN(), `CREATE TABLE kept AS SELECT 42 AS answer`)
		require.NoError(t, first.Stop())
		require.NoError(t, first.Stop(), "a second Stop does nothing")
		<-first.Done()

		second := start(t, Options{DataDir: dir, Settings: map[string]string{"fsync": "off", "max_connections": "33"}})
		require.Equal(t, 42, query[int](t, second.DSN(), `SELECT answer FROM kept`))
		require.Equal(t, "off 33", query[string](t, second.DSN(), `SELECT current_setting('fsync') || ' ' || current_setting('max_connections')`))
	})

	t.Run("refuses a directory that another process uses, and says where its server is", func(t *testing.T) {
		t.Parallel()
		dir := dataDir(t)
		server := start(t, Options{DataDir: dir, Settings: unsafeButFast})
		_, err := Start(t.Context(), Options{DataDir: dir, Log: quiet()})
		var inUse *InUseError
		require.ErrorAs(t, err, &inUse)
		require.Equal(t, InUseError{DataDir: dir, PID: os.Getpid(), DSN: server.DSN()}, *inUse)
		require.Contains(t, err.Error(), "another weir runs on "+dir)
		require.Equal(t, 1, query[int](t, inUse.DSN, `SELECT 1`))
	})

	t.Run("quotes the server's last words when it does not start, and lets go of the directory", func(t *testing.T) {
		t.Parallel()
		dir := dataDir(t)
		_, err := Start(t.Context(), Options{DataDir: dir, Log: quiet(), Settings: map[string]string{"max_connections": "many", "fsync": "off"}})
		require.ErrorContains(t, err, `invalid value for parameter "max_connections": "many"`)
		start(t, Options{DataDir: dir, Settings: unsafeButFast})
	})

	t.Run("puts the socket elsewhere when the path is too long", func(t *testing.T) {
		t.Parallel()
		parent := dataDir(t)
		require.NoError(t, os.Chmod(parent, 0o755))
		dir := filepath.Join(parent, strings.Repeat("long", 25))
		server := start(t, Options{DataDir: dir, Settings: unsafeButFast})
		require.Equal(t, 1, query[int](t, server.DSN(), `SELECT 1`))
		socketDir := server.cluster.address.socketDir
		require.DirExists(t, socketDir)
		require.NoError(t, server.Stop())
		require.NoDirExists(t, socketDir)
	})

	t.Run("says which version is missing", func(t *testing.T) {
		t.Parallel()
		dir := dataDir(t)
		require.NoError(t, os.Mkdir(filepath.Join(dir, "postgres"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres", "PG_VERSION"), []byte("9\n"), 0o600))
		_, err := Start(t.Context(), Options{DataDir: dir, Log: quiet()})
		require.ErrorContains(t, err, "Postgres 9, which made the data directory, is not installed")
		require.ErrorContains(t, err, "there is no download of version 9")
	})

	t.Run("says so when the server ends by itself", func(t *testing.T) {
		t.Parallel()
		server, err := Start(t.Context(), Options{DataDir: dataDir(t), Log: quiet(), Settings: unsafeButFast})
		require.NoError(t, err)
		server.process.immediateShutdown()
		select {
		case <-server.Done():
		case <-time.After(immediateTimeout):
			t.Fatal("the server is still there")
		}
		require.ErrorContains(t, server.Stop(), "had already ended")
	})
}

func TestChoose(t *testing.T) {
	t.Parallel()
	found := []binary{{major: 17}, {major: 15}, {major: 14}}
	for _, test := range []struct{ major, want int }{{0, 17}, {15, 15}, {14, 14}, {16, 0}} {
		got, ok := choose(found, test.major)
		require.Equal(t, test.want, got.major)
		require.Equal(t, test.want != 0, ok)
	}
	_, ok := choose([]binary{{major: 14}}, 0)
	require.False(t, ok, "a new cluster is not made with a version that is too old")
}

func execute(t *testing.T, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}
