package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

func TestSendToRefusedNetworks(t *testing.T) {
	t.Parallel()

	var conns counter
	inside := rawReceiver(t, "", func(net.Conn, int) { conns.Add(1) })
	port := portOf(t, inside)

	resolver := fakeDNS(func(name string) ([]net.IP, dnsmessage.RCode) {
		return map[string][]net.IP{"public.test.": addresses("8.8.8.8"), "meta.test.": addresses("169.254.169.254"), "six.test.": addresses("::1")}[name], dnsmessage.RCodeSuccess
	})
	strict := newSender(t, func(o *SenderOptions) { o.Guard, o.Resolver = Guard{}, resolver })
	other := newSender(t, func(o *SenderOptions) {
		o.Guard, o.Resolver = Guard{Allow: mustNetworks(t, "10.0.0.0/8 169.254.0.0/16")}, resolver
	})

	probe, err := net.Listen("tcp", "[::1]:0")
	noIPv6 := err != nil // then the socket fails before the guard is asked
	if err == nil {
		probe.Close()
	}

	for _, tt := range []struct {
		sender     *Sender
		url, class string
	}{
		{strict, "https://127.0.0.1:" + port, "blocked_loopback"},
		{strict, "http://127.0.0.1:" + port, "blocked_loopback"},
		{strict, "https://[::ffff:127.0.0.1]:" + port, "blocked_loopback"},
		{strict, "https://[::1]:" + port, "blocked_loopback"},
		{strict, "https://six.test:" + port, "blocked_loopback"},
		{strict, "https://0.0.0.0:" + port, "blocked_unspecified"},
		{strict, "https://10.0.0.1:" + port, "blocked_private"},
		{strict, "http://8.8.8.8:" + port, "blocked_plain_http"},
		{other, "http://public.test:" + port, "blocked_plain_http"},
		{other, "https://meta.test/", "blocked_metadata"},
	} {
		if noIPv6 && (strings.Contains(tt.url, "six") || strings.Contains(tt.url, "[::1]")) {
			continue
		}
		o := tt.sender.Send(t.Context(), request(t, tt.url))
		require.Equal(t, Blocked, o.Verdict, tt.url)
		require.Equal(t, tt.class, o.ErrorClass, tt.url)
		require.Contains(t, o.Reason, "WEIR_ALLOW_NETWORKS")
		require.False(t, o.Unknown)
	}

	// Numeric spellings (URL-03), which may or may not resolve here: whatever they come to, nobody is reached.
	for _, host := range []string{"2130706433", "0x7f000001", "127.1", "0177.0.0.1", "127.0.0.1.", "localhost.", "LOCALHOST"} {
		o := newSender(t, func(o *SenderOptions) { o.Guard = Guard{} }).Send(t.Context(), request(t, "https://"+host+":"+port))
		require.NotEqual(t, Delivered, o.Verdict, host)
	}
	require.Zero(t, conns.Load())
}

