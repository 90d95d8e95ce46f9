package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"weir/db/dbtest"
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

// eachInbox runs test with both kinds of inbox.
func eachInbox(t *testing.T, test func(t *testing.T, options receiverOptions)) {
	t.Helper()
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		test(t, receiverOptions{})
	})
	t.Run("in Postgres", func(t *testing.T) {
		t.Parallel()
		test(t, receiverOptions{DatabaseURL: dbtest.DSN(t)})
	})
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

func TestReceiverAppliesOnce(t *testing.T) {
	t.Parallel()
	eachInbox(t, func(t *testing.T, options receiverOptions) {
		b := setupReceiver(t, options)

		require.Contains(t, b.deliver("/acme", "evt_1", http.StatusOK).text, `"duplicate": false`)
		require.Contains(t, b.deliver("/acme", "evt_1", http.StatusOK).text, `"duplicate": true`)
		require.Contains(t, b.deliver("/other", "evt_1", http.StatusOK).text, `"duplicate": false`, "another destination is owed it too")

		// the same id with other bytes has no effect either, and is told apart
		res, err := b.post(t.Context(), "/acme", "", "evt_1", "other bytes", nil)
		require.NoError(t, err)
		require.Contains(t, res.text, `"duplicate": true`)

		var got struct {
			counts
			StoredEffects int64                           `json:"stored_effects"`
			Events        receiverList[receiverEventItem] `json:"events"`
		}
		b.control(http.MethodGet, "/-/counts?path=/acme", "", http.StatusOK, &got)
		require.EqualValues(t, 3, got.Requests)
		require.EqualValues(t, 1, got.Effects)
		require.EqualValues(t, 1, got.StoredEffects)
		require.EqualValues(t, 2, got.Duplicates)
		require.EqualValues(t, 1, got.Conflicts)
		require.Equal(t, []receiverEventItem{{"evt_1", 3, 1}}, got.Events.Items)
		require.Nil(t, got.Events.NextAfter)
	})
}

func TestReceiverAppliesOnceConcurrently(t *testing.T) {
	t.Parallel()
	eachInbox(t, func(t *testing.T, options receiverOptions) {
		b := setupReceiver(t, options)
		const posts = 50
		answers := make([]string, posts)
		start := make(chan struct{})
		var group sync.WaitGroup
		for i := range posts {
			group.Go(func() {
				<-start
				res, err := b.post(t.Context(), "/acme", "", "evt_1", "{}", nil)
				if err == nil {
					answers[i] = strconv.Itoa(res.StatusCode) + " " + res.text
				}
			})
		}
		close(start)
		group.Wait()

		applied := 0
		for _, answer := range answers {
			require.True(t, strings.HasPrefix(answer, "200 "), answer)
			if strings.Contains(answer, `"duplicate": false`) {
				applied++
			}
		}
		require.Equal(t, 1, applied)
		stored, err := b.inbox.Effects(t.Context(), "/acme")
		require.NoError(t, err)
		require.EqualValues(t, 1, stored)
		require.EqualValues(t, posts-1, b.Counts("/acme").Duplicates)
	})
}

