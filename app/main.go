// Weir finds shipment updates, or any business event, owes each to every subscribed destination, and sends each at the pace that its
// receiver allows, until it is delivered, expired, or dead-lettered where somebody will look at it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	// The heap is small (tens of megabytes) and made of short lives: at Go's default the collector took a fifth of the CPU of a
	// saturated worker. GOGC, where it is set, still decides.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "weir:", err)
		os.Exit(1) // the process ends, and with it what stop would undo
	}
}
