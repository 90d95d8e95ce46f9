package main

import (
	"os"
	"testing"

	"weir/db/dbtest"
)

// TestMain runs the tests, or, where a test started this binary as the program, the program itself.
func TestMain(m *testing.M) {
	if os.Getenv("WEIR_TEST_PROGRAM") != "" {
		main()
		return
	}
	dbtest.Main(m)
}
