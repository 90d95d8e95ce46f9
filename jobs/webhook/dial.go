package webhook

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// errPermittedFailed is the outcome of a dial where some addresses of a host were blocked and the others did not
// answer: that is an outage, to be retried, and not a refusal of ours.
var errPermittedFailed = errors.New("the addresses of the host that may be used did not accept the connection")

// errSurplus ends a connection on which bytes arrived that no request had asked for.
var errSurplus = errors.New("the receiver sent more than its response; the connection was dropped")

// dialFunc returns the transport's dialer. The guard is asked about each address after name resolution, immediately
// before the connect call (net.Dialer.ControlContext), so the address checked is the address dialled. Where a host
// has several addresses, those that are refused are passed over and the next one is tried.
func dialFunc(guard Guard, resolver *net.Resolver, timeout time.Duration, plain bool) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		var permitted atomic.Bool // did at least one address pass?
		dialer := net.Dialer{
			Timeout:  timeout,
			Resolver: resolver,
			ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
				target, err := netip.ParseAddrPort(address)
				if err != nil {
					return &BlockedError{Reason: BlockedInvalid}
				}
				if err := guard.checkDial(target.Addr(), plain); err != nil {
					return err
				}
				permitted.Store(true)

				return nil
			},
		}

		c, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			var blocked *BlockedError
			if permitted.Load() && errors.As(err, &blocked) {
				return nil, errPermittedFailed
			}

			return nil, err
		}

		return newConn(c), nil
	}
}

// conn closes a hole in connection reuse under HTTP/1. net/http hands a connection to the next request as soon as a
// response has been read, and looks only afterwards whether surplus bytes follow; a request that is quick enough takes
// those bytes for its own answer, and its event would be marked delivered by them. So before a request goes out on a
// used connection, begin waits until the transport's reader has used up everything and is asking for more, and from
// then until the request's first byte is written, whatever arrives kills the connection.
//
// Bytes that arrive after the request was written cannot be told from an answer; HTTP/1 has no means for it.
type conn struct {
	net.Conn

	mu       sync.Mutex
	changed  sync.Cond
	parked   bool // the reader is inside Read, hence has nothing left over
	awaiting bool // a request has begun on this connection and not been written yet
	broken   bool // closed, or killed by surplus bytes

	written atomic.Int64
}

func newConn(c net.Conn) *conn {
	wrapped := &conn{Conn: c}
	wrapped.changed.L = &wrapped.mu

	return wrapped
}

// begin prepares a used connection for its next request and returns how many bytes had been written before it. It
// returns early when the connection breaks or ctx ends; the transport then finds out by itself.
func (c *conn) begin(ctx context.Context) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.parked && !c.broken { // rare: the reader is on its way back
		stop := context.AfterFunc(ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changed.Broadcast()
		})
		defer stop()
	}
	for !c.parked && !c.broken && ctx.Err() == nil {
		c.changed.Wait()
	}
	c.awaiting = true

	return c.written.Load()
}

func (c *conn) Read(b []byte) (int, error) {
	c.mu.Lock()
	if c.broken {
		c.mu.Unlock()
		return 0, errSurplus
	}
	c.parked = true
	c.changed.Broadcast()
	c.mu.Unlock()

	n, err := c.Conn.Read(b)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.parked = false
	if n > 0 && c.awaiting {
		c.broken = true
		return 0, errSurplus
	}

	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.awaiting = false
	broken := c.broken
	c.mu.Unlock()
	if broken {
		return 0, errSurplus
	}

	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))

	return n, err
}

func (c *conn) Close() error {
	c.mu.Lock()
	c.broken = true
	c.changed.Broadcast()
	c.mu.Unlock()

	return c.Conn.Close()
}
