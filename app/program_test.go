package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"weir/db"
	"weir/web"
)

// testKey is every test program's WEIR_SECRET_KEY.
var testKey = db.GenerateKey()

// program is Weir as a process of its own, on a database of the test's.
type program struct {
	t     *testing.T
	dsn   string
	url   string
	cmd   *exec.Cmd
	token string
}

func environment(dsn string) []string {
	return append(os.Environ(), "WEIR_TEST_PROGRAM=1", "DATABASE_URL="+dsn, "WEIR_SECRET_KEY="+testKey, "WEIR_ADDR=127.0.0.1:0",
		"WEIR_ALLOW_NETWORKS=127.0.0.0/8", "WEIR_DISCOVERY_INTERVAL=1s", "WEIR_LOG_LEVEL=warn")
}

// serveProgram starts "weir serve" and returns once it says where it is.
func serveProgram(t *testing.T, dsn string) *program {
	t.Helper()
	p := &program{t: t, dsn: dsn}
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *program) start() {
	p.t.Helper()
	p.cmd = exec.Command(os.Args[0], "serve") // killed by the test's cleanup
	p.cmd.Env = environment(p.dsn)
	p.cmd.Stderr = p.t.Output()
	out, err := p.cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, p.cmd.Start())
	said := make(chan string, 1)
	go func() {
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			if _, url, ok := strings.Cut(scanner.Text(), "Weir is at "); ok {
				said <- url
			}
		}
	}()
	select {
	case p.url = <-said:
	case <-time.After(60 * time.Second):
		require.Fail(p.t, "serve did not start")
	}
}

// kill is what the kernel does when memory runs out.
func (p *program) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// stop is a deploy.
func (p *program) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	return p.cmd.Wait()
}

// run executes another command of the program on the same database.
func (p *program) run(args ...string) (string, error) { return p.runWith(nil, args...) }

func (p *program) runWith(stdin io.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env, cmd.Stdin = environment(p.dsn), stdin
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *program) pool() *pgxpool.Pool {
	p.t.Helper()
	pool, err := db.Open(p.t.Context(), p.dsn, db.Options{MaxConns: 4})
	require.NoError(p.t, err)
	p.t.Cleanup(pool.Close)
	return pool
}

// api calls the program's API with an administrator's token and returns status and body.
func (p *program) api(method, path, contentType string, body []byte) (int, []byte) {
	p.t.Helper()
	if p.token == "" {
		token, err := web.CreateToken(p.t.Context(), p.pool(), "test", []string{"admin"})
		require.NoError(p.t, err)
		p.token = token
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+"/api/v1"+path, bytes.NewReader(body))
	require.NoError(p.t, err)
	req.Header.Set("Authorization", "Bearer "+p.token)
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return resp.StatusCode, answer
}

// subscribe makes a destination for everything and returns its id and secret.
func (p *program) subscribe(url string, more map[string]any) (id, secret string) {
	p.t.Helper()
	input := map[string]any{"name": "Receiver " + url, "url": url, "subscriptions": []any{map[string]any{"types": []string{"*"}}}}
	for key, value := range more {
		input[key] = value
	}
	body, err := json.Marshal(input)
	require.NoError(p.t, err)
	status, answer := p.api(http.MethodPost, "/destinations", "application/json", body)
	require.Equal(p.t, http.StatusCreated, status, string(answer))
	var created struct{ ID, Secret string }
	require.NoError(p.t, json.Unmarshal(answer, &created))
	return created.ID, created.Secret
}

// subscriber is the reference receiver, served over HTTP.
func subscriber(t *testing.T, dsn string) (*receiver, string) {
	t.Helper()
	rcv, err := newReceiver(receiverOptions{DatabaseURL: dsn})
	require.NoError(t, err)
	server := httptest.NewServer(rcv.Handler())
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		rcv.Close()
	})
	return rcv, server.URL
}
