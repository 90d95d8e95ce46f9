package dbtest

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"weir/db"
)

func TestMain(m *testing.M) { Main(m) }

// TestServer is what CI looks at: it proves that testcontainers ran, on the version that was asked for.
func TestServer(t *testing.T) {
	t.Parallel()
	t.Log(current)
	var maxConnections, fsync string
	require.NoError(t, current.admin.QueryRow(t.Context(), `SELECT current_setting('max_connections'), current_setting('fsync')`).Scan(&maxConnections, &fsync))
	if current.kind != external {
		require.Equal(t, "300 off", maxConnections+" "+fsync)
	}
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		require.Equal(t, containers, current.kind)
	}
	if image := os.Getenv("WEIR_TEST_POSTGRES_IMAGE"); current.kind == containers && strings.HasPrefix(image, "postgres:") {
		major, _, _ := strings.Cut(strings.TrimPrefix(image, "postgres:"), "-")
		require.True(t, strings.HasPrefix(current.version, major+"."), "image %s, server %s", image, current.version)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	down := errors.New("nothing answers")
	for _, test := range []struct {
		name   string
		ci     bool
		engine error
		url    string
		want   kind
	}{
		{"an engine answers", false, nil, "", containers},
		{"an engine comes before a URL", false, nil, "postgres://x/y", containers},
		{"no engine, a URL", false, down, "postgres://x/y", external},
		{"nothing", false, down, "", embeddedOne},
		{"CI with an engine", true, nil, "", containers},
		{"CI without one fails, URL or not", true, down, "postgres://x/y", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := choose(test.ci, test.engine, test.url)
			require.Equal(t, test.want, got)
			require.Equal(t, test.want == "", err != nil)
		})
	}
}

func TestPool(t *testing.T) {
	t.Parallel()

	t.Run("is migrated, and each has a database of its own", func(t *testing.T) {
		t.Parallel()
		one, other := Pool(t), Pool(t)
		var tables int
		require.NoError(t, one.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename IN ('river_job', 'schema_migration')`, db.Schema).Scan(&tables))
		require.Equal(t, 2, tables)
		_, err := one.Exec(t.Context(), `CREATE TABLE mine ()`)
		require.NoError(t, err)
		_, err = other.Exec(t.Context(), `SELECT FROM mine`)
		require.ErrorContains(t, err, "does not exist")
	})

	t.Run("is dropped at the end, with open connections", func(t *testing.T) {
		t.Parallel()
		var name string
		t.Run("user", func(t *testing.T) {
			conn, err := pgx.Connect(t.Context(), DSN(t))
			require.NoError(t, err)
			t.Cleanup(func() {
				require.NoError(t, conn.QueryRow(context.Background(), `SELECT current_database()`).Scan(&name))
			})
		})
		var exists bool
		require.NoError(t, current.admin.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&exists))
		require.NotEmpty(t, name)
		require.False(t, exists)
	})
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	name := templatePrefix + current.nonce
	t.Cleanup(func() {
		_, err := current.admin.Exec(context.Background(), `ALTER DATABASE `+name+` IS_TEMPLATE false`)
		require.NoError(t, err)
		_, err = current.admin.Exec(context.Background(), `DROP DATABASE `+name)
		require.NoError(t, err)
	})
	// a half-made one, as a killed run leaves it
	_, err := current.admin.Exec(t.Context(), `CREATE DATABASE `+name)
	require.NoError(t, err)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if err := ensureTemplate(t.Context(), current.admin, current.dsn, name); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	require.Equal(t, "postgres://u:p@h:1/b?sslmode=disable", withDatabase("postgres://u:p@h:1/a?sslmode=disable", "b"))
	config, err := pgx.ParseConfig(withDatabase("host=h user=u dbname=a", "b"))
	require.NoError(t, err)
	require.Equal(t, "b", config.Database)
}
