package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

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
	url, err := said.await(ctx, p)
	if err != nil {
		p.stop()
		return nil, err
	}
	return &benchReceiver{p, url}, nil
}

// await is what the process says first.
func (a announcement) await(ctx context.Context, p *benchProcess) (string, error) {
	select {
	case text := <-a:
		return text, nil
	case <-p.ended:
		return "", fmt.Errorf("%q ended by itself", p.name)
	case <-time.After(benchWait):
		return "", fmt.Errorf("%q does not start", p.name)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// seen asks what arrived at path, or, without one, at all of them.
func (r *benchReceiver) seen(ctx context.Context, path string) (seen benchSeen, err error) {
	err = r.call(ctx, http.MethodGet, "/-/?path="+path, &seen)
	return seen, err
}

// arrivals is seen with each arrival, for a path under /timed/.
func (r *benchReceiver) arrivals(ctx context.Context, path string) (seen benchSeen, err error) {
	err = r.call(ctx, http.MethodGet, "/-/?arrivals=1&path="+path, &seen)
	return seen, err
}

// forget begins anew.
func (r *benchReceiver) forget(ctx context.Context) error {
	return r.call(ctx, http.MethodDelete, "/-/", nil)
}

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
