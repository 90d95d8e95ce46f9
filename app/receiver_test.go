package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

const (
	receiverTestSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	receiverOtherSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// receiverBundle is a receiver behind a real listener.
type receiverBundle struct {
	*receiver

	t        testing.TB
	url      string
	client   *http.Client
	returned chan struct{} // one for every request whose handler has returned
}

func setupReceiver(t testing.TB, options receiverOptions) *receiverBundle {
	t.Helper()
	options.Logger = slog.New(slog.DiscardHandler)
	r, err := newReceiver(options)
	require.NoError(t, err)
	b := &receiverBundle{receiver: r, t: t, returned: make(chan struct{}, 1000)}
	handler := r.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer func() {
			select {
			case b.returned <- struct{}{}:
			default:
			}
		}()
		handler.ServeHTTP(w, req)
	}))
	b.url, b.client = server.URL, server.Client()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	t.Cleanup(func() {
		r.release()
		server.Close()
		r.Close()
	})
	return b
}

// receiverAnswer is an answer with its body read.
type receiverAnswer struct {
	*http.Response

	text string
}

// post delivers as Weir does, signed with secret unless that is empty.
func (b *receiverBundle) post(ctx context.Context, target, secret, id, body string, header map[string]string) (receiverAnswer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+target, strings.NewReader(body))
	if err != nil {
		return receiverAnswer{}, err
	}
	req.Header.Set("webhook-id", id)
	if secret != "" {
		webhook, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return receiverAnswer{}, err
		}
		now := time.Now()
		signature, err := webhook.Sign(id, now, []byte(body))
		if err != nil {
			return receiverAnswer{}, err
		}
		req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		req.Header.Set("webhook-signature", signature)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	return b.do(req)
}

func (b *receiverBundle) do(req *http.Request) (receiverAnswer, error) {
	res, err := b.client.Do(req)
	if err != nil {
		return receiverAnswer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return receiverAnswer{res, string(text)}, err
}

// deliver posts an unsigned event that must be answered with status.
func (b *receiverBundle) deliver(target, id string, status int) receiverAnswer {
	b.t.Helper()
	res, err := b.post(b.t.Context(), target, "", id, `{"status": "in_transit"}`, nil)
	require.NoError(b.t, err)
	require.Equal(b.t, status, res.StatusCode, res.text)
	return res
}

func (b *receiverBundle) control(method, target, body string, status int, into any) string {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+target, strings.NewReader(body))
	require.NoError(b.t, err)
	res, err := b.do(req)
	require.NoError(b.t, err)
	require.Equal(b.t, status, res.StatusCode, res.text)
	if into != nil {
		require.NoError(b.t, json.Unmarshal([]byte(res.text), into))
	}
	return res.text
}

func (b *receiverBundle) requests(path string) []receiverRequestItem {
	b.t.Helper()
	var list receiverList[receiverRequestItem]
	b.control(http.MethodGet, "/-/requests?path="+path, "", http.StatusOK, &list)
	return list.Items
}

func TestReceiverSignature(t *testing.T) {
	t.Parallel()
	b := setupReceiver(t, receiverOptions{})
	require.NoError(t, b.SetSecret("/acme", receiverTestSecret))
	const body = `{"b": 1,  "a": 1.0}`
	old := strconv.FormatInt(time.Now().Add(-6*time.Minute).Unix(), 10)
	early := strconv.FormatInt(time.Now().Add(6*time.Minute).Unix(), 10)

	for _, tt := range []struct {
		name   string
		secret string
		header map[string]string
		reason string
	}{
		{"none", "", nil, "missing required headers"},
		{"of another secret", receiverOtherSecret, nil, "no matching signature found"},
		{"of another id", receiverTestSecret, map[string]string{"webhook-id": "evt_other"}, "no matching signature found"},
		{"too old", receiverTestSecret, map[string]string{"webhook-timestamp": old}, "message timestamp too old"},
		{"too new", receiverTestSecret, map[string]string{"webhook-timestamp": early}, "message timestamp too new"},
		{"with a time that is none", receiverTestSecret, map[string]string{"webhook-timestamp": "now"}, "invalid signature headers"},
		{"garbage", receiverTestSecret, map[string]string{"webhook-signature": "v1 v1,, ,v1"}, "no matching signature found"},
	} {
		res, err := b.post(t.Context(), "/acme", tt.secret, "evt_1", body, tt.header)
		require.NoError(t, err, tt.name)
		require.Equal(t, http.StatusUnauthorized, res.StatusCode, tt.name)
		require.Equal(t, "bad signature: "+tt.reason+"\n", res.text, tt.name)
	}
	got := b.Counts("/acme")
	require.EqualValues(t, 7, got.BadSignatures)
	require.Zero(t, got.Effects)

	res, err := b.post(t.Context(), "/acme/", receiverTestSecret, "evt_1", body, map[string]string{"weir-attempt": "2"})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.JSONEq(t, `{"duplicate": false}`, res.text)

	sum := sha256.Sum256([]byte(body))
	requests := b.requests("/acme")
	last := requests[len(requests)-1]
	require.Equal(t, hex.EncodeToString(sum[:]), last.BodySHA256)
	require.Equal(t, outcomeApplied, last.Outcome)
	require.Equal(t, 2, last.Attempt)
	require.WithinDuration(t, time.Now(), time.UnixMicro(last.AtMicros), time.Minute)
}

