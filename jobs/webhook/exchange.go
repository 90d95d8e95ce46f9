package webhook

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// exchange follows one request through the transport, to tell afterwards how far it came.
type exchange struct {
	ctx context.Context //nolint:containedctx // lives as long as one request

	resolving, handshaking atomic.Bool // set by the dialing goroutine
	wrote                  atomic.Bool // the request was written completely; set by the writing goroutine

	clock stopwatch
	hooks httptrace.ClientTrace // here rather than by itself: one allocation less for each request

	connected bool
	reused    bool
	conn      *conn // under HTTP/1 the connection, else nil
	mark      int64 // bytes written on conn before this request
}

// trace returns the request's context with the hooks that fill x.
func (x *exchange) trace() context.Context {
	x.hooks = httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) { x.resolving.Store(true) },
		DNSDone: func(info httptrace.DNSDoneInfo) {
			x.resolving.Store(false)
			if info.Err == nil {
				x.clock.take(&x.clock.dns)
			}
		},
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				x.clock.take(&x.clock.connect)
			}
		},
		TLSHandshakeStart: func() { x.handshaking.Store(true) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err == nil {
				x.clock.take(&x.clock.tls)
			}
		},
		GotConn: x.gotConn,
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				x.wrote.Store(true)
			}
		},
		GotFirstResponseByte: func() { x.clock.take(&x.clock.firstByte) },
	}
	return httptrace.WithClientTrace(x.ctx, &x.hooks)
}

// gotConn runs when the transport has chosen a connection and before it writes, in the goroutine of Send.
func (x *exchange) gotConn(info httptrace.GotConnInfo) {
	x.connected, x.reused = true, info.Reused
	x.clock.gotConn(info)
	x.conn, x.mark = http1Conn(info.Conn), 0
	if x.conn == nil {
		return
	}
	if info.Reused {
		x.mark = x.conn.begin(x.ctx)
	}
}

// neverSent reports whether not one byte of the request left this host: only then may it be sent again without being
// a second request. A new connection is not tried twice.
func (x *exchange) neverSent() bool {
	return x.conn != nil && x.reused && x.conn.written.Load() == x.mark
}

// http1Conn returns our own connection under c, or nil when c carries HTTP/2, which frames its responses.
func http1Conn(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			return nil
		}
		c = secure.NetConn()
	}
	own, _ := c.(*conn)

	return own
}
