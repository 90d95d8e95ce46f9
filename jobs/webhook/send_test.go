package webhook

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

func TestSendOnTheWire(t *testing.T) {
	t.Parallel()

	type seen struct {
		header http.Header
		host   string
		length int64
		coding []string
		body   []byte
		target string
	}
	requests := make(chan seen, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- seen{r.Header.Clone(), r.Host, r.ContentLength, r.TransferEncoding, body, r.Method + " " + r.RequestURI + " " + r.Proto}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)

	r := request(t, server.URL+"/Hook%2Fa?Q=1")
	r.Message.Body = []byte(`{"city":"Zürich", "price": 136.0}`)
	r.Message.Subject = "Lieferung ü 100%\n"
	r.Message.Replay = true
	r.Headers = map[string]string{"X-Api-Key": "k-123456", "webhook-id": "forged", "Host": "evil.test", "Content-Type": "text/plain", "X-Bad": "a\r\nb: c"}

	o := newSender(t, nil).Send(t.Context(), r)
	require.Equal(t, Delivered, o.Verdict, o.Reason)
	require.Equal(t, 204, o.Status)
	require.Positive(t, o.Took)
	require.False(t, o.Truncated)

	got := <-requests
	require.Equal(t, "POST /Hook%2Fa?Q=1 HTTP/1.1", got.target)
	require.Equal(t, server.Listener.Addr().String(), got.host)
	require.Equal(t, r.Message.Body, got.body)
	require.Equal(t, int64(len(r.Message.Body)), got.length)
	require.Empty(t, got.coding)
	for name, want := range map[string]string{
		"Webhook-Id": "evt_1", "Idempotency-Key": "evt_1", "Weir-Event-Type": "shipment.updated",
		"Weir-Subject": "Lieferung %C3%BC 100%25%0A", "Weir-Version": "7", "Weir-Event-Time": "2026-11-30T12:00:00Z",
		"Weir-Attempt": "1", "Weir-Delivery-Id": "dlv_1", "Weir-Replay": "true",
		"Content-Type": "application/json", "User-Agent": "Weir/1.2.3", "X-Api-Key": "k-123456",
		"Expect": "", "Accept-Encoding": "", "X-Bad": "", "Transfer-Encoding": "",
	} {
		require.Equal(t, want, got.header.Get(name), name)
		require.LessOrEqual(t, len(got.header.Values(name)), 1, name)
	}

	verifier, err := standardwebhooks.NewWebhook(testSecret)
	require.NoError(t, err)
	require.NoError(t, verifier.Verify(got.body, got.header))
}

func TestSendLeavesEmptyHeadersOutAndSignsAnOddID(t *testing.T) {
	t.Parallel()

	headers := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header.Clone() }))
	t.Cleanup(server.Close)

	o := newSender(t, nil).Send(t.Context(), Request{URL: server.URL, Keys: []Key{mustKey(t, testSecret)}, Message: Message{ID: " ü%1 "}})
	require.Equal(t, Delivered, o.Verdict, o.Reason)

	got := <-headers
	require.Equal(t, "%20%C3%BC%251%20", got.Get("webhook-id"))
	for _, name := range []string{"weir-event-type", "weir-subject", "weir-version", "weir-event-time", "weir-attempt", "weir-delivery-id", "weir-replay"} {
		require.NotContains(t, got, http.CanonicalHeaderKey(name))
	}
	verifier, err := standardwebhooks.NewWebhook(testSecret)
	require.NoError(t, err)
	require.NoError(t, verifier.Verify(nil, got))
}

func TestSendSignsEachAttemptFreshly(t *testing.T) {
	t.Parallel()

	stamps := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stamps <- r.Header.Get("webhook-timestamp") }))
	t.Cleanup(server.Close)

	at := now
	sender := newSender(t, func(o *SenderOptions) { o.Now = func() time.Time { return at } })
	sender.Send(t.Context(), request(t, server.URL))
	at = at.Add(400 * time.Second)
	sender.Send(t.Context(), request(t, server.URL))
	require.Equal(t, "1796040000", <-stamps)
	require.Equal(t, "1796040400", <-stamps)
}

func TestSendRefusesWhatItCannotBuild(t *testing.T) {
	t.Parallel()

	for name, change := range map[string]func(*Request){
		"no key":     func(r *Request) { r.Keys = nil },
		"zero key":   func(r *Request) { r.Keys = []Key{{}} },
		"no URL":     func(r *Request) { r.URL = "" },
		"bad URL":    func(r *Request) { r.URL = "https://user:hookpass@[::1" },
		"bad scheme": func(r *Request) { r.URL = "file:///etc/passwd" },
	} {
		r := request(t, "https://127.0.0.1:1/")
		change(&r)
		o := newSender(t, nil).Send(t.Context(), r)
		require.Equal(t, Reject, o.Verdict, name)
		require.Equal(t, ClassInvalidRequest, o.ErrorClass, name)
		require.NotContains(t, o.Reason, "hookpass")
	}
}

// NET-14 and NET-10: none of these is delivered, none panics, each has one class.
func TestSendOddResponses(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		answer  string
		verdict Verdict
		class   string
	}{
		"101":                    {"HTTP/1.1 101 Switching Protocols\r\n\r\n", Retry, ClassProtocol},
		"101 with upgrade":       {"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", Retry, ClassProtocol},
		"304":                    {"HTTP/1.1 304 Not Modified\r\n\r\n", Reject, ClassRedirect},
		"099":                    {"HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n", Retry, ClassProtocol},
		"600":                    {"HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n", Retry, ClassProtocol},
		"two digits":             {"HTTP/1.1 20 OK\r\n\r\n", Retry, ClassProtocol},
		"sign":                   {"HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n", Retry, ClassProtocol},
		"ICY":                    {"ICY 200 OK\r\n\r\n", Retry, ClassProtocol},
		"HTTP/0.9":               {"<html>hello</html>\n", Retry, ClassProtocol},
		"a TLS alert":            {"\x15\x03\x01\x00\x02\x02\x46\r\n", Retry, ClassProtocol},
		"bad header":             {"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", Retry, ClassProtocol},
		"two content lengths":    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", Retry, ClassProtocol},
		"huge header":            {"HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 11<<20) + "\r\n\r\n", Retry, ClassHeaderTooLarge},
		"early hints then 200":   {strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 30) + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Delivered, ""},
		"endless early hints":    {strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 5000), Retry, ClassHeaderTooLarge},
		"no reason phrase":       {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", Delivered, ""},
		"HTTP/1.0":               {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", Delivered, ""},
		"410":                    {"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", Gone, ClassGone},
		"body with 204":          {"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", Delivered, ""},
		"broken chunk after 200": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Delivered, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			url := rawReceiver(t, "", answer(tt.answer))
			o := newSender(t, nil).Send(t.Context(), request(t, url))
			require.Equal(t, tt.verdict, o.Verdict, o.Reason)
			require.Equal(t, tt.class, o.ErrorClass, o.Reason)
			require.Less(t, len(o.Reason), 200)
			require.NotContains(t, o.Reason, "hello")
		})
	}
}

func TestSendTimeoutAfterTheRequestIsUnknown(t *testing.T) {
	t.Parallel()

	for name, serve := range map[string]func(net.Conn, int){
		"silence": func(c net.Conn, _ int) { io.Copy(io.Discard, c) },
		"dripping headers": func(c net.Conn, _ int) {
			readRequest(bufio.NewReader(c))
			for _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n"); err == nil; _, err = io.WriteString(c, "X-A: b\r\n") {
				time.Sleep(20 * time.Millisecond) // the drip itself, not a wait
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := request(t, rawReceiver(t, "", serve))
			r.Timeout = 200 * time.Millisecond
			o := newSender(t, nil).Send(t.Context(), r)
			require.Equal(t, Retry, o.Verdict)
			require.Equal(t, ClassTimeout, o.ErrorClass, o.Reason)
			require.True(t, o.Unknown)
			require.Contains(t, o.Reason, "outcome unknown")
			require.Less(t, o.Took, 15*time.Second)
		})
	}
}

func TestSendAStatusCountsWhateverTheBodyDoes(t *testing.T) {
	t.Parallel()

	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunk := "1000\r\n" + strings.Repeat("x", 0x1000) + "\r\n"

	for name, tt := range map[string]struct {
		serve   func(net.Conn, int)
		excerpt int
	}{
		"hangs": {func(c net.Conn, _ int) {
			readRequest(bufio.NewReader(c))
			io.WriteString(c, head)
			io.Copy(io.Discard, c)
		}, 0},
		"endless": {func(c net.Conn, _ int) {
			readRequest(bufio.NewReader(c))
			for _, err := io.WriteString(c, head); err == nil; _, err = io.WriteString(c, chunk) {
			}
		}, DefaultMaxResponse},
		"cut off": {func(c net.Conn, _ int) { readRequest(bufio.NewReader(c)); io.WriteString(c, head+"5\r\nhe") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := request(t, rawReceiver(t, "", tt.serve))
			r.Timeout = 300 * time.Millisecond
			o := newSender(t, nil).Send(t.Context(), r)
			require.Equal(t, Delivered, o.Verdict, o.Reason)
			require.Len(t, o.Excerpt, tt.excerpt)
			require.True(t, o.Truncated)
			require.Less(t, o.Took, 15*time.Second)
			require.False(t, o.Unknown)
		})
	}
}