func TestReceiverSecrets(t *testing.T) {
	t.Parallel()
	signed := func(t *testing.T, b *receiverBundle, target, secret string, status int) string {
		t.Helper()
		res, err := b.post(t.Context(), target, secret, "evt_1", "{}", nil)
		require.NoError(t, err)
		require.Equal(t, status, res.StatusCode, res.text)
		return res.text
	}

	t.Run("several hold during a rotation, set at run time", func(t *testing.T) {
		t.Parallel()
		b := setupReceiver(t, receiverOptions{})
		b.control(http.MethodPut, "/-/secret?path=/acme", receiverTestSecret+"\n"+receiverOtherSecret+"\n", http.StatusNoContent, nil)
		signed(t, b, "/acme", receiverTestSecret, http.StatusOK)
		signed(t, b, "/acme", receiverOtherSecret, http.StatusOK)
		b.control(http.MethodPut, "/-/secret?path=/acme", receiverOtherSecret, http.StatusNoContent, nil)
		signed(t, b, "/acme", receiverTestSecret, http.StatusUnauthorized)
	})

	t.Run("one for all paths gives way to a path's own", func(t *testing.T) {
		t.Parallel()
		b := setupReceiver(t, receiverOptions{})
		verifies, err := b.applyFlags([]string{receiverTestSecret, "/acme=" + receiverOtherSecret}, nil)
		require.NoError(t, err)
		require.Equal(t, "verified", verifies)
		signed(t, b, "/acme", receiverTestSecret, http.StatusUnauthorized)
		signed(t, b, "/acme", receiverOtherSecret, http.StatusOK)
		signed(t, b, "/other", receiverTestSecret, http.StatusOK)
	})

	t.Run("without one it says that it verifies nothing", func(t *testing.T) {
		t.Parallel()
		b := setupReceiver(t, receiverOptions{})
		require.JSONEq(t, `{"duplicate": false, "verified": false}`, signed(t, b, "/acme", "", http.StatusOK))
		require.EqualValues(t, 1, b.Counts("/acme").Unverified)
		require.Contains(t, b.control(http.MethodPost, "/acme", "", http.StatusBadRequest, nil), "webhook-id")
	})

	t.Run("a bad one is refused and not repeated", func(t *testing.T) {
		t.Parallel()
		b := setupReceiver(t, receiverOptions{})
		for _, secret := range []string{"", "whsec_", "whsec_c2hvcnQ=", "whsec_???hush", "hush", "whsec_" + strings.Repeat("hush", 30)} {
			err := b.SetSecret("/acme", secret)
			require.ErrorContains(t, err, "secret: ")
			require.NotContains(t, err.Error(), "hush")
		}
		b.control(http.MethodPut, "/-/secret", receiverTestSecret, http.StatusBadRequest, nil)
		b.control(http.MethodPut, "/-/secret?path=/-/x", receiverTestSecret, http.StatusBadRequest, nil)
	})
}

func TestRateMeterFindsTheFullestSecond(t *testing.T) {
	t.Parallel()
	var m rateMeter
	for _, step := range []struct {
		at   time.Duration
		most int
	}{
		{0, 1},
		{400 * time.Millisecond, 2},
		{999_999_999, 3},
		{time.Second, 3}, // the first has left: a window is [t, t + 1 s)
		{1399 * time.Millisecond, 4},
		{9 * time.Second, 4},
		{9 * time.Second, 4},
	} {
		require.Equal(t, step.most, m.arrive(step.at), step.at)
	}
	require.Len(t, m.arrivals, 2, "only a second is kept")
}

func TestReceiverMetersRateAndFlight(t *testing.T) {
	t.Parallel()
	b := setupReceiver(t, receiverOptions{})
	require.NoError(t, b.SetTemper("/acme", temper{Hang: true}))
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 5 {
		group.Go(func() { _, _ = b.post(ctx, "/acme", "", fmt.Sprintf("evt_%d", i), "{}", nil) })
	}
	require.Eventually(t, func() bool { return b.Counts("/acme").InFlight == 5 }, 10*time.Second, time.Millisecond)
	cancel()
	group.Wait()
	for range 5 {
		<-b.returned
	}
	require.NoError(t, b.SetTemper("/acme", temper{}))
	for i := range 20 { // one after the other: the last one has always been counted out
		b.deliver("/acme", fmt.Sprintf("evt_%d", i), http.StatusOK)
	}
	got := b.Counts("/acme")
	require.Zero(t, got.InFlight)
	require.EqualValues(t, 5, got.MaxInFlight)

	// the meter says what the arrival times in the log say
	requests := b.requests("/acme")
	require.Len(t, requests, 25)
	most := 0
	for i := range requests {
		n := 0
		for _, later := range requests[i:] {
			if later.AtMicros-requests[i].AtMicros < time.Second.Microseconds() {
				n++
			}
		}
		most = max(most, n)
	}
	require.Equal(t, most, got.MaxPerSecond)

	b.control(http.MethodDelete, "/-/", "", http.StatusNoContent, nil)
	for range 20 {
		b.deliver("/acme", "evt_1", http.StatusOK)
	}
	require.EqualValues(t, 1, b.Counts("/acme").MaxInFlight)
}

