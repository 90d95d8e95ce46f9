package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"weir/web"
)

// intake is part g: clients publish over HTTP as fast as they are answered, each event durable before its answer, while the same process
// delivers them. The first fifth of the time is not measured: new connections, plans and caches.
func (b *bench) intake(ctx context.Context) error {
	const path, eventType = "/timed/intake", "bench.intake"
	if err := b.subscribe(ctx, benchLane{path: path, eventType: eventType}); err != nil {
		return err
	}
	said := make(announcement, 1)
	server, err := b.startServe(ctx, said, "web,work,discover")
	if err != nil {
		return err
	}
	defer server.stop()
	url, err := said.await(ctx, server)
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(url, "\n")
	if url = line[strings.LastIndexByte(line, ' ')+1:]; !strings.HasPrefix(url, "http") {
		return errors.New("the server does not say where it is")
	}
	workers := benchWorkers{server}
	if err := b.untilReady(ctx, workers); err != nil {
		return err
	}
	wal, err := b.wal(ctx)
	if err != nil {
		return err
	}
	before := b.usage(server.pid())
	done, generator, err := b.load(ctx, url, eventType)
	if err != nil {
		return err
	}
	n := len(done.Accepted)
	if _, err := b.untilArrived(ctx, workers, n); err != nil {
		return err
	}
	after := b.usage(server.pid())
	server.stop() // what arrived last is settled by now
	end, err := b.wal(ctx)
	if err != nil {
		return err
	}
	if err := b.checkTaken(ctx, n); err != nil {
		return err
	}
	return b.taken(ctx, path, done, before.cost(after, end-wal, n), generator/float64(n)*1000)
}

// load runs the generator and returns what it did, and its CPU seconds.
func (b *bench) load(ctx context.Context, url, eventType string) (done benchLoad, cpu float64, err error) {
	token, err := web.CreateToken(ctx, b.store.pool, "bench", []string{web.ScopePublish})
	if err != nil {
		return done, 0, fmt.Errorf("make token: %w", err)
	}
	limit, out := time.Duration(b.seconds)*time.Second, bytes.Buffer{}
	p, err := startSelf(ctx, []string{benchTokenVariable + "=" + token}, &out, "bench", "load",
		"--url", url, "--type", eventType, "--clients", fmt.Sprint(b.clients), "--for", limit.String())
	if err != nil {
		return done, 0, err
	}
	defer p.stop()
	select {
	case <-p.ended:
	case <-time.After(limit + 2*time.Minute):
		return done, 0, errors.New("the load generator does not end")
	case <-ctx.Done():
		return done, 0, ctx.Err()
	}
	if err := json.Unmarshal(out.Bytes(), &done); err != nil || !p.cmd.ProcessState.Success() {
		return done, 0, errors.Join(errors.New("the load generator failed; it says why above"), err)
	}
	if len(done.Accepted) == 0 {
		return done, 0, fmt.Errorf("no event was accepted; %d were answered with %d", done.Refused, done.Status)
	}
	return done, (p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()).Seconds(), nil
}

// checkTaken compares what was promised with what is there.
func (b *bench) checkTaken(ctx context.Context, n int) error {
	var events, delivered int
	err := b.store.pool.QueryRow(ctx, "SELECT (SELECT count(*) FROM event), (SELECT count(*) FROM delivery WHERE state = 'delivered')").Scan(&events, &delivered)
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	if events < n || delivered < n {
		return fmt.Errorf("%d events were accepted, %d are there and %d are delivered", n, events, delivered)
	}
	return nil
}

func (b *bench) taken(ctx context.Context, path string, done benchLoad, cost benchCost, generator float64) error {
	seen, err := b.receiver.arrivals(ctx, path)
	if err != nil {
		return err
	}
	from := done.Started + (done.Ended-done.Started)/5
	within := func(t int64) bool { return t > from && t <= done.Ended }
	span := float64(done.Ended-from) / 1e6
	accepted, delivered, sent := 0, 0, make(map[string]int64, len(done.Accepted))
	var answers, waits []float64 // milliseconds
	for _, e := range done.Accepted {
		sent[e.ID] = e.Sent
		if within(e.Sent + e.Took) {
			accepted++
		}
		if within(e.Sent) {
			answers = append(answers, float64(e.Took)/1000)
		}
	}
	for _, arrival := range seen.Arrivals {
		if within(arrival.At) {
			delivered++
		}
		at, ok := sent[arrival.ID]
		delete(sent, arrival.ID) // its first arrival counts
		if ok && within(at) {
			waits = append(waits, float64(arrival.At-at)/1000)
		}
	}
	if len(sent) > 0 {
		return fmt.Errorf("%d accepted events have not arrived", len(sent))
	}
	perSecond := float64(accepted) / span
	note := fmt.Sprintf("load generator %.3f CPU s per 1,000", generator)
	if done.Refused > 0 {
		note += fmt.Sprintf(", %d refused with %d", done.Refused, done.Status)
	}
	row := benchRow{
		what: fmt.Sprintf("(g) POST /events, %s: accepted", plural(b.clients, "client", "clients")), rate: perSecond, ratio: b.ofNoop(perSecond), cost: cost,
		figures: milliseconds(answers, "answered ", 50, 99), note: note,
		bars: []benchBar{atLeast("accepted/s", perSecond, 1800), atMost("WAL", cost.wal, 4.5)},
	}
	if err := b.row(row); err != nil {
		return err
	}
	perSecond = float64(delivered) / span
	return b.row(benchRow{
		what: "(g) delivered meanwhile by the same process", rate: perSecond, ratio: b.ofNoop(perSecond), cost: unknownCost,
		figures: append(milliseconds(waits, "publish to arrival ", 50, 99), benchFigure{"the last after", math.Max(0, float64(seen.Last-done.Ended)/1e6), "%.1f s"}),
		bars:    []benchBar{atLeast("delivered/s", perSecond, 1800)},
	})
}
