package dbtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
)

const (
	// defaultImage is the newest Postgres that Weir is tested on; CI also takes the oldest.
	defaultImage = "postgres:18-bookworm"
	// label marks our containers, for whoever removes them.
	label = "weir.dbtest"
	// engineTimeout is how long a Docker engine may take to answer.
	engineTimeout = 20 * time.Second
	// containerTries covers the moment in which another run's reaper removes the container that we are about to reuse.
	containerTries = 3
)

// engine is nil where a Docker engine answers, else why not.
func engine(ctx context.Context) error {
	log.SetDefault(log.NewNoopLogger()) // it narrates every step; errors say enough
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	provider, err := testcontainers.ProviderDefault.GetProvider()
	if err != nil {
		return err
	}
	return errors.Join(provider.Health(ctx), provider.Close())
}

// startContainer starts the container or joins the one that another package started. The
// packages of one `go test ./...` find each other by its name, and the engine lets only one of them create it.
func (s *server) startContainer(ctx context.Context, image string) error {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	name := containerName(image, args)
	for try := 1; ; try++ {
		container, err := postgres.Run(ctx, image,
			postgres.WithUsername("weir"), postgres.WithPassword("weir"), postgres.WithDatabase("weir"),
			testcontainers.WithCmdArgs(args...),
			testcontainers.WithLabels(map[string]string{label: "true"}),
			testcontainers.WithReuseByName(name))
		if err == nil {
			s.detail = fmt.Sprintf(" (image %s, container %s)", image, name)
			s.dsn, err = container.ConnectionString(ctx, "sslmode=disable")
		}
		if err == nil || try == containerTries || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Second)
	}
}

// containerName is the same for all packages of a run, and another one for another image or other settings. Where the
// reaper runs it belongs to one run, since the reaper removes it with that run.
func containerName(image string, args []string) string {
	key := sha256.Sum256([]byte(image + "\x00" + strings.Join(args, "\x00")))
	name := "weir-dbtest-" + hex.EncodeToString(key[:4])
	if !testcontainers.ReadConfig().Config.RyukDisabled {
		name += "-" + testcontainers.SessionID()[:12]
	}
	return name
}
