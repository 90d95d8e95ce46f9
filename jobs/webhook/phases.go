package webhook

import (
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Phases say where a request's time went: each is the moment, from the call of [Sender.Send], at which that phase was over. Zero: it did
// not happen. A connection that was kept has neither DNS nor Connect nor TLS, a host that is an address no DNS, plain http no TLS, and a
// request that was never answered no FirstByte.
type Phases struct {
	DNS       time.Duration // the host's name was resolved
	Connect   time.Duration // the TCP connection stood
	TLS       time.Duration // the handshake was done
	FirstByte time.Duration // the first byte of the answer came
}

// stopwatch takes the moments of one exchange. The dialing goroutine may go on after its request has ended, or has taken another
// connection, hence the atomics; a moment is taken once.
type stopwatch struct {
	start                        time.Time
	dns, connect, tls, firstByte atomic.Int64 // nanoseconds; 0: did not happen
}

func (s *stopwatch) take(moment *atomic.Int64) {
	moment.CompareAndSwap(0, max(1, int64(time.Since(s.start))))
}

// gotConn forgets the dial of this request where the connection that it got is another one.
func (s *stopwatch) gotConn(info httptrace.GotConnInfo) {
	if !info.Reused {
		return
	}
	const elsewhere = -1 // so that a dial that ends later changes nothing
	s.dns.Store(elsewhere)
	s.connect.Store(elsewhere)
	s.tls.Store(elsewhere)
}

func (s *stopwatch) phases() Phases {
	read := func(moment *atomic.Int64) time.Duration { return max(0, time.Duration(moment.Load())) }
	return Phases{DNS: read(&s.dns), Connect: read(&s.connect), TLS: read(&s.tls), FirstByte: read(&s.firstByte)}
}
