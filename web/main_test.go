package web

import (
	"testing"

	"go.uber.org/goleak"

	"weir/db/dbtest"
)

// withBrowser ends the browser that the tests have shared, if any, before goroutines are looked for.
type withBrowser struct{ *testing.M }

func (w withBrowser) Run() int {
	defer stopBrowser()
	return w.M.Run()
}

func TestMain(m *testing.M) {
	// The session manager comes with a store in memory, which ours replaces; its cleanup goroutine, one per server, cannot be stopped.
	dbtest.Main(withBrowser{m}, goleak.IgnoreAnyFunction("github.com/alexedwards/scs/v2/memstore.(*MemStore).startCleanup"))
}
