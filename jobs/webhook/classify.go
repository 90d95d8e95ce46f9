package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// failure turns the error of a request without a status into an outcome. caller is the context that Send was given:
// when that one ended, it is a shutdown and no fault of the receiver. The error's own text never gets into the
// outcome, because it may quote the URL or what the receiver sent.
//
// Every failure is a retry except a refusal of our own guard.
func failure(caller context.Context, err error, x *exchange) Outcome {
	o := Outcome{Verdict: Retry, Unknown: x.wrote.Load()}

	var blocked *BlockedError
	switch {
	case errors.Is(caller.Err(), context.Canceled):
		o.ErrorClass, o.Reason = ClassShutdown, "interrupted: this process is shutting down"
	case errors.As(err, &blocked):
		o.Verdict, o.ErrorClass, o.Reason = Blocked, ClassBlocked+blocked.Reason, blocked.Error()
	case !x.connected:
		o.ErrorClass, o.Reason = classifyConnect(err, x)
	default:
		o.ErrorClass, o.Reason = classifyExchange(err)
	}

	if o.Unknown {
		o.Reason += "; outcome unknown: the request had been written, the receiver may have applied it"
	}

	return o
}

// classifyConnect names what went wrong before a connection stood.
func classifyConnect(err error, x *exchange) (class, reason string) {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return ClassDNS, "name not found: the host of the URL does not exist in DNS"
	case errors.As(err, &dns):
		return ClassDNSTemporary, "the host's name could not be looked up for the moment"
	case isTimeout(err) && x.resolving.Load():
		return ClassDNSTemporary, "the lookup of the host's name did not finish in time"
	case isTimeout(err) && x.handshaking.Load():
		return ClassConnectTimeout, "connected, but the TLS handshake did not finish in time"
	case isTimeout(err):
		return ClassConnectTimeout, "no connection within the time allowed"
	case errors.Is(err, syscall.ECONNREFUSED):
		return ClassConnectionRefused, "connection refused: nobody listens at the host's address and port"
	case errors.Is(err, errPermittedFailed):
		return ClassConnectionRefused, errPermittedFailed.Error()
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		return ClassUnreachable, "there is no route to the host's address"
	case x.handshaking.Load():
		return ClassTLS, tlsCause(err)
	case errors.Is(err, syscall.ECONNRESET):
		return ClassConnectionReset, "the connection was reset while it was being set up"
	default:
		return ClassUnreachable, "the connection could not be set up"
	}
}

// tlsCause says in words why a handshake failed.
func tlsCause(err error) string {
	var (
		invalid   x509.CertificateInvalidError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		record    tls.RecordHeaderError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "TLS: the receiver's certificate has expired or is not valid yet"
	case errors.As(err, &authority):
		return "TLS: the receiver's certificate is self-signed or from an unknown authority"
	case errors.As(err, &hostname):
		return "TLS: the receiver's certificate is for another host name"
	case errors.As(err, &invalid):
		return "TLS: the receiver's certificate is not valid for a server"
	case errors.As(err, &record):
		return "TLS: the receiver does not speak TLS on this port"
	case errors.As(err, &op) && op.Op == "remote error": // how crypto/tls wraps an alert; its text is one per number
		return "TLS: the receiver refused the handshake (" + op.Err.Error() + ")"
	case isReset(err):
		return "TLS: the receiver closed the connection during the handshake"
	default:
		return "TLS: the handshake failed"
	}
}

// classifyExchange names what went wrong on a connection that stood. net/http has no types for most of these errors,
// so some are known only by their text; the tests pin each of them against the Go version in use.
func classifyExchange(err error) (class, reason string) {
	text := err.Error()
	var op *net.OpError
	switch {
	case isTimeout(err):
		return ClassTimeout, "timeout: no response within the time allowed"
	case errors.As(err, &op) && op.Op == "remote error": // under TLS 1.3 a receiver that misses a client certificate says so late
		return ClassTLS, tlsCause(err)
	case strings.Contains(text, "response headers exceeded"), strings.Contains(text, "header list larger than"):
		return ClassHeaderTooLarge, "the response's headers are larger than allowed"
	case isReset(err):
		return ClassConnectionReset, "the connection was closed or reset before a response arrived"
	case strings.Contains(text, `\x15\x03`): // a TLS alert record where a status line should be
		return ClassProtocol, "the receiver speaks TLS on this port; the URL must begin with https://"
	default:
		return ClassProtocol, "what the receiver sent is not a valid HTTP response"
	}
}

// isTimeout reports whether err is any kind of time running out.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }

	return errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout())
}

// isReset reports whether the other side ended the connection, or under HTTP/2 the stream.
func isReset(err error) bool {
	var op *net.OpError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errSurplus) || errors.As(err, &op) {
		return true
	}
	for _, text := range []string{
		"server closed idle connection", // net/http: closed while the request was being written
		"stream error:",                 // HTTP/2 RST_STREAM
		"GOAWAY",                        // HTTP/2: closing, and not sure whether the request was processed
		"client connection lost",        // HTTP/2: no answer to a ping
		"client connection force closed",
	} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}

	return false
}
