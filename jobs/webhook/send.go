package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Defaults and limits of a [Sender].
const (
	DefaultTimeout        = 10 * time.Second // one request in all, connection and response body included
	DefaultConnectTimeout = 5 * time.Second  // TCP connect, and again for the TLS handshake
	DefaultMaxResponse    = 16 << 10         // bytes kept of a response body

	maxResponseHeader = 64 << 10  // bytes, interim (1xx) responses included
	maxDrain          = 256 << 10 // bytes read of a body so that its connection can be used again
	maxResends        = 3         // of requests of which not one byte was written; see Send
)

// SenderOptions configure a [Sender]. The zero value of each field has the default named.
type SenderOptions struct {
	Guard          Guard
	Version        string        // of the product, for User-Agent; "dev"
	MaxResponse    int           // bytes kept of a response body; DefaultMaxResponse
	ConnectTimeout time.Duration // DefaultConnectTimeout

	MaxIdlePerHost int            // idle connections kept per host; 256
	RootCAs        *x509.CertPool // authorities trusted for https; the system's
	Resolver       *net.Resolver  // the system's
	Now            func() time.Time
}

// Sender sends requests and keeps connections open between them. It is safe for concurrent use; make one per process.
type Sender struct {
	version     string
	maxResponse int
	now         func() time.Time
	https, http *http.Transport // two, because only the dialer knows whether plain http may go to an address
}

// Request is one message for one destination.
type Request struct {
	URL     string            // as CheckURL returned it
	Keys    []Key             // at least one; each gives a signature
	Headers map[string]string // custom headers; those that CheckHeader refuses are left out
	Timeout time.Duration     // DefaultTimeout when zero
	Message Message
	Policy  Policy

	// KeepHeaders asks for the response's headers even where it is a success; of others they are kept anyway.
	KeepHeaders bool
}

// NewSender returns a Sender. Close it at the end.
func NewSender(o SenderOptions) *Sender {
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.MaxResponse <= 0 {
		o.MaxResponse = DefaultMaxResponse
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if o.MaxIdlePerHost <= 0 {
		o.MaxIdlePerHost = 256
	}
	if o.Now == nil {
		o.Now = time.Now
	}

	return &Sender{
		version:     o.Version,
		maxResponse: o.MaxResponse,
		now:         o.Now,
		https:       newTransport(o, false),
		http:        newTransport(o, true),
	}
}

// newTransport returns the HTTP client for https, or for plain http. It is a transport and not an http.Client:
// redirects are never followed, cookies never kept, and userinfo in a URL never becomes a header.
func newTransport(o SenderOptions, plain bool) *http.Transport {
	t := &http.Transport{
		Proxy:                  nil, // a proxy would make the guard check the proxy's address
		DialContext:            dialFunc(o.Guard, o.Resolver, o.ConnectTimeout, plain),
		TLSHandshakeTimeout:    o.ConnectTimeout,
		DisableCompression:     true, // no Accept-Encoding, hence no gzip bomb
		MaxResponseHeaderBytes: maxResponseHeader,
		MaxIdleConns:           4096,
		MaxIdleConnsPerHost:    o.MaxIdlePerHost,
		IdleConnTimeout:        90 * time.Second,
	}
	if !plain {
		t.ForceAttemptHTTP2 = true // a dialer of our own would otherwise turn HTTP/2 off
		t.TLSClientConfig = &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            o.RootCAs,
			ClientSessionCache: tls.NewLRUClientSessionCache(1024),
		}
		// A connection that died without a word would otherwise time out every request put on it.
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second}
	}

	return t
}

// Close closes the connections that are idle. Requests under way are not disturbed.
func (s *Sender) Close() {
	s.https.CloseIdleConnections()
	s.http.CloseIdleConnections()
}

// Send makes one POST and says what came of it. It returns within r.Timeout, or when ctx ends.
//
// As soon as a status has arrived the verdict stands on it, whatever the body then does. One call puts at most one
// complete request in front of the receiver. Requests are repeated inside only where it cannot have been processed:
// not one byte of it was written (a kept connection was found closed), or an HTTP/2 receiver said so (GOAWAY,
// REFUSED_STREAM; RFC 9113 §8.7).
func (s *Sender) Send(ctx context.Context, r Request) Outcome {
	start := time.Now() // not s.now: durations need the monotonic clock
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	var o Outcome
	for range maxResends + 1 {
		x := &exchange{ctx: limited, clock: stopwatch{start: start}}
		request, err := s.newRequest(x.trace(), r)
		if err != nil {
			o = Outcome{Verdict: Reject, ErrorClass: ClassInvalidRequest, Reason: err.Error()}
			break
		}

		response, err := s.transport(request).RoundTrip(request) //nolint:bodyclose // receive closes it
		if err == nil {
			o = s.receive(response, r)
			o.Phases = x.clock.phases()
			break
		}

		o = failure(ctx, err, x)
		o.Phases = x.clock.phases()
		if limited.Err() != nil || !x.neverSent() {
			break
		}
	}
	o.Took = time.Since(start)

	return o
}

func (s *Sender) transport(request *http.Request) *http.Transport {
	if request.URL.Scheme == "http" {
		return s.http
	}

	return s.https
}

// newRequest builds the signed request. Its errors are sentences without URL or secret.
func (s *Sender) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	// bytes.Reader gives the request its Content-Length and its GetBody, which HTTP/2 needs to send it again after
	// a GOAWAY.
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(r.Message.Body))
	if err != nil || request.URL.Host == "" || (request.URL.Scheme != "https" && request.URL.Scheme != "http") {
		return nil, errors.New("the destination's URL cannot be used") // err would quote it
	}

	for name, value := range r.Headers {
		if CheckHeader(name, value) == nil {
			request.Header.Set(name, value)
		}
	}
	r.Message.setHeaders(request.Header, s.version)

	now := s.now()
	id := encodeHeaderValue(r.Message.ID) // what the receiver sees is what it will verify
	signature, err := Sign(r.Keys, id, now, r.Message.Body)
	if err != nil {
		return nil, errors.New("the destination has no usable signing secret")
	}
	request.Header[HeaderTimestamp] = []string{strconv.FormatInt(now.Unix(), 10)}
	request.Header[HeaderSignature] = []string{signature}

	return request, nil
}
