package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

// newCommand is the program's table of contents: one file per command.
func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Delivers events by webhook, at the pace that each receiver allows, and loses none",
		Long: `Weir delivers events by webhook, at the pace that each receiver allows, and loses none.

Start with "weir demo" to see it at work, or with "weir serve" to use it: neither needs a setting.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newServeCommand(),
		newDemoCommand(),
		newMigrateCommand(),
		newPublishCommand(),
		newReplayCommand(),
		newReceiverCommand(),
		newBenchCommand(),
		newTokenCommand(), newInviteCommand(),
	)
	return root
}

// version is what the build says of itself: a tag for a released build, "dev" otherwise.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
