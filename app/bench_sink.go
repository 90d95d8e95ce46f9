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

// newBenchReceiverCommand is the receiver of the bench: it answers 200, after ?delay= if the URL says so and not at the first
// attempt with ?refuse=first, and remembers as little as it
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

func newBenchSink() *benchSink {
	return &benchSink{started: time.Now(), paths: map[string]*benchSeen{}}
}

func (s *benchSink) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if strings.HasPrefix(req.URL.Path, "/-/") {
		s.control(w, req)
		return
	}
	s.arrive(req.URL.Path, req.Header.Get("webhook-id"))
	// Counted out before the answer leaves: a sender's next request never meets its own last one in flight.
	defer s.leave(req.URL.Path)
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, req.Body, receiverMaxBody))
	if req.URL.RawQuery == "" {
		return
	}
	query := req.URL.Query()
	if delay, err := time.ParseDuration(query.Get("delay")); err == nil {
		time.Sleep(delay)
	}
	if query.Get("refuse") == "first" && req.Header.Get("weir-attempt") == "1" {
		w.WriteHeader(http.StatusInternalServerError)
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

// control answers GET /-/?path=&arrivals=1, where no path means all of them together, and DELETE /-/.
func (s *benchSink) control(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if req.Method == http.MethodDelete {
		s.total, s.paths = benchSeen{}, map[string]*benchSeen{}
		return
	}
	query, seen := req.URL.Query(), s.total
	if path := query.Get("path"); path != "" {
		seen = benchSeen{}
		if one := s.paths[path]; one != nil {
			seen = *one
		}
	}
	if query.Get("arrivals") == "" {
		seen.Arrivals = nil
	}
	_ = json.NewEncoder(w).Encode(seen)
}
