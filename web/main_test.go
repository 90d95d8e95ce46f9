package web

import (
	"testing"

	"go.uber.org/goleak"

	"weir/db/dbtest"
)

func TestMain(m *testing.M) {
	// The session manager comes with a store in memory, which ours replaces; its cleanup goroutine, one per server, cannot be stopped.
	dbtest.Main(m, goleak.IgnoreAnyFunction("github.com/alexedwards/scs/v2/memstore.(*MemStore).startCleanup"))
}
