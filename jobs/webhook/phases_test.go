package webhook

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

func TestSendSaysWhereTheTimeWent(t *testing.T) {
	t.Parallel()
	const think = 30 * time.Millisecond
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(think) // the receiver's own time is what is measured
		w.WriteHeader(http.StatusNoContent)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	sender := newSender(t, func(o *SenderOptions) {
		o.RootCAs = rootsOf(server)
		o.Resolver = fakeDNS(func(string) ([]net.IP, dnsmessage.RCode) { return addresses("127.0.0.1"), dnsmessage.RCodeSuccess })
	})
	r := request(t, "https://example.com:"+portOf(t, server.URL)+"/")

	o := sender.Send(t.Context(), r)
	require.Equal(t, Delivered, o.Verdict, o.Reason)
	p := o.Phases
	require.Positive(t, p.DNS)
	require.Greater(t, p.Connect, p.DNS)
	require.Greater(t, p.TLS, p.Connect)
	require.GreaterOrEqual(t, p.FirstByte, p.TLS+think)
	require.LessOrEqual(t, p.FirstByte, o.Took)

	o = sender.Send(t.Context(), r)
	require.GreaterOrEqual(t, o.Phases.FirstByte, think)
	o.Phases.FirstByte = 0
	require.Zero(t, o.Phases, "the connection was kept")
}

func TestSendSaysHowFarARequestCame(t *testing.T) {
	t.Parallel()
	o := newSender(t, nil).Send(t.Context(), request(t, "http://127.0.0.1:1/"))
	require.Equal(t, ClassConnectionRefused, o.ErrorClass)
	require.Zero(t, o.Phases, "an address needs no lookup, and nobody listened")

	url := rawReceiver(t, "", func(c net.Conn, _ int) { c.Close() })
	o = newSender(t, nil).Send(t.Context(), request(t, url))
	require.Equal(t, ClassConnectionReset, o.ErrorClass)
	require.Positive(t, o.Phases.Connect)
	require.Zero(t, o.Phases.FirstByte)
}

func TestStopwatchForgetsADialThatWasNotUsed(t *testing.T) {
	t.Parallel()
	s := stopwatch{start: time.Now()}
	s.take(&s.dns)
	s.gotConn(httptrace.GotConnInfo{Reused: true})
	s.take(&s.connect) // the dial goes on in the background
	require.Zero(t, s.phases())
}

// What following one request on a new connection costs: well under 2 µs, beside a request that takes at least 50.
func BenchmarkTrace(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		x := &exchange{ctx: b.Context(), clock: stopwatch{start: time.Now()}}
		hooks := httptrace.ContextClientTrace(x.trace())
		hooks.DNSDone(httptrace.DNSDoneInfo{})
		hooks.ConnectDone("tcp", "", nil)
		hooks.TLSHandshakeDone(tls.ConnectionState{}, nil)
		hooks.GotFirstResponseByte()
		if x.clock.phases() == (Phases{}) {
			b.Fatal("nothing was taken")
		}
	}
}
