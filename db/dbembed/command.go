package dbembed

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

// passedOn are the environment variables that the server gets. Ours hold secrets and settings for other
// Postgres servers (PGDATA, PGOPTIONS …), so nothing is passed on that is not needed to run a program at all.
var passedOn = []string{"PATH", "HOME", "TMPDIR", "TMP", "TEMP", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SystemRoot", "SystemDrive", "USERPROFILE"}

// command prepares one of the server's programs: under the cluster's account, in a process group of its own so that
// Ctrl-C in a terminal reaches only us, and ended with us where the operating system can do that.
func (c cluster) command(ctx context.Context, bin binary, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, bin.path(program), args...)
	cmd.Env = []string{"LC_ALL=C"} // messages in English: errors quote them
	for _, name := range passedOn {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.SysProcAttr = sysProcAttr(c.account)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// serverArgs are the settings as arguments: postgresql.conf stays as initdb wrote it, for the user to edit.
func (c cluster) serverArgs() []string {
	settings := map[string]string{
		"cluster_name":            "weir", // what ps shows
		"listen_addresses":        "",
		"logging_collector":       "off",
		"log_destination":         "stderr",
		"log_timezone":            "UTC",
		"port":                    strconv.Itoa(c.address.port),
		"timezone":                "UTC",
		"unix_socket_directories": c.address.socketDir,
	}
	if c.address.socketDir == "" {
		settings["listen_addresses"] = "127.0.0.1"
	} else {
		settings["unix_socket_permissions"] = "0700"
	}
	maps.Copy(settings, c.settings)

	args := []string{"-D", c.dir}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}
