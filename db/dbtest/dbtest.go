// Package dbtest gives each test a real Postgres database of its own, migrated, in a fraction of a second.
//
// The server is testcontainers' where a Docker engine answers, else the one in TEST_DATABASE_URL, else the embedded one. With
// CI=true it is testcontainers or a failure. WEIR_TEST_POSTGRES_IMAGE chooses the image.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { dbtest.Main(m) }
//
// The container is shared by all packages and, where testcontainers' reaper (Ryuk) runs, removed by it shortly after
// the last one ends. Without the reaper (TESTCONTAINERS_RYUK_DISABLED) it stays for the next run, until:
//
//	docker rm -fv $(docker ps -aq --filter label=weir.dbtest)
//
// Only _test.go files may import this package.
package dbtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"weir/db"
)

// startTimeout is long enough to pull an image or to download the embedded server.
const startTimeout = 5 * time.Minute

// cleanupTimeout is for what a test leaves to do at its end.
const cleanupTimeout = 30 * time.Second

// atOnce is how many of a package's tests run at once at the least: most of them wait most of the time, for a receiver, a browser or a second
// to pass. With four instead of two, on two cores, the longest package took half the time.
const atOnce = 4

// current is the server of this process, set by Main before any test runs.
var current *server

// created counts this process's databases.
var created atomic.Int64

// Main runs the tests of a package on a server, prints which one it is, and fails the package if a goroutine is left
// at the end. It does not return. Options add to what goleak lets pass.
func Main(m interface{ Run() int }, options ...goleak.Option) {
	os.Exit(run(m, options))
}

func run(m interface{ Run() int }, options []goleak.Option) int {
	flag.Parse()
	if err := runTogether(); err != nil {
		fmt.Fprintln(os.Stderr, "dbtest:", err)
		return 1
	}
	if list := flag.Lookup("test.list"); list != nil && list.Value.String() != "" {
		return m.Run() // only names are asked for
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s, err := startServer(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "dbtest:", err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "dbtest: tests run on", s)
	current = s

	// What runs now is the server's: its reaper's connection, the Docker client's, the embedded server's process.
	options = append(options, goleak.IgnoreCurrent())
	code := m.Run()
	if err := s.close(); err != nil {
		fmt.Fprintln(os.Stderr, "dbtest: close the server:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(options...); err != nil {
			fmt.Fprintln(os.Stderr, "dbtest: goroutines are left after the tests:", err)
			code = 1
		}
	}
	return code
}

// runTogether raises -parallel to atOnce where nobody has set it.
func runTogether() error {
	given := runtime.GOMAXPROCS(0) >= atOnce
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(atOnce))
}

// DSN returns the connection string of a new database with all migrations applied. It is dropped when the test ends, with the
// connections that are still open. It fails the test where Main did not run or the database cannot be made.
//
// Connections should come from db.Open, which sets the search path.
func DSN(tb testing.TB) string {
	tb.Helper()
	if current == nil {
		tb.Fatal("dbtest: the package has no TestMain that calls dbtest.Main")
	}
	// the time is for sweep, the pid for people, the nonce for processes that share a server but not a pid namespace
	name := fmt.Sprintf("%s%d_%d_%s_%d", testPrefix, time.Now().Unix(), os.Getpid(), current.nonce, created.Add(1))
	identifier := pgx.Identifier{name}.Sanitize()
	if _, err := current.admin.Exec(tb.Context(), "CREATE DATABASE "+identifier+" TEMPLATE "+pgx.Identifier{current.template}.Sanitize()); err != nil {
		tb.Fatalf("dbtest: create a database: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout) // tb.Context() has ended
		defer cancel()
		if _, err := current.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+identifier+" WITH (FORCE)"); err != nil {
			tb.Errorf("dbtest: drop the database: %v", err)
		}
	})
	return withDatabase(current.dsn, name)
}

// Pool returns a pool on a new database, as DSN does, and closes it when the test ends. A connection that the
// test never gives back fails it.
func Pool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool, err := db.Open(tb.Context(), DSN(tb), db.Options{})
	if err != nil {
		tb.Fatalf("dbtest: %v", err)
	}
	tb.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			pool.Close() // waits for every connection
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(cleanupTimeout):
			tb.Errorf("dbtest: %d connections were never given back to the pool", pool.Stat().AcquiredConns())
		}
	})
	return pool
}
