package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"weir/jobs"
	"weir/web"
)

func newDemoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Run Weir with 80 destinations of every temper and shipments on their way",
		Long: `Run Weir with 80 destinations of every temper and shipments on their way: some receivers are slow, some answer 429, some fail now and
then, one refuses everything, one is gone. The database is thrown away at the end, unless DATABASE_URL or WEIR_DATA_DIR names one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), cmd.OutOrStdout()) },
	}
}

func demo(ctx context.Context, out io.Writer) error {
	c, err := loadConfig()
	if err != nil {
		return err
	}
	if os.Getenv("WEIR_LOG_LEVEL") == "" {
		c.LogLevel = "warn"
	}
	if c.DatabaseURL == "" && os.Getenv("WEIR_DATA_DIR") == "" {
		// Downloaded server binaries outlive the demo: next time it starts at once.
		dir, err := os.MkdirTemp("", "weir-demo-")
		if err != nil {
			return fmt.Errorf("make data directory: %w", err)
		}
		defer os.RemoveAll(dir)
		c.cacheDir, c.DataDir = filepath.Join(c.DataDir, "binaries"), dir
	}
	c.allowed = append(c.allowed, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	log, err := newLog(c, os.Stderr)
	if err != nil {
		return err
	}
	shops, err := startShops(ctx)
	if err != nil {
		return err
	}
	defer shops.stop()
	say(out, "Starting Weir with its own Postgres; this takes a few seconds.")
	return serve(ctx, c, log, out, func(ctx context.Context, r *running) error {
		if err := shops.subscribe(ctx, r); err != nil {
			return err
		}
		say(out, "%d destinations are subscribed and shipments are on their way. Stop with Ctrl-C.", len(shopTempers))
		go shops.ship(ctx, r)
		return nil
	})
}

// shops are the demo's subscribers: one receiver with a path for each.
type shops struct {
	receiver *receiver
	url      string
	stopped  chan struct{}
	cancel   context.CancelFunc
}

func startShops(ctx context.Context) (*shops, error) {
	rcv, err := newReceiver(receiverOptions{})
	if err != nil {
		return nil, fmt.Errorf("start receiver: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the demo's receiver: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &shops{receiver: rcv, url: "http://" + listener.Addr().String(), stopped: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(s.stopped)
		_ = rcv.Serve(ctx, listener)
	}()
	return s, nil
}

func (s *shops) stop() {
	s.cancel()
	<-s.stopped
	s.receiver.Close()
}

// merchants are the demo's tenants; each has ten destinations.
var merchants = []string{"acme", "bolt", "cedar", "delta", "ember", "fjord", "grove", "harbor"}

var roles = []string{"store", "warehouse", "tracking page", "customer mail", "returns desk", "analytics", "ERP", "marketplace", "carrier portal", "support"}

// shopTempers is how each of the 80 behaves; the zero temper answers 200 at once.
var shopTempers = makeTempers()

func makeTempers() []temper {
	all := make([]temper, len(merchants)*len(roles))
	for i := range all {
		switch {
		case i == 13:
			all[i] = temper{Status: http.StatusBadRequest, Body: `{"error":"unknown field status"}`}
		case i == 37:
			all[i] = temper{Status: http.StatusGone}
		case i == 62:
			all[i] = temper{Hang: true, Every: 3}
		case i%9 == 4:
			all[i] = temper{Status: http.StatusTooManyRequests, RetryAfter: "15", Every: 8}
		case i%7 == 3:
			all[i] = temper{Status: http.StatusInternalServerError, Probability: 0.15, Body: "upstream unavailable"}
		case i%5 == 2:
			all[i] = temper{Delay: time.Duration(200+100*(i%9)) * time.Millisecond}
		}
	}
	return all
}

// subscribe makes the destinations through the API, as anybody would, and gives each receiver its secret.
func (s *shops) subscribe(ctx context.Context, r *running) error {
	token, err := web.CreateToken(ctx, r.store.pool, "demo", []string{"admin"})
	if err != nil {
		return fmt.Errorf("make token: %w", err)
	}
	for i, mood := range shopTempers {
		merchant, role := merchants[i/len(roles)], roles[i%len(roles)]
		path := fmt.Sprintf("/%s/%d", merchant, i%len(roles))
		rate := []float64{1, 2, 5, 10, 20}[i%5]
		input := map[string]any{
			"name": merchant + " " + role, "url": s.url + path, "tenant": merchant, "timeout": "5s",
			"lane":          map[string]any{"rate": rate, "burst": max(1, int(rate)), "max_in_flight": 1 + i%4},
			"subscriptions": []any{map[string]any{"types": []string{"shipment.*"}}},
			"retry":         map[string]any{"schedule": []string{"5s", "15s", "1m", "5m", "30m"}, "jitter": 0.2},
		}
		secret, err := createDestination(ctx, r.url, token, input)
		if errors.Is(err, errExists) {
			continue // a second demo on the same database
		}
		if err != nil {
			return fmt.Errorf("make destination %q: %w", input["name"], err)
		}
		if err := s.receiver.SetSecret(path, secret); err != nil {
			return fmt.Errorf("set secret: %w", err)
		}
		if err := s.receiver.SetTemper(path, mood); err != nil {
			return fmt.Errorf("set temper: %w", err)
		}
	}
	return nil
}

var errExists = errors.New("it exists already")

func createDestination(ctx context.Context, url, token string, input any) (secret string, err error) {
	body, err := json.Marshal(input)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/v1/destinations", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", err
	}
	if resp.StatusCode == http.StatusConflict {
		return "", errExists
	}
	if resp.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("the API answered %s: %s", resp.Status, answer)
	}
	var created struct {
		Secret string `json:"secret"`
	}
	return created.Secret, json.Unmarshal(answer, &created)
}

// stages of a shipment's life.
var stages = []string{"label_created", "in_transit", "out_for_delivery", "delivered"}

type shipment struct {
	number, merchant string
	stage            int
	due              time.Time
}

// ship lets shipments live: about four new ones every second, each moving on after a few seconds.
func (s *shops) ship(ctx context.Context, r *running) {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	prefix := time.Now().Format("060102-150405")
	var living []shipment
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		living = append(living, shipment{number: fmt.Sprintf("SHP-%s-%05d", prefix, n), merchant: merchants[n%len(merchants)], due: now})
		events, rest := advance(living, now)
		living = rest
		for _, result := range r.engine.PublishMany(ctx, events) {
			if result.Err != nil && ctx.Err() == nil {
				r.log.Warn("publish", "error", result.Err)
			}
		}
	}
}

// advance returns the events of the shipments that are due, and those that still live.
func advance(living []shipment, now time.Time) (events []jobs.Event, rest []shipment) {
	for _, one := range living {
		if one.due.After(now) {
			rest = append(rest, one)
			continue
		}
		version := int64(one.stage + 1)
		events = append(events, jobs.Event{
			Type: "shipment." + stages[one.stage], Tenant: one.merchant, Subject: one.number, Version: &version, OccurredAt: now,
			Payload: fmt.Appendf(nil, `{"shipment":%q,"merchant":%q,"status":%q,"carrier":"Northwind","weight_kg":%.2f}`,
				one.number, one.merchant, stages[one.stage], 0.5+float64(len(one.number)%7)),
		})
		if one.stage++; one.stage < len(stages) {
			one.due = now.Add(time.Duration(3+rand.IntN(12)) * time.Second)
			rest = append(rest, one)
		}
	}
	return events, rest
}
