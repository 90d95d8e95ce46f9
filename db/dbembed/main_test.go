package dbembed

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// helperEnv turns the test binary into a program that starts the server on the directory in it and then hangs until
// it is killed.
const helperEnv = "WEIR_TEST_DBEMBED_HELPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		server, err := Start(context.Background(), Options{DataDir: dir, Log: quiet()})
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println("ready", server.process.cmd.Process.Pid)
		select {} // until it is killed
	}
	goleak.VerifyTestMain(m)
}