// URL-06: the name is public (here: allowed) at first and private later.
func TestSendAfterDNSRebinding(t *testing.T) {
	t.Parallel()

	good := rawReceiver(t, "", answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	var reached counter
	rawReceiver(t, "127.0.0.2:"+portOf(t, good), func(net.Conn, int) { reached.Add(1) })

	address := make(chan string, 1) // holds the present address
	address <- "127.0.0.1"
	sender := newSender(t, func(o *SenderOptions) {
		o.Resolver = fakeDNS(func(string) ([]net.IP, dnsmessage.RCode) {
			a := <-address
			address <- a
			return addresses(a), dnsmessage.RCodeSuccess
		})
	})
	r := request(t, "http://rebind.test:"+portOf(t, good))

	require.Equal(t, Delivered, sender.Send(t.Context(), r).Verdict)
	<-address
	address <- "127.0.0.2"
	require.Equal(t, Delivered, sender.Send(t.Context(), r).Verdict, "the kept connection leads to the address that was checked")
	for range 5 {
		sender.Close()
		o := sender.Send(t.Context(), r)
		require.Equal(t, Blocked, o.Verdict)
		require.Equal(t, "blocked_loopback", o.ErrorClass)
	}
	require.Zero(t, reached.Load())
}

// URL-07: of several addresses only permitted ones are dialled, in either order.
func TestSendToAHostWithSeveralAddresses(t *testing.T) {
	t.Parallel()

	good := rawReceiver(t, "", answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	var reached counter
	rawReceiver(t, "127.0.0.2:"+portOf(t, good), func(net.Conn, int) { reached.Add(1) })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := portOf(t, "http://"+free.Addr().String())
	free.Close()

	for _, order := range [][]string{{"127.0.0.2", "127.0.0.1"}, {"127.0.0.1", "127.0.0.2"}, {"::1", "127.0.0.1"}} {
		sender := newSender(t, func(o *SenderOptions) {
			o.Resolver = fakeDNS(func(string) ([]net.IP, dnsmessage.RCode) { return addresses(order...), dnsmessage.RCodeSuccess })
		})
		o := sender.Send(t.Context(), request(t, "http://several.test:"+portOf(t, good)))
		require.Equal(t, Delivered, o.Verdict, "%v: %s", order, o.Reason)

		o = sender.Send(t.Context(), request(t, "http://several.test:"+closed))
		require.Equal(t, Retry, o.Verdict, "an outage of the permitted address is no refusal: %s", o.Reason)
		require.Equal(t, ClassConnectionRefused, o.ErrorClass)
	}
	require.Zero(t, reached.Load())
}

func TestCheckHostAtSave(t *testing.T) {
	t.Parallel()

	resolver := fakeDNS(func(name string) ([]net.IP, dnsmessage.RCode) {
		if name == "nx.test." {
			return nil, dnsmessage.RCodeNameError
		}
		return map[string][]net.IP{"in.test.": addresses("10.0.0.24"), "mixed.test.": addresses("10.0.0.24", "8.8.8.8")}[name], dnsmessage.RCodeSuccess
	})
	check := func(raw string) error {
		u, err := url.Parse(raw)
		require.NoError(t, err)
		return Guard{}.CheckHost(t.Context(), resolver, u)
	}
	require.ErrorContains(t, check("https://in.test/"), "10.0.0.24 is not a public address")
	require.NoError(t, check("https://mixed.test/"))
	require.ErrorContains(t, check("http://mixed.test/"), "not a public address")
	require.NoError(t, check("https://nx.test/"))
}

func TestSendWhenTheNameCannotBeLookedUp(t *testing.T) {
	t.Parallel()

	block := make(chan struct{})
	t.Cleanup(func() { close(block) })
	sender := newSender(t, func(o *SenderOptions) {
		o.Resolver = fakeDNS(func(name string) ([]net.IP, dnsmessage.RCode) {
			switch name {
			case "nx.invalid.":
				return nil, dnsmessage.RCodeNameError
			case "slow.test.":
				<-block
			}
			return nil, dnsmessage.RCodeServerFailure
		})
	})
	for host, want := range map[string]string{"nx.invalid": ClassDNS, "broken.test": ClassDNSTemporary, "slow.test": ClassDNSTemporary} {
		r := request(t, "https://"+host+"/")
		r.Timeout = 500 * time.Millisecond
		o := sender.Send(t.Context(), r)
		require.Equal(t, Retry, o.Verdict)
		require.Equal(t, want, o.ErrorClass, "%s: %s", host, o.Reason)
		require.NotContains(t, o.Reason, host)
	}
}

func TestSendWhenNobodyAnswersTheDoor(t *testing.T) {
	t.Parallel()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := listener.Addr().String()
	listener.Close()
	o := newSender(t, nil).Send(t.Context(), request(t, "http://"+closed))
	require.Equal(t, ClassConnectionRefused, o.ErrorClass, o.Reason)
	require.Equal(t, Retry, o.Verdict)

	silent := rawReceiver(t, "", func(c net.Conn, _ int) { io.Copy(io.Discard, c) })
	sender := newSender(t, func(o *SenderOptions) { o.ConnectTimeout = 100 * time.Millisecond })
	o = sender.Send(t.Context(), request(t, strings.Replace(silent, "http:", "https:", 1)))
	require.Equal(t, ClassConnectTimeout, o.ErrorClass, o.Reason)
	require.False(t, o.Unknown)
	require.Less(t, o.Took, 15*time.Second)
}

// NET-13: each cause has its sentence, and no handler ever runs.
func TestSendTLSProblems(t *testing.T) {
	t.Parallel()

	var reached counter
	serve := func(t *testing.T, certificate *tls.Certificate) *httptest.Server {
		t.Helper()
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		if certificate == nil {
			server.Start()
		} else {
			server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
			server.StartTLS()
		}
		t.Cleanup(server.Close)
		return server
	}
	roots := x509.NewCertPool()
	certificate := func(notAfter time.Time, name string) *tls.Certificate {
		c := newCertificate(t, notAfter, name)
		roots.AddCert(c.Leaf)
		return c
	}
	expired := serve(t, certificate(time.Now().Add(-time.Hour), "127.0.0.1"))
	wrong := serve(t, certificate(time.Now().Add(time.Hour), "10.9.9.9"))
	unknown := serve(t, newCertificate(t, time.Now().Add(time.Hour), "127.0.0.1"))
	plain := serve(t, nil)
	closing := rawReceiver(t, "", func(c net.Conn, _ int) { c.Read(make([]byte, 16)) })

	sender := newSender(t, func(o *SenderOptions) { o.RootCAs = roots })
	for cause, address := range map[string]string{
		"expired":               expired.URL,
		"unknown authority":     unknown.URL,
		"another host name":     wrong.URL,
		"does not speak TLS":    plain.URL,
		"closed the connection": closing,
	} {
		o := sender.Send(t.Context(), request(t, strings.Replace(address, "http:", "https:", 1)))
		require.Equal(t, Retry, o.Verdict, cause)
		require.Equal(t, ClassTLS, o.ErrorClass, "%s: %s", cause, o.Reason)
		require.Contains(t, o.Reason, cause)
		require.False(t, o.Unknown)
	}
	require.Zero(t, reached.Load())

	// Go's TLS server answers plain http with a status of its own, others with a TLS alert (TestSendOddResponses).
	o := sender.Send(t.Context(), request(t, strings.Replace(unknown.URL, "https:", "http:", 1)))
	require.Equal(t, Reject, o.Verdict)
	require.Equal(t, 400, o.Status)
}

func TestSendRefusesOldTLS(t *testing.T) {
	t.Parallel()

	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	server.StartTLS()
	t.Cleanup(server.Close)

	o := newSender(t, func(o *SenderOptions) { o.RootCAs = rootsOf(server) }).Send(t.Context(), request(t, server.URL))
	require.Equal(t, ClassTLS, o.ErrorClass, o.Reason)
	require.Contains(t, o.Reason, "refused the handshake")
}

// NET-08: the receiver sends GOAWAY after each response. Every event arrives once and with its whole body.
func TestSendHTTP2WithGoAway(t *testing.T) {
	t.Parallel()

	body := []byte(strings.Repeat("0123456789abcdef", 4096)) // 64 KiB: more than one frame
	want := sha256.Sum256(body)
	seen := make(chan string, 200)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 2 || sha256.Sum256(raw) != want || r.ContentLength != int64(len(body)) {
			seen <- fmt.Sprintf("%s: %s, %d of %d bytes", r.Header.Get("webhook-id"), r.Proto, len(raw), r.ContentLength)
			return
		}
		w.Header().Set("Connection", "close") // Go's HTTP/2 server turns this into GOAWAY
		w.WriteHeader(http.StatusAccepted)
		seen <- r.Header.Get("webhook-id") + r.Header.Get("idempotency-key")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	sender := newSender(t, func(o *SenderOptions) { o.RootCAs = rootsOf(server) })

	results := make(chan Outcome, 50)
	for i := range 50 {
		go func() {
			r := request(t, server.URL)
			r.Message.ID, r.Message.Body = fmt.Sprintf("evt_%d", i), body
			results <- sender.Send(context.Background(), r)
		}()
	}
	for range 50 {
		o := <-results
		require.Equal(t, Delivered, o.Verdict, "%s %s", o.ErrorClass, o.Reason)
	}
	ids := map[string]int{}
	for range 50 {
		ids[<-seen]++
	}
	require.Empty(t, seen)
	for i := range 50 {
		require.Equal(t, 1, ids[fmt.Sprintf("evt_%devt_%d", i, i)])
	}
}

func TestSendHTTP2StreamReset(t *testing.T) {
	t.Parallel()

	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/large" {
			for i := range 17 { // 68 KiB; Go takes much more for an attack and ends the connection
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("a", 4<<10))
			}
			return
		}
		panic(http.ErrAbortHandler) // RST_STREAM
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	sender := newSender(t, func(o *SenderOptions) { o.RootCAs = rootsOf(server) })

	o := sender.Send(t.Context(), request(t, server.URL))
	require.Equal(t, ClassConnectionReset, o.ErrorClass, o.Reason)
	require.True(t, o.Unknown)
	o = sender.Send(t.Context(), request(t, server.URL+"/large"))
	require.Equal(t, ClassHeaderTooLarge, o.ErrorClass, o.Reason)
}

