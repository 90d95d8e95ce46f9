package db_test

import (
	"testing"

	"weir/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }
