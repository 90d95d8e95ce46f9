package webhook

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// newSender returns a sender that may reach 127.0.0.1 and nothing else inside. change may alter its options.
func newSender(t testing.TB, change func(*SenderOptions)) *Sender {
	t.Helper()

	options := SenderOptions{Guard: loopback, Version: "1.2.3", ConnectTimeout: 10 * time.Second}
	if change != nil {
		change(&options)
	}
	sender := NewSender(options)
	t.Cleanup(sender.Close)

	return sender
}

// request returns a request for url that has everything.
func request(t testing.TB, url string) Request {
	t.Helper()

	version := int64(7)

	return Request{
		URL:     url,
		Keys:    []Key{mustKey(t, testSecret)},
		Timeout: 20 * time.Second,
		Message: Message{
			ID: "evt_1", Type: "shipment.updated", Subject: "SHP-1", Version: &version,
			EventTime: now, Body: []byte(`{"price":136.0}`), Attempt: 1, DeliveryID: "dlv_1",
		},
	}
}

// rawReceiver listens on address (port 0 of 127.0.0.1 when empty) and gives each connection to serve, with its number
// counted from 1. It returns the URL. At the end of the test all connections are closed and waited for.
func rawReceiver(t testing.TB, address string, serve func(c net.Conn, number int)) string {
	t.Helper()

	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil && strings.HasPrefix(address, "127.0.0.2:") {
		t.Skip("this system has only one loopback address")
	}
	require.NoError(t, err)

	var (
		mu    sync.Mutex
		conns []net.Conn
		done  sync.WaitGroup
	)
	done.Go(func() {
		for number := 1; ; number++ {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			done.Go(func() {
				defer c.Close()
				serve(c, number)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		done.Wait()
	})

	return "http://" + listener.Addr().String()
}

// answer returns a serve function that answers each request with text, on a connection that stays open.
func answer(text string) func(net.Conn, int) {
	return func(c net.Conn, _ int) {
		reader := bufio.NewReader(c)
		for readRequest(reader) != nil {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
}

// readRequest reads one request with its body, or returns nil.
func readRequest(reader *bufio.Reader) *http.Request {
	r, err := http.ReadRequest(reader)
	if err != nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil
	}

	return r
}

// fakeDNS is a resolver that answers A and AAAA questions from lookup, without a network. A nil list with a code of
// success means "no such record".
func fakeDNS(lookup func(name string) ([]net.IP, dnsmessage.RCode)) *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				for answerDNS(server, lookup) == nil {
				}
			}()

			return client, nil
		},
	}
}

// answerDNS answers one question in DNS over TCP framing (RFC 1035 §4.2.2).
func answerDNS(c net.Conn, lookup func(string) ([]net.IP, dnsmessage.RCode)) error {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	raw := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, raw); err != nil {
		return err
	}
	var query dnsmessage.Message
	if err := query.Unpack(raw); err != nil || len(query.Questions) != 1 {
		return errors.New("not a question")
	}

	question := query.Questions[0]
	ips, code := lookup(question.Name.String())
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, RecursionAvailable: true, RCode: code},
		Questions: query.Questions,
	}
	for _, ip := range ips {
		header := dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class}
		if v4 := ip.To4(); v4 != nil && question.Type == dnsmessage.TypeA {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: [4]byte(v4)}})
		} else if v4 == nil && question.Type == dnsmessage.TypeAAAA {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: [16]byte(ip)}})
		}
	}
	packed, err := reply.Pack()
	if err != nil {
		return err
	}
	_, err = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))

	return err
}

func addresses(ips ...string) []net.IP {
	parsed := make([]net.IP, len(ips))
	for i, ip := range ips {
		parsed[i] = net.ParseIP(ip)
	}

	return parsed
}

func portOf(t testing.TB, url string) string {
	t.Helper()

	_, port, err := net.SplitHostPort(url[len("http://"):])
	require.NoError(t, err)

	return port
}

// counter counts things seen by a receiver.
type counter struct{ atomic.Int64 }

func (c *counter) String() string { return strconv.FormatInt(c.Load(), 10) }