// A receiver that wants a client certificate says so after the handshake, where TLS 1.3 puts it.
func TestSendToAReceiverThatWantsAClientCertificate(t *testing.T) {
	t.Parallel()

	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)

	o := newSender(t, func(o *SenderOptions) { o.RootCAs = rootsOf(server) }).Send(t.Context(), request(t, server.URL))
	require.Equal(t, Retry, o.Verdict)
	require.Contains(t, []string{ClassTLS, ClassConnectionReset}, o.ErrorClass, o.Reason) // the alert may lose against the reset
}

func TestSendKeepsAnHTTP1ConnectionUnderTLS(t *testing.T) {
	t.Parallel()

	var conns counter
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)

	sender := newSender(t, func(o *SenderOptions) { o.RootCAs = rootsOf(server) })
	for range 20 {
		o := sender.Send(t.Context(), request(t, server.URL))
		require.Equal(t, Delivered, o.Verdict, o.Reason)
		require.Equal(t, "HTTP/1.1", string(o.Excerpt))
	}
	require.EqualValues(t, 1, conns.Load())
}

func TestTransportsIgnoreTheEnvironment(t *testing.T) {
	t.Parallel()

	sender := newSender(t, nil)
	for _, transport := range []*http.Transport{sender.http, sender.https} {
		require.Nil(t, transport.Proxy)
		require.True(t, transport.DisableCompression)
	}
	require.False(t, sender.https.TLSClientConfig.InsecureSkipVerify)
	require.EqualValues(t, tls.VersionTLS12, sender.https.TLSClientConfig.MinVersion)
}

func rootsOf(server *httptest.Server) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())

	return roots
}

// newCertificate returns a certificate for the address name that is its own authority.
func newCertificate(t testing.TB, notAfter time.Time, name string) *tls.Certificate {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "receiver"}, IPAddresses: addresses(name),
		NotBefore: notAfter.Add(-48 * time.Hour), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(raw)
	require.NoError(t, err)

	return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: leaf}
}
