package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbtest"
)

// startReceiverCommand runs `weir receiver` with args and returns its first line; stop ends it and returns its error.
func startReceiverCommand(t *testing.T, args ...string) (line string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	cmd := newReceiverCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetOut(writer)
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		writer.CloseWithError(io.EOF)
		ended <- err
	}()
	text := make([]byte, 4096)
	n, _ := reader.Read(text)
	return string(text[:n]), func() error { cancel(); return <-ended }
}

func TestReceiverCommand(t *testing.T) { // not parallel: it sets the environment
	t.Setenv("DATABASE_URL", "")
	t.Setenv("RECEIVER_DATABASE_URL", "")
	t.Setenv("RECEIVER_SECRET", "")

	t.Run("says where it listens and stops when told, whatever hangs", func(t *testing.T) {
		line, stop := startReceiverCommand(t, "--addr", "127.0.0.1:0", "--secret", "/acme="+receiverTestSecret, "--temper", "/acme=hang")
		require.Regexp(t, `^receiver listening on http://127\.0\.0\.1:\d+ \(inbox: memory, gone when it stops; signatures: verified on /acme, NOT VERIFIED elsewhere\)\n$`, line)
		require.NotContains(t, line, receiverTestSecret)
		b := &receiverBundle{t: t, url: strings.Fields(line)[3], client: &http.Client{}}
		defer b.client.CloseIdleConnections()
		hanging := make(chan error, 1)
		go func() {
			_, err := b.post(t.Context(), "/acme", receiverTestSecret, "evt_1", "{}", nil)
			hanging <- err
		}()
		require.Eventually(t, func() bool {
			requests := b.requests("/acme")
			return len(requests) == 1 && requests[0].Outcome == outcomeOpen
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, stop())
		require.Error(t, <-hanging)
		_, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})

	t.Run("takes its Postgres and secret from the environment, and shows neither", func(t *testing.T) {
		dsn := dbtest.DSN(t)
		t.Setenv("RECEIVER_DATABASE_URL", dsn)
		t.Setenv("RECEIVER_SECRET", receiverTestSecret)
		line, stop := startReceiverCommand(t, "--addr", ":0")
		require.Regexp(t, `^receiver listening on http://localhost:\d+ \(inbox: Postgres, schema receiver; signatures: verified\)\n$`, line)
		require.NoError(t, stop())
		require.NotContains(t, newReceiverCommand().UsageString(), receiverTestSecret)
		require.NotContains(t, newReceiverCommand().UsageString(), dsn)
	})

	for args, want := range map[string]string{
		"--secret hush":                    "must begin with whsec_",
		"--secret /acme=whsec_hush":        "--secret /acme: secret: is 3 bytes long",
		"--temper status:500":              "must be /path=field:value",
		"--temper /acme=status:5":          "--temper /acme: temper: status: must be from 200 to 599",
		"--log-requests":                   "needs a database-url",
		"--addr nowhere":                   "listen: ",
		"--database-url postgres://:hush@": "inbox",
		"extra":                            "unknown command",
	} {
		line, stop := startReceiverCommand(t, strings.Fields(args)...)
		require.Empty(t, line, args)
		err := stop()
		require.ErrorContains(t, err, want, args)
		require.NotContains(t, err.Error(), "hush", args)
	}
}
