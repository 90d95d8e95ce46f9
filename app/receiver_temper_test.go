package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