func TestSendKeepsABoundedExcerptAndReusesTheConnection(t *testing.T) {
	t.Parallel()

	var conns counter
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			w.WriteHeader(http.StatusInternalServerError)
			w.Write(bytes.Repeat([]byte("x"), 200<<10))
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 8 {
				z.Write(make([]byte, 1<<20))
			}
			z.Close()
		case "/echo":
			w.Header().Set("Retry-After", strings.Repeat("é", 200))
			w.Header().Set("X-Echo", "we got "+r.Header.Get("Authorization"))
			w.Header().Set("Set-Cookie", "session=abc")
			fmt.Fprintf(w, "you sent %s and %s", r.Header.Get("Authorization"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		}
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	sender := newSender(t, nil)

	for range 5 {
		o := sender.Send(t.Context(), request(t, server.URL+"/large"))
		require.Equal(t, Retry, o.Verdict)
		require.Len(t, o.Excerpt, DefaultMaxResponse)
		require.True(t, o.Truncated)
	}
	require.EqualValues(t, 1, conns.Load())

	o := sender.Send(t.Context(), request(t, server.URL+"/bomb"))
	require.Equal(t, Delivered, o.Verdict, o.Reason)
	require.LessOrEqual(t, len(o.Excerpt), DefaultMaxResponse)
	require.True(t, bytes.HasPrefix(o.Excerpt, []byte{0x1f, 0x8b}), "the body must not be inflated")

	r := request(t, server.URL+"/echo")
	r.Headers = map[string]string{"Authorization": "Bearer s3cr3t-token"}
	o = sender.Send(t.Context(), r)
	require.Empty(t, o.Headers, "nobody asked for the headers of a success")
	r.KeepHeaders = true
	o = sender.Send(t.Context(), r)
	require.Contains(t, o.Headers, Header{"X-Echo", "we got [redacted]"})
	require.Contains(t, o.Headers, Header{"Set-Cookie", "[redacted]"})
	require.Equal(t, "you sent [redacted] and [redacted]", string(o.Excerpt))
	require.Equal(t, strings.Repeat("?", 50), o.RetryAfterRaw, "100 bytes are 50 letters of two bytes")
	require.False(t, o.Truncated)
}

func TestSendNeverKeepsHalfASecretAtTheCut(t *testing.T) {
	t.Parallel()

	const secret = "s3cr3t-token-0123456789"
	for pad := range 64 {
		body := strings.Repeat(secret, 2) + strings.Repeat("x", pad) + strings.Repeat(secret, 10)
		sender := &Sender{maxResponse: 64}
		excerpt, truncated := sender.readBody(&http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, map[string]string{"X": secret})
		require.True(t, truncated)
		require.LessOrEqual(t, len(excerpt), 64)
		require.NotContains(t, string(excerpt), "s3cr", pad)
	}
}

func TestSendNeverFollowsARedirect(t *testing.T) {
	t.Parallel()

	var followed counter
	mux := http.NewServeMux()
	mux.HandleFunc("/b", func(http.ResponseWriter, *http.Request) { followed.Add(1) })
	mux.HandleFunc("/{code}", func(w http.ResponseWriter, r *http.Request) {
		var code int
		fmt.Sscan(r.PathValue("code"), &code)
		w.Header().Set("Location", "http://user:hookpass@169.254.169.254/b?token=hookpass#hookpass")
		if code == 302 {
			w.Header().Set("Location", "/b")
		}
		w.WriteHeader(code)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	for _, code := range []int{301, 302, 303, 307, 308} {
		o := newSender(t, nil).Send(t.Context(), request(t, fmt.Sprintf("%s/%d", server.URL, code)))
		require.Equal(t, Reject, o.Verdict)
		require.Equal(t, ClassRedirect, o.ErrorClass)
		require.Contains(t, o.Reason, fmt.Sprint(code))
		if code == 302 {
			require.Equal(t, "/b", o.Location)
		} else {
			require.Equal(t, "http://169.254.169.254/b", o.Location)
		}
	}
	require.Zero(t, followed.Load())
}

func TestSendShutdown(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	url := rawReceiver(t, "", func(c net.Conn, _ int) {
		readRequest(bufio.NewReader(c))
		cancel()
		io.Copy(io.Discard, c)
	})
	o := newSender(t, nil).Send(ctx, request(t, url))
	require.Equal(t, Retry, o.Verdict)
	require.Equal(t, ClassShutdown, o.ErrorClass)
	require.True(t, o.Unknown)
}

func BenchmarkSend(b *testing.B) {
	url := rawReceiver(b, "", answer("HTTP/1.1 204 No Content\r\n\r\n"))
	sender, r := newSender(b, nil), request(b, url)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if o := sender.Send(context.Background(), r); o.Verdict != Delivered {
				b.Error(o.Reason)
			}
		}
	})
}
