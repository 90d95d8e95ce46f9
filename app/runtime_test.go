package main

import (
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLogKeepsOutWhatLibrariesPrint(t *testing.T) { // not parallel: it sets the defaults of log and slog
	logger, output, flags := slog.Default(), log.Writer(), log.Flags()
	t.Cleanup(func() {
		slog.SetDefault(logger)
		log.SetOutput(output)
		log.SetFlags(flags)
	})
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	_, err = newLog(config{LogLevel: "debug", LogFormat: "auto"}, file)
	require.NoError(t, err)

	log.Printf("Unsolicited response received on idle HTTP channel starting with %q", "a payload")
	slog.Info("ours")

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), `"msg":"ours"`)
	require.NotContains(t, string(text), "payload")
}
