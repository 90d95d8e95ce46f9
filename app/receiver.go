package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// receiver serves any number of destinations, one per path. Its methods may be called at any time, while it serves.
type receiver struct {
	inbox     receiverInbox
	log       *requestLog
	table     *requestTable // nil unless every request is kept in Postgres
	logger    *slog.Logger
	exit      func(code int)
	noControl bool
	started   time.Time // arrival times count from here on the monotonic clock, so that no clock change bends them

	release  func()        // ends every wait of every temper: the receiver stops
	released chan struct{} // closed by release

	mu        sync.RWMutex
	paths     map[string]*receiverPath
	verifiers []*standardwebhooks.Webhook // for paths without a secret of their own
}

func newReceiver(options receiverOptions) (*receiver, error) {
	r := &receiver{
		log:       newRequestLog(),
		logger:    options.Logger,
		exit:      options.Exit,
		noControl: options.NoControl,
		started:   time.Now(),
		released:  make(chan struct{}),
		paths:     map[string]*receiverPath{},
	}
	r.release = sync.OnceFunc(func() { close(r.released) })
	if r.logger == nil {
		r.logger = slog.Default()
	}
	if r.exit == nil {
		r.exit = os.Exit
	}
	if options.DatabaseURL == "" {
		if options.LogRequests {
			return nil, errors.New("log-requests: needs a database-url")
		}
		r.inbox = newMemoryInbox(memoryInboxLimit)
		return r, nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), inboxTimeout)
	defer cancel()
	inbox, err := newPostgresInbox(ctx, options.DatabaseURL)
	if err != nil {
		return nil, err
	}
	r.inbox = inbox
	if options.LogRequests {
		r.table = newRequestTable(inbox.pool, r.logger)
	}
	return r, nil
}

// Close ends what waits, writes what is still to be written to the request table and closes the inbox.
func (r *receiver) Close() {
	r.release()
	if r.table != nil {
		r.table.Close()
	}
	r.inbox.Close()
}

// Serve answers on listener until ctx is cancelled; then it lets go of the requests that a temper holds, finishes those at
// work and returns nil. Close is still the caller's.
func (r *receiver) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           r.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(r.logger.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	r.release()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), inboxTimeout)
	defer cancel()
	err := server.Shutdown(grace)
	if err != nil {
		err = errors.Join(fmt.Errorf("shut down: %w", err), server.Close())
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve: %w", ended))
	}
	return err
}

// SetSecret makes path verify with secret, or with any of several separated by white space: during a rotation both hold.
// The empty path stands for all those that have no secret of their own.
func (r *receiver) SetSecret(path, secret string) error {
	verifiers, err := newVerifiers(secret)
	if err != nil {
		return err
	}
	if path == "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.verifiers = verifiers
		return nil
	}
	p, err := r.path(path)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.verifiers = verifiers
	return nil
}

// SetTemper makes path misbehave from now on; the zero temper is good behaviour. What every and times count starts anew.
func (r *receiver) SetTemper(path string, t temper) error {
	if err := t.validate(); err != nil {
		return err
	}
	p, err := r.path(path)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.temper, p.seen, p.spoiled = t, 0, 0
	return nil
}

// Counts is what this process has seen on path since it started or was last reset.
func (r *receiver) Counts(path string) counts {
	path = trimReceiverPath(path)
	r.mu.RLock()
	p := r.paths[path]
	r.mu.RUnlock()
	if p == nil {
		return counts{Path: path}
	}
	return p.snapshot()
}

// Reset forgets requests, counts, inbox and effects; secrets and tempers stay.
func (r *receiver) Reset(ctx context.Context) error {
	if err := r.inbox.Reset(ctx); err != nil {
		return err
	}
	r.log.reset()
	for _, p := range r.allPaths() {
		p.reset()
	}
	return nil
}

// newVerifiers reads secrets as the standard writes them. An error never repeats the secret.
func newVerifiers(secrets string) ([]*standardwebhooks.Webhook, error) {
	var verifiers []*standardwebhooks.Webhook
	for _, secret := range strings.Fields(secrets) {
		if !strings.HasPrefix(secret, "whsec_") {
			return nil, errors.New("secret: must begin with whsec_")
		}
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return nil, errors.New("secret: what follows whsec_ is not base64")
		}
		// the library would take any length, even an empty key; the standard says 24 to 64 bytes
		if n := len(strings.TrimRight(strings.TrimPrefix(secret, "whsec_"), "=")) * 3 / 4; n < 24 || n > 64 {
			return nil, fmt.Errorf("secret: is %d bytes long, the standard wants 24 to 64", n)
		}
		verifiers = append(verifiers, verifier)
	}
	if len(verifiers) == 0 {
		return nil, errors.New("secret: is empty")
	}
	return verifiers, nil
}

// applyFlags sets what --secret and --temper say, and describes what will be verified.
func (r *receiver) applyFlags(secrets, tempers []string) (verifies string, err error) {
	byPath := map[string]string{}
	var paths []string
	for _, flag := range secrets {
		path, secret := "", flag
		if strings.HasPrefix(flag, "/") {
			path, secret, _ = strings.Cut(flag, "=")
		}
		if _, ok := byPath[path]; !ok && path != "" {
			paths = append(paths, path)
		}
		byPath[path] += " " + secret
	}
	for path, secret := range byPath {
		if err := r.SetSecret(path, secret); err != nil {
			return "", fmt.Errorf("--secret %s: %w", path, err)
		}
	}
	for _, flag := range tempers {
		path, text, ok := strings.Cut(flag, "=")
		if !ok || !strings.HasPrefix(path, "/") {
			return "", fmt.Errorf("--temper %s: must be /path=field:value", flag)
		}
		t, err := parseTemperFlag(text)
		if err == nil {
			err = r.SetTemper(path, t)
		}
		if err != nil {
			return "", fmt.Errorf("--temper %s: %w", path, err)
		}
	}
	slices.Sort(paths)
	switch {
	case byPath[""] != "":
		return "verified", nil
	case len(paths) > 0:
		return "verified on " + strings.Join(paths, ", ") + ", NOT VERIFIED elsewhere", nil
	default:
		return "NOT VERIFIED, anybody's request is believed: give --secret whsec_…", nil
	}
}

// listenerURL names localhost where the listener has every address: a URL to copy.
func listenerURL(listener net.Listener) string {
	addr, ok := listener.Addr().(*net.TCPAddr)
	if ok && addr.IP.IsUnspecified() {
		return fmt.Sprintf("http://localhost:%d", addr.Port)
	}
	return "http://" + listener.Addr().String()
}