func TestReceiverVersionNeverMovesBack(t *testing.T) {
	t.Parallel()
	eachInbox(t, func(t *testing.T, options receiverOptions) {
		b := setupReceiver(t, options)
		send := func(version string) error {
			header := map[string]string{"weir-subject": "shp_1", "weir-event-type": "shipment.updated"}
			if version != "" {
				header["weir-version"] = version
			}
			res, err := b.post(t.Context(), "/acme", "", "evt_v"+version, "version "+version, header)
			if err == nil && res.StatusCode != http.StatusOK {
				err = errors.New(res.Status + " " + res.text)
			}
			return err
		}
		at := func(version int64) {
			t.Helper()
			s, ok, err := b.inbox.Shipment(t.Context(), "/acme", "shp_1")
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, version, s.Version)
			require.Equal(t, fmt.Sprintf("evt_v%d", version), s.EventID)
			require.Equal(t, sha256.Sum256(fmt.Appendf(nil, "version %d", version)), s.BodySHA256)
		}

		for _, step := range []struct {
			version string
			then    int64
		}{{"2", 2}, {"1", 2}, {"", 2}, {"5", 5}, {"2", 5}, {"4", 5}} {
			require.NoError(t, send(step.version))
			at(step.then)
		}

		// all at once, in whatever order
		var group sync.WaitGroup
		errs := make(chan error, 20)
		for version := 6; version <= 25; version++ {
			group.Go(func() { errs <- send(strconv.Itoa(version)) })
		}
		group.Wait()
		for range 20 {
			require.NoError(t, <-errs)
		}
		at(25)
		require.EqualValues(t, 25, b.Counts("/acme").Effects, "the older ones took effect too: only the status stays")

		require.ErrorContains(t, send("two"), "weir-version")
		var shipment map[string]any
		b.control(http.MethodGet, "/-/shipment?path=/acme&subject=shp_1", "", http.StatusOK, &shipment)
		require.EqualValues(t, 25, shipment["version"])
		b.control(http.MethodGet, "/-/shipment?path=/acme&subject=shp_2", "", http.StatusNotFound, nil)
	})
}

