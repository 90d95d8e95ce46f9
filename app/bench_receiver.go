package main

import (
	"context"
	"encoding/json"
	"errors"
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