func TestReceiverBoundsWhatItTakes(t *testing.T) {
	t.Parallel()
	b := setupReceiver(t, receiverOptions{})
	for _, body := range []io.Reader{
		bytes.NewReader(make([]byte, receiverMaxBody+1)),
		io.MultiReader(bytes.NewReader(make([]byte, receiverMaxBody+1))), // of unknown length
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/acme", body)
		require.NoError(t, err)
		res, err := b.do(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
	}
	res, err := b.post(t.Context(), "/acme", "", "evt_1", strings.Repeat("x", receiverMaxBody), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)

	b.control(http.MethodGet, "/acme", "", http.StatusMethodNotAllowed, nil)
	b.deliver("/acme", strings.Repeat("x", receiverMaxText+1), http.StatusBadRequest)
	b.deliver("/%00", "evt_1", http.StatusBadRequest)
	b.deliver("/-", "evt_1", http.StatusBadRequest)
	require.EqualValues(t, 4, b.Counts("/acme").Refused)

	for i := range receiverMaxPaths {
		_, _ = b.path(fmt.Sprintf("/%d", i))
	}
	require.ErrorContains(t, b.SetTemper("/one_more", temper{}), "no more are served")
	require.NoError(t, b.SetTemper("/acme", temper{}))
}

func TestReceiverPagesAndResets(t *testing.T) {
	t.Parallel()
	eachInbox(t, func(t *testing.T, options receiverOptions) {
		b := setupReceiver(t, options)
		for i := range 5 {
			b.deliver("/acme", fmt.Sprintf("evt_%d", i), http.StatusOK)
			b.deliver("/other", fmt.Sprintf("evt_%d", i), http.StatusOK)
		}
		var events []string
		for after := uint64(0); ; {
			var got struct {
				Events receiverList[receiverEventItem] `json:"events"`
			}
			b.control(http.MethodGet, fmt.Sprintf("/-/counts?path=/acme&limit=2&after=%d", after), "", http.StatusOK, &got)
			for _, item := range got.Events.Items {
				events = append(events, item.EventID)
			}
			if got.Events.NextAfter == nil {
				break
			}
			after = *got.Events.NextAfter
		}
		require.Equal(t, []string{"evt_0", "evt_1", "evt_2", "evt_3", "evt_4"}, events)
		require.Len(t, b.requests("/other"), 5)
		require.Len(t, b.requests(""), 10)
		var all receiverList[counts]
		b.control(http.MethodGet, "/-/counts", "", http.StatusOK, &all)
		require.Len(t, all.Items, 2)
		for _, query := range []string{"after=-1", "limit=0", "limit=10001", "limit=x"} {
			b.control(http.MethodGet, "/-/requests?"+query, "", http.StatusBadRequest, nil)
		}

		require.NoError(t, b.SetTemper("/acme", temper{Status: 500}))
		b.control(http.MethodDelete, "/-/", "", http.StatusNoContent, nil)
		require.Equal(t, counts{Path: "/acme"}, b.Counts("/acme"))
		require.Empty(t, b.requests(""))
		b.deliver("/acme", "evt_0", http.StatusInternalServerError) // tempers stay
		require.Contains(t, b.deliver("/other", "evt_0", http.StatusOK).text, `"duplicate": false`)
	})
}

func TestReceiverStartsOnlyAsAsked(t *testing.T) {
	t.Parallel()
	_, err := newReceiver(receiverOptions{LogRequests: true})
	require.ErrorContains(t, err, "database-url")
	_, err = newReceiver(receiverOptions{DatabaseURL: "postgres://user:hush@127.0.0.1:1/x"})
	require.ErrorContains(t, err, "inbox")
	require.NotContains(t, err.Error(), "hush")
}

// BenchmarkReceiver is the happy path over HTTP, in memory, verified.
func BenchmarkReceiver(b *testing.B) {
	r := setupReceiver(b, receiverOptions{})
	require.NoError(b, r.SetSecret("/acme", receiverTestSecret))
	body := strings.Repeat("x", 1000)
	var mu sync.Mutex
	next := 0
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			next++
			id := "evt_" + strconv.Itoa(next)
			mu.Unlock()
			res, err := r.post(b.Context(), "/acme", receiverTestSecret, id, body, nil)
			if err != nil || res.StatusCode != http.StatusOK {
				b.Errorf("%v %s", err, res.text)
			}
		}
	})
}
