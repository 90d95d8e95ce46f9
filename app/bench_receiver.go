package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// newBenchReceiverCommand is the receiver of the bench: it answers 200, after ?delay= if the URL says so, and remembers as little as it
// can, so that what is measured is Weir. Paths under /timed/ remember each arrival.
func newBenchReceiverCommand() *cobra.Command {
	return &cobra.Command{
		Use: "receiver", Hidden: true, Args: cobra.NoArgs, Short: "Receive what bench sends, until stdin closes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			go func() { // stdin also closes when the bench was killed
				_, _ = io.Copy(io.Discard, cmd.InOrStdin())
				cancel()
			}()
			server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: newBenchSink()}
			context.AfterFunc(ctx, func() { _ = server.Close() })
			say(cmd.OutOrStdout(), "%s", urlOf(listener.Addr()))
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		},
	}
}

// benchSeen is what a path has seen. Times are microseconds since 1970, on the monotonic clock from the receiver's start on.
type benchSeen struct {
	Requests    int            `json:"requests"`
	First       int64          `json:"first"`
	Last        int64          `json:"last"`
	InFlight    int            `json:"in_flight"`
	MaxInFlight int            `json:"max_in_flight"`
	Arrivals    []benchArrival `json:"arrivals,omitempty"` // of a path under /timed/
}

type benchArrival struct {
	ID string `json:"id"`
	At int64  `json:"at"`
}

// benchSink is the receiver's state.
type benchSink struct {
	started time.Time

	mu    sync.Mutex
	total benchSeen
	paths map[string]*benchSeen
}

func newBenchSink() *benchSink { return &benchSink{started: time.Now(), paths: map[string]*benchSeen{}} }

func (s *benchSink) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if strings.HasPrefix(req.URL.Path, "/-/") {
		s.control(w, req)
		return
	}
	s.arrive(req.URL.Path, req.Header.Get("webhook-id"))
	// Counted out before the answer leaves: a sender's next request never meets its own last one in flight.
	defer s.leave(req.URL.Path)
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, req.Body, receiverMaxBody))
	if req.URL.RawQuery != "" {
		if delay, err := time.ParseDuration(req.URL.Query().Get("delay")); err == nil {
			time.Sleep(delay)
		}
	}
}

func (s *benchSink) arrive(path, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.started.Add(time.Since(s.started)).UnixMicro() // under the lock, so that arrivals are in order
	seen := s.paths[path]
	if seen == nil {
		seen = &benchSeen{}
		s.paths[path] = seen
	}
	for _, one := range []*benchSeen{&s.total, seen} {
		if one.Requests == 0 {
			one.First = at
		}
		one.Requests++
		one.InFlight++
		one.MaxInFlight, one.Last = max(one.MaxInFlight, one.InFlight), at
	}
	if strings.HasPrefix(path, "/timed/") {
		seen.Arrivals = append(seen.Arrivals, benchArrival{id, at})
	}
}

func (s *benchSink) leave(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total.InFlight--
	if seen := s.paths[path]; seen != nil {
		seen.InFlight--
	}
}

// control answers GET /-/total, GET /-/path?path= and DELETE /-/.
func (s *benchSink) control(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := &s.total
	if path := req.URL.Query().Get("path"); path != "" {
		if seen = s.paths[path]; seen == nil {
			seen = &benchSeen{}
		}
	}
	if req.Method == http.MethodDelete {
		s.total, s.paths = benchSeen{}, map[string]*benchSeen{}
		return
	}
	_ = json.NewEncoder(w).Encode(seen)
}

// benchReceiver is the receiver seen from the bench.
type benchReceiver struct {
	process *benchProcess
	url     string
}

// announcement takes the first thing that a process prints.
type announcement chan string

func (a announcement) Write(text []byte) (int, error) {
	select {
	case a <- strings.TrimSpace(string(text)):
	default:
	}
	return len(text), nil
}

func (b *bench) startReceiver(ctx context.Context) (*benchReceiver, error) {
	said := make(announcement, 1)
	p, err := startSelf(ctx, nil, said, "bench", "receiver")
	if err != nil {
		return nil, err
	}
	select {
	case url := <-said:
		return &benchReceiver{p, url}, nil
	case <-p.ended:
		err = errors.New("the receiver ended by itself")
	case <-time.After(time.Minute):
		err = errors.New("the receiver does not start")
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.stop()
	return nil, err
}

// seen asks what arrived at path, or, without one, at all of them.
func (r *benchReceiver) seen(ctx context.Context, path string) (seen benchSeen, err error) {
	return seen, r.call(ctx, http.MethodGet, "/-/?path="+path, &seen)
}

// forget begins anew.
func (r *benchReceiver) forget(ctx context.Context) error { return r.call(ctx, http.MethodDelete, "/-/", nil) }

func (r *benchReceiver) call(ctx context.Context, method, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask the receiver: %w", err)
	}
	defer resp.Body.Close()
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("ask the receiver: %w", err)
	}
	return nil
}
