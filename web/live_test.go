package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// stream is an open stream of changes, read as a browser does.
type stream struct {
	t      *testing.T
	res    *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// watch opens a stream for regions; any answer but a stream is returned by its status.
func (p *panel) watch(client *http.Client, regions ...string) (*stream, int) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	p.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+livePath+"?"+url.Values{"on": regions}.Encode(), nil)
	require.NoError(p.t, err)
	patient := *client
	patient.Timeout = 0
	res, err := patient.Do(req)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = res.Body.Close() })
	return &stream{p.t, res, bufio.NewScanner(res.Body), cancel}, res.StatusCode
}

// next is the next message: its event and data. Both are empty where the stream has ended.
func (s *stream) next() (event, data string) {
	s.t.Helper()
	for s.lines.Scan() {
		line := s.lines.Text()
		if value, ok := strings.CutPrefix(line, "event: "); ok {
			event = value
		}
		if value, ok := strings.CutPrefix(line, "data: "); ok {
			data = value
		}
		if line == "" {
			return event, data
		}
	}
	return "", ""
}

// changed is which regions the next message names.
func (s *stream) changed() (regions []int) {
	s.t.Helper()
	event, data := s.next()
	require.Equal(s.t, "change", event, data)
	var change struct{ Regions []int }
	require.NoError(s.t, json.Unmarshal([]byte(data), &change))
	return change.Regions
}

// aside does something on a connection of its own, which reports what it wrote when it ends.
func (p *panel) aside(sql string, args ...any) {
	p.t.Helper()
	conn, err := pgx.ConnectConfig(p.t.Context(), p.pool.Config().ConnConfig)
	require.NoError(p.t, err)
	_, err = conn.Exec(p.t.Context(), sql, args...)
	require.NoError(p.t, err)
	require.NoError(p.t, conn.Close(p.t.Context()))
}

func TestLiveStream(t *testing.T) {
	t.Parallel()

	t.Run("SaysWhichRegionsHaveChangedAndEndsWithTheSession", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t)
		short := httptest.NewUnstartedServer(p.server.Handler())
		short.Config.ReadTimeout = 200 * time.Millisecond // as serve has, shorter: it must not end a stream
		short.Start()
		t.Cleanup(short.Close)
		t.Cleanup(p.server.CloseStreams)
		p.url = short.URL
		p.signIn()
		p.exec("INSERT INTO lane (id, name) VALUES (1, 'l')")
		for id := range 2 {
			p.exec("INSERT INTO destination (id, name, url, lane_id) VALUES ($1, $2, 'https://acme.example/', 1)", id+1, fmt.Sprint("Acme ", id+1))
		}
		s, status := p.watch(p.client, "/destinations/dst_1", "/destinations/dst_2", "/search-keys")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "text/event-stream", s.res.Header.Get("Content-Type"))
		require.Equal(t, "no", s.res.Header.Get("X-Accel-Buffering"))
		event, _ := s.next()
		require.Equal(t, "hello", event)
		for seen := 0; seen < 3; { // what happened since the page was made is not known: everything is asked for once
			seen += len(s.changed())
		}

		p.exec("UPDATE destination SET state = 'paused' WHERE id = 2")
		require.Contains(t, s.changed(), 1)
		p.aside("INSERT INTO saved_view (operator_id, name, query, shared) SELECT id, 'v', '', false FROM operator")
		for got := s.changed(); ; got = s.changed() {
			require.NotContains(t, got, 0, "nothing happened to the first")
			if len(got) > 0 && got[len(got)-1] == 2 {
				break
			}
		}

		id := int64(p.count("SELECT id::int FROM session WHERE operator_id IS NOT NULL"))
		p.exec("UPDATE session SET revoked_at = now() WHERE id = $1", id)
		for event != "end" {
			var data string
			event, data = s.next()
			require.NotEmpty(t, event, "the stream ended without a word")
			if event == "end" {
				require.Equal(t, `"signed-out"`, data)
			}
		}
		event, _ = s.next()
		require.Empty(t, event, "nothing follows")
	})

	t.Run("IsBoundedAndEndsWithTheProcess", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		var open []*stream
		for range maxSessionWatchers {
			s, status := p.watch(p.client, "/deliveries")
			require.Equal(t, http.StatusOK, status)
			open = append(open, s)
		}
		_, status := p.watch(p.client, "/deliveries")
		require.Equal(t, http.StatusServiceUnavailable, status)
		open[0].cancel()
		require.Eventually(t, func() bool { // its place is free once the server has seen it go
			s, status := p.watch(p.client, "/deliveries")
			s.cancel()
			return status == http.StatusOK
		}, 5*time.Second, 10*time.Millisecond)

		p.server.CloseStreams()
		for _, s := range open[1:] {
			for event, data := s.next(); event != "end"; event, data = s.next() {
				require.NotEmpty(t, event+data, "the stream ended without a word")
			}
		}
		_, status = p.watch(p.client, "/deliveries")
		require.Equal(t, http.StatusServiceUnavailable, status)
	})

	t.Run("KeepsNoSessionAlive", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		p.exec("UPDATE session SET seen_at = '2020-01-01', expires_at = now() + interval '1 hour'")
		s, status := p.watch(p.client, "/")
		require.Equal(t, http.StatusOK, status)
		event, _ := s.next()
		require.Equal(t, "hello", event)
		require.NotEmpty(t, s.changed())
		require.Equal(t, 1, p.count("SELECT count(*) FROM session WHERE seen_at = '2020-01-01' AND expires_at < now() + interval '61 minutes'"))
		require.Empty(t, s.res.Cookies())
	})

	t.Run("RefusesWhatItCannotWatch", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		require.Equal(t, http.StatusBadRequest, p.get(livePath).Status)
		require.Equal(t, http.StatusBadRequest, p.get(livePath+"?"+strings.Repeat("on=/&", maxRegions+1)).Status)
	})
}

func TestWantOf(t *testing.T) {
	t.Parallel()
	for address, expected := range map[string]want{
		"/deliveries?state=retrying": {tables: []string{"delivery"}},
		"/deliveries/dlv_12":         {kind: "delivery", id: 12},
		"/destinations/dst_3":        {kind: "destination", id: 3},
		"/replays/rpl_4":             {kind: "replay", id: 4},
		"/events/shipment%3A1":       {kind: "event", event: "shipment:1"},
		"/events/-?id=a%2Fb":         {kind: "event", event: "a/b"},
		"/subjects/x":                {tables: []string{"event", "delivery"}},
		"/":                          {},
		"/nobody/knows":              {},
		"/deliveries/<script>":       {},
		"%zz":                        {},
	} {
		require.Equal(t, expected, wantOf(address), address)
	}
}
