package webhook

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSendClosedOrResetBeforeAStatus(t *testing.T) {
	t.Parallel()

	for name, serve := range map[string]func(net.Conn, int){
		"closed after the request": func(c net.Conn, _ int) { readRequest(bufio.NewReader(c)) },
		"100 then closed": func(c net.Conn, _ int) {
			readRequest(bufio.NewReader(c))
			io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		},
		"status cut off": func(c net.Conn, _ int) { readRequest(bufio.NewReader(c)); io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ") },
		"reset": func(c net.Conn, _ int) {
			readRequest(bufio.NewReader(c))
			c.(*net.TCPConn).SetLinger(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			o := newSender(t, nil).Send(t.Context(), request(t, rawReceiver(t, "", serve)))
			require.Equal(t, Retry, o.Verdict)
			require.Equal(t, ClassConnectionReset, o.ErrorClass, o.Reason)
			require.True(t, o.Unknown)
			require.Contains(t, o.Reason, "outcome unknown")
		})
	}
}

// A broken connection must not make net/http send the POST a second time by itself: see headerIdempotencyKey.
func TestSendIsNeverRepeatedBehindOurBack(t *testing.T) {
	t.Parallel()

	var requests counter
	url := rawReceiver(t, "", func(c net.Conn, _ int) {
		reader := bufio.NewReader(c)
		readRequest(reader)
		requests.Add(1)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		if readRequest(reader) != nil { // on the kept connection: take it and close without an answer
			requests.Add(1)
		}
	})
	sender := newSender(t, nil)
	require.Equal(t, Delivered, sender.Send(t.Context(), request(t, url)).Verdict)
	o := sender.Send(t.Context(), request(t, url))
	require.Equal(t, ClassConnectionReset, o.ErrorClass)
	require.True(t, o.Unknown)
	require.EqualValues(t, 2, requests.Load())
}

// NET-07: the receiver closes each connection after its answer without saying so. What finds a closed connection goes
// out on a new one; what was written in that very moment is one labelled attempt. Nothing arrives twice.
func TestSendOnConnectionsThatTheReceiverClosed(t *testing.T) {
	t.Parallel()

	var requests counter
	url := rawReceiver(t, "", func(c net.Conn, _ int) {
		readRequest(bufio.NewReader(c))
		requests.Add(1)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	sender := newSender(t, nil)

	delivered := 0
	for range 60 {
		o := sender.Send(t.Context(), request(t, url))
		if o.Verdict == Delivered {
			delivered++
			continue
		}
		require.Equal(t, ClassConnectionReset, o.ErrorClass, o.Reason)
	}
	require.EqualValues(t, delivered, requests.Load())
	require.Positive(t, delivered)
}

// NET-06: a second response is glued on the first. Each answer names the request that it belongs to.
func TestSendSurplusBytesAnswerNobody(t *testing.T) {
	t.Parallel()

	url := rawReceiver(t, "", func(c net.Conn, _ int) {
		reader := bufio.NewReader(c)
		for {
			r := readRequest(reader)
			if r == nil {
				return
			}
			id := r.Header.Get("webhook-id")
			io.WriteString(c, strings.Repeat(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(id), id), 2))
		}
	})
	sender := newSender(t, nil)

	var done sync.WaitGroup
	for worker := range 4 {
		done.Go(func() {
			for i := range 150 {
				r := request(t, url)
				r.Message.ID = fmt.Sprintf("evt_%d_%d", worker, i)
				o := sender.Send(t.Context(), r)
				if o.Verdict == Delivered && string(o.Excerpt) != r.Message.ID {
					t.Errorf("%s was answered by %q", r.Message.ID, o.Excerpt)
				}
				if o.Verdict != Delivered && o.ErrorClass != ClassConnectionReset {
					t.Errorf("%s: %s %s", r.Message.ID, o.ErrorClass, o.Reason)
				}
			}
		})
	}
	done.Wait()
}

func TestConnDropsWhatArrivesBeforeTheRequest(t *testing.T) {
	t.Parallel()

	near, far := net.Pipe()
	defer far.Close()
	c := newConn(near)
	defer c.Close()

	result := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 16))
		result <- err
	}()
	c.begin(t.Context()) // returns because the reader is inside Read
	far.Write([]byte("surplus"))
	require.ErrorIs(t, <-result, errSurplus)
	_, err := c.Write([]byte("POST"))
	require.ErrorIs(t, err, errSurplus)
	require.Zero(t, c.written.Load())
}

// The connection is closed after the transport has chosen it and before a byte is written: the request goes out on a
// new connection, within the same attempt.
func TestSendAgainWhenNothingWasWritten(t *testing.T) {
	t.Parallel()

	hangUp := make(chan struct{})
	var requests counter
	url := rawReceiver(t, "", func(c net.Conn, number int) {
		reader := bufio.NewReader(c)
		for readRequest(reader) != nil {
			requests.Add(1)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			if number == 1 {
				<-hangUp
				return
			}
		}
	})
	sender := newSender(t, nil)
	require.Equal(t, Delivered, sender.Send(t.Context(), request(t, url)).Verdict)

	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			return
		}
		close(hangUp)
		c := http1Conn(info.Conn)
		c.mu.Lock()
		defer c.mu.Unlock()
		for !c.broken { // until the transport has noticed
			c.changed.Wait()
		}
	}})
	o := sender.Send(ctx, request(t, url))
	require.Equal(t, Delivered, o.Verdict, o.Reason)
	require.EqualValues(t, 2, requests.Load())
}