func TestReceiverTempers(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, tempers temper) *receiverBundle {
		t.Helper()
		t.Parallel()
		b := setupReceiver(t, receiverOptions{})
		require.NoError(t, b.SetTemper("/acme", tempers))
		return b
	}
	last := func(b *receiverBundle) receiverRequestItem {
		requests := b.requests("/acme")
		return requests[len(requests)-1]
	}

	t.Run("status and Retry-After answer without effect", func(t *testing.T) {
		b := setup(t, temper{Status: 429, RetryAfter: "5"})
		require.Equal(t, "5", b.deliver("/acme", "evt_1", 429).Header.Get("Retry-After"))
		require.Zero(t, b.Counts("/acme").Effects)
		require.EqualValues(t, 1, b.Counts("/acme").Tempered)
		require.Equal(t, outcomeTempered, last(b).Outcome)
		require.Equal(t, 429, last(b).Status)

		b.control(http.MethodPut, "/-/temper?path=/acme", `{}`, http.StatusNoContent, nil)
		b.deliver("/acme", "evt_1", http.StatusOK)
		require.EqualValues(t, 1, b.Counts("/acme").Effects)
	})

	t.Run("a 2xx of any kind is an acknowledgement, so the event takes effect", func(t *testing.T) {
		b := setup(t, temper{Status: 202, Body: `{"error": "no"}`})
		require.Equal(t, `{"error": "no"}`, b.deliver("/acme", "evt_1", 202).text)
		require.NoError(t, b.SetTemper("/acme", temper{Status: 204, Drip: time.Hour}))
		require.Empty(t, b.deliver("/acme", "evt_2", 204).text)
		require.EqualValues(t, 2, b.Counts("/acme").Effects)
	})

	t.Run("location", func(t *testing.T) {
		b := setup(t, temper{Status: 302, Location: "http://169.254.169.254/"})
		require.Equal(t, "http://169.254.169.254/", b.deliver("/acme", "evt_1", 302).Header.Get("Location"))
	})

	t.Run("a bad signature is a bad signature first", func(t *testing.T) {
		b := setup(t, temper{Status: 500})
		require.NoError(t, b.SetSecret("/acme", receiverTestSecret))
		b.deliver("/acme", "evt_1", http.StatusUnauthorized)
	})

	t.Run("delay", func(t *testing.T) {
		b := setup(t, temper{Delay: 60 * time.Millisecond})
		start := time.Now()
		b.deliver("/acme", "evt_1", http.StatusOK)
		require.GreaterOrEqual(t, time.Since(start), 60*time.Millisecond)
	})

	t.Run("delay beyond the client's patience has no effect", func(t *testing.T) {
		b := setup(t, temper{Delay: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := b.post(ctx, "/acme", "", "evt_1", "{}", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		<-b.returned
		require.Zero(t, b.Counts("/acme").Effects)
		require.Equal(t, outcomeGone, last(b).Outcome)
	})

	t.Run("hang lasts until the client goes", func(t *testing.T) {
		b := setup(t, temper{Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := b.post(ctx, "/acme", "", "evt_1", "{}", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		<-b.returned
		require.Zero(t, b.Counts("/acme").InFlight)
		require.Equal(t, outcomeHung, last(b).Outcome)
		require.NotEmpty(t, last(b).BodySHA256, "it was read")
	})

	t.Run("drip answers one byte per interval", func(t *testing.T) {
		b := setup(t, temper{Drip: 5 * time.Millisecond, Body: "0123456789"})
		start := time.Now()
		require.Equal(t, "0123456789", b.deliver("/acme", "evt_1", http.StatusOK).text)
		require.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond)
		require.EqualValues(t, 1, b.Counts("/acme").Effects)
	})

	t.Run("drip ends when the client goes", func(t *testing.T) {
		b := setup(t, temper{Drip: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := b.post(ctx, "/acme", "", "evt_1", "{}", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		<-b.returned
		require.Equal(t, 0, last(b).Status)
	})

	for when, sent := range map[string]string{closeBefore: "", closeAfter: "{}"} {
		t.Run("close "+when+" reading resets the connection", func(t *testing.T) {
			b := setup(t, temper{Close: when})
			conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "POST /acme HTTP/1.1\r\nHost: x\r\nwebhook-id: evt_1\r\nContent-Length: 2\r\n\r\n"+sent)
			require.NoError(t, err)
			_, err = conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, syscall.ECONNRESET)
			<-b.returned
			require.Equal(t, outcomeClosed, last(b).Outcome)
			require.Equal(t, when == closeAfter, last(b).BodySHA256 != "", "read or not")
			require.Zero(t, b.Counts("/acme").Effects)
		})
	}

	t.Run("apply then timeout leaves an effect that the client does not know of", func(t *testing.T) {
		b := setup(t, temper{ApplyThenTimeout: time.Hour, Times: 1})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := b.post(ctx, "/acme", "", "evt_1", "{}", nil)
			ended <- err
		}()
		require.Eventually(t, func() bool { return b.Counts("/acme").Effects == 1 }, 10*time.Second, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		<-b.returned
		require.Equal(t, outcomeApplied, last(b).Outcome)
		require.Equal(t, 0, last(b).Status)

		res, err := b.post(t.Context(), "/acme", "", "evt_1", "{}", nil)
		require.NoError(t, err)
		require.Contains(t, res.text, `"duplicate": true`)
		require.EqualValues(t, 1, b.Counts("/acme").Effects)
	})

	t.Run("apply then answer an error", func(t *testing.T) {
		b := setup(t, temper{ApplyThenTimeout: time.Millisecond, Status: 500})
		b.deliver("/acme", "evt_1", 500)
		require.EqualValues(t, 1, b.Counts("/acme").Effects)
	})

	t.Run("die ends the process after reading, without effect", func(t *testing.T) {
		t.Parallel()
		exits := make(chan int, 1)
		b := setupReceiver(t, receiverOptions{Exit: func(code int) { exits <- code }})
		require.NoError(t, b.SetTemper("/acme", temper{Die: true}))
		_, err := b.post(t.Context(), "/acme", "", "evt_1", "{}", nil)
		require.Error(t, err)
		require.Equal(t, 137, <-exits)
		<-b.returned
		require.Zero(t, b.Counts("/acme").Effects)
	})

	t.Run("every, times and probability choose the requests", func(t *testing.T) {
		b := setup(t, temper{})
		statuses := func(target string, n int) (got []int) {
			for range n {
				res, err := b.post(t.Context(), target, "", "evt_1", "{}", nil)
				require.NoError(t, err)
				got = append(got, res.StatusCode)
			}
			return got
		}
		for _, tt := range []struct {
			temper temper
			want   []int
		}{
			{temper{Status: 500, Every: 3}, []int{200, 200, 500, 200, 200, 500, 200}},
			{temper{Status: 500, Times: 2}, []int{500, 500, 200, 200}},
			{temper{Status: 500, Every: 2, Times: 1}, []int{200, 500, 200, 200}},
			{temper{Status: 500, Probability: 1}, []int{500, 500}},
		} {
			require.NoError(t, b.SetTemper("/acme", tt.temper))
			require.Equal(t, tt.want, statuses("/acme", len(tt.want)), "%+v", tt.temper)
		}
		require.NoError(t, b.SetTemper("/acme", temper{Status: 500, Probability: 0.5}))
		count := 0
		for _, status := range statuses("/acme", 200) {
			if status == 500 {
				count++
			}
		}
		require.InDelta(t, 100, count, 60) // eight standard deviations
		require.Equal(t, []int{200, 503, 200, 503}, statuses("/flaky?status=503&every=2", 4))
	})

	t.Run("a query speaks for its request, and must be right", func(t *testing.T) {
		b := setup(t, temper{Status: 500})
		require.Equal(t, "7", b.deliver("/acme?status=503&retry_after=7&token=x", "evt_1", 503).Header.Get("Retry-After"))
		b.deliver("/acme?token=x", "evt_1", 500)
		require.Equal(t, "temper: delay: must be a duration such as 300ms or 5s, not \"soon\"\n", b.deliver("/acme?delay=soon", "evt_1", 400).text)
		b.noControl = true
		b.deliver("/acme?status=503", "evt_1", 500)
		b.control(http.MethodGet, "/-/counts", "", http.StatusNotFound, nil)
	})
}

func TestTemperIsReadAlikeFromFlagJSONAndQuery(t *testing.T) {
	t.Parallel()
	want := temper{
		Status: 429, RetryAfter: "5", Location: "/x", Body: "no", Delay: 300 * time.Millisecond, Drip: time.Second,
		ApplyThenTimeout: 12 * time.Second, Every: 3, Times: 2, Probability: 0.05,
	}
	flag, err := parseTemperFlag("status:429,retry_after:5,location:/x,body:no,delay:300ms,drip:1s,apply_then_timeout:12s,every:3,times:2,probability:0.05")
	require.NoError(t, err)
	require.Equal(t, want, flag)
	object, err := parseTemperFlag(`{"status":429,"retry_after":"5","location":"/x","body":"no","delay":"300ms","drip":"1s",
		"apply_then_timeout":"12s","every":3,"times":2,"probability":0.05}`)
	require.NoError(t, err)
	require.Equal(t, want, object)
	query, err := url.ParseQuery("status=429&retry_after=5&location=/x&body=no&delay=300ms&drip=1s&apply_then_timeout=12s&every=3&times=2&probability=0.05&mine=1")
	require.NoError(t, err)
	got, found, err := parseTemperQuery(query)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, want, got)

	for text, want := range map[string]temper{
		"hang":          {Hang: true},
		"die:true":      {Die: true},
		"close:before":  {Close: "before"},
		`{"hang":true}`: {Hang: true},
		`{"die":false}`: {},
		"{}":            {},
	} {
		got, err := parseTemperFlag(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestTemperErrorNamesTheField(t *testing.T) {
	t.Parallel()
	for text, field := range map[string]string{
		`{"status": 99}`:                           "status",
		`{"status": "ok"}`:                         "status",
		`{"status": 600}`:                          "status",
		`{"status": {}}`:                           "status",
		`{"status": null}`:                         "status",
		`{"retry_after": "a\nb"}`:                  "retry_after",
		`{"location": "a\r\nb"}`:                   "location",
		`{"delay": 300}`:                           "delay",
		`{"delay": "-1s"}`:                         "delay",
		`{"drip": "25h"}`:                          "drip",
		`{"apply_then_timeout": "0s"}`:             "apply_then_timeout",
		`{"hang": "perhaps"}`:                      "hang",
		`{"close": ""}`:                            "close",
		`{"close": "during"}`:                      "close",
		`{"die": 2}`:                               "die",
		`{"every": 0}`:                             "every",
		`{"times": -1}`:                            "times",
		`{"probability": 0}`:                       "probability",
		`{"probability": 1.5}`:                     "probability",
		`{"probability": "NaN"}`:                   "probability",
		`{"hang": true, "die": true}`:              "die",
		`{"close": "after", "hang": true}`:         "close",
		`{"die": true, "apply_then_timeout":"1s"}`: "apply_then_timeout",
		`{"statsu": 500}`:                          "statsu",
		`{"body": "` + strings.Repeat("x", temperMaxBody+1) + `"}`: "body",
	} {
		_, err := parseTemperJSON([]byte(text))
		var wrong *temperError
		require.ErrorAs(t, err, &wrong, text)
		require.Equal(t, field, wrong.Field, text)
	}
	_, err := parseTemperFlag("status:500,evry:3")
	require.EqualError(t, err, "temper: evry: there is no such field")
	_, err = parseTemperJSON([]byte(`[]`))
	require.ErrorContains(t, err, "not a JSON object")

	b := setupReceiver(t, receiverOptions{})
	require.Error(t, b.SetTemper("/acme", temper{Every: -1}))
	require.Error(t, b.SetTemper("acme", temper{}))
	require.Contains(t, b.control(http.MethodPut, "/-/temper?path=/acme", `{"status": 99}`, http.StatusBadRequest, nil), "status: must be from 200 to 599")
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

func TestReceiverKeepsItsInboxAcrossARestart(t *testing.T) {
	t.Parallel()
	options := receiverOptions{DatabaseURL: dbtest.DSN(t), LogRequests: true}
	first := setupReceiver(t, options)
	first.deliver("/acme", "evt_1", http.StatusOK)
	first.deliver("/acme", "evt_1", http.StatusOK)
	first.deliver("/acme?status=500", "evt_2", http.StatusInternalServerError)
	first.Close()

	second := setupReceiver(t, options)
	require.Contains(t, second.deliver("/acme", "evt_1", http.StatusOK).text, `"duplicate": true`)
	stored, err := second.inbox.Effects(t.Context(), "/acme")
	require.NoError(t, err)
	require.EqualValues(t, 1, stored)
	second.Close()

	conn, err := pgx.Connect(t.Context(), options.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `SELECT event_id || ' ' || status || ' ' || outcome || ' ' || length(body_sha256) FROM receiver.request ORDER BY id`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"evt_1 200 applied 32", "evt_1 200 duplicate 32", "evt_2 500 tempered 32", "evt_1 200 duplicate 32"}, lines)
}

func TestReceiverAnswers503WithoutItsInbox(t *testing.T) {
	t.Parallel()
	b := setupReceiver(t, receiverOptions{DatabaseURL: dbtest.DSN(t)})
	b.inbox.Close()
	require.Equal(t, "the inbox does not answer\n", b.deliver("/acme", "evt_1", http.StatusServiceUnavailable).text)
	require.EqualValues(t, 1, b.Counts("/acme").Failed)
}

func TestReceiverStartsOnlyAsAsked(t *testing.T) {
	t.Parallel()
	_, err := newReceiver(receiverOptions{LogRequests: true})
	require.ErrorContains(t, err, "database-url")
	_, err = newReceiver(receiverOptions{DatabaseURL: "postgres://user:hush@127.0.0.1:1/x"})
	require.ErrorContains(t, err, "inbox")
	require.NotContains(t, err.Error(), "hush")
}

// startReceiverCommand runs `weir receiver` with args and returns its first line; stop ends it and returns its error.
func startReceiverCommand(t *testing.T, args ...string) (line string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	cmd := newReceiverCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetOut(writer)
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		writer.CloseWithError(io.EOF)
		ended <- err
	}()
	text := make([]byte, 4096)
	n, _ := reader.Read(text)
	return string(text[:n]), func() error { cancel(); return <-ended }
}

func TestReceiverCommand(t *testing.T) { //nolint:paralleltest // sets the environment
	t.Setenv("DATABASE_URL", "")
	t.Setenv("RECEIVER_DATABASE_URL", "")
	t.Setenv("RECEIVER_SECRET", "")

	t.Run("says where it listens and stops when told, whatever hangs", func(t *testing.T) {
		line, stop := startReceiverCommand(t, "--addr", "127.0.0.1:0", "--secret", "/acme="+receiverTestSecret, "--temper", "/acme=hang")
		require.Regexp(t, regexp.MustCompile(`^receiver listening on http://127\.0\.0\.1:\d+ \(inbox: memory, gone when it stops; signatures: verified on /acme, NOT VERIFIED elsewhere\)\n$`), line)
		require.NotContains(t, line, receiverTestSecret)
		b := &receiverBundle{t: t, url: strings.Fields(line)[3], client: &http.Client{}}
		defer b.client.CloseIdleConnections()
		hanging := make(chan error, 1)
		go func() {
			_, err := b.post(t.Context(), "/acme", receiverTestSecret, "evt_1", "{}", nil)
			hanging <- err
		}()
		require.Eventually(t, func() bool {
			requests := b.requests("/acme")
			return len(requests) == 1 && requests[0].Outcome == outcomeOpen
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, stop())
		require.Error(t, <-hanging)
		_, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})

	t.Run("takes its Postgres and secret from the environment, and shows neither", func(t *testing.T) {
		dsn := dbtest.DSN(t)
		t.Setenv("RECEIVER_DATABASE_URL", dsn)
		t.Setenv("RECEIVER_SECRET", receiverTestSecret)
		line, stop := startReceiverCommand(t, "--addr", ":0")
		require.Regexp(t, regexp.MustCompile(`^receiver listening on http://localhost:\d+ \(inbox: Postgres, schema receiver; signatures: verified\)\n$`), line)
		require.NoError(t, stop())
		require.NotContains(t, newReceiverCommand().UsageString(), receiverTestSecret)
		require.NotContains(t, newReceiverCommand().UsageString(), dsn)
	})

	for args, want := range map[string]string{
		"--secret hush":                    "must begin with whsec_",
		"--secret /acme=whsec_hush":        "--secret /acme: secret: is 3 bytes long",
		"--temper status:500":              "must be /path=field:value",
		"--temper /acme=status:5":          "--temper /acme: temper: status: must be from 200 to 599",
		"--log-requests":                   "needs a database-url",
		"--addr nowhere":                   "listen: ",
		"--database-url postgres://:hush@": "inbox",
		"extra":                            "unknown command",
	} {
		line, stop := startReceiverCommand(t, strings.Fields(args)...)
		require.Empty(t, line, args)
		err := stop()
		require.ErrorContains(t, err, want, args)
		require.NotContains(t, err.Error(), "hush", args)
	}
}

func TestRingAndRememberedForgetTheOldest(t *testing.T) {
	t.Parallel()
	r := newRing[int](3)
	for i := 1; i <= 5; i++ {
		require.EqualValues(t, i, r.push(i*10))
	}
	require.Nil(t, r.get(2))
	for n := uint64(3); n <= 5; n++ {
		require.EqualValues(t, n*10, *r.get(n))
	}
	require.Nil(t, r.get(6))
	r.reset()
	require.Nil(t, r.get(5))
	require.EqualValues(t, 6, r.push(60))
	require.Equal(t, 60, *r.get(6))

	m := newRemembered[string, int](2)
	for _, key := range []string{"a", "b", "a", "c"} {
		value, _ := m.touch(key)
		*value++
	}
	require.ElementsMatch(t, []string{"b", "c"}, keysOf(m.values))
	_, isNew := m.touch("a")
	require.True(t, isNew)
}

func keysOf[K comparable, V any](m map[K]V) (keys []K) {
	for key := range maps.Keys(m) {
		keys = append(keys, key)
	}
	return keys
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
