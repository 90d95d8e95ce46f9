package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// benchTokenVariable carries the token to the load generator: arguments can be read by everybody on the machine.
const benchTokenVariable = "WEIR_BENCH_TOKEN"

// benchLoad is what the load generator did. Times are microseconds since 1970.
type benchLoad struct {
	Started  int64         `json:"started"`
	Ended    int64         `json:"ended"`
	Accepted []benchLoaded `json:"accepted"`
	Refused  int           `json:"refused"`
	Status   int           `json:"status"` // of the last that was refused
}

// benchLoaded is one event that was answered with 202.
type benchLoaded struct {
	ID   string `json:"id"`
	Sent int64  `json:"sent"`
	Took int64  `json:"took"` // microseconds until the answer
}

// newBenchLoadCommand is the load generator of the bench: clients that publish one event at a time, each as soon as the last was answered.
// It speaks HTTP by itself, from prepared bytes: net/http would take more of the machine than Weir does for the same events.
func newBenchLoadCommand() *cobra.Command {
	var target, eventType string
	var clients int
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "load", Hidden: true, Args: cobra.NoArgs, Short: "Publish to --url as fast as it answers, and print what was accepted",
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := url.Parse(target)
			if err != nil {
				return fmt.Errorf("load: --url: %w", err)
			}
			done, err := load(cmd.Context(), u.Host, eventType, clients, limit)
			if err != nil {
				return fmt.Errorf("load: %w", err)
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(done)
		},
	}
	cmd.Flags().StringVar(&target, "url", "", "where Weir is")
	cmd.Flags().StringVar(&eventType, "type", "", "of the events")
	cmd.Flags().IntVar(&clients, "clients", 1, "how many publish at once")
	cmd.Flags().DurationVar(&limit, "for", time.Second, "how long")
	return cmd
}

func load(ctx context.Context, host, eventType string, clients int, limit time.Duration) (benchLoad, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]loadClient, clients)
	for i := range all {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
		if err != nil {
			return benchLoad{}, fmt.Errorf("connect: %w", err)
		}
		defer conn.Close()
		all[i] = loadClient{conn: conn, answers: bufio.NewReader(conn), prepared: prepareRequest(host, eventType, i)}
	}
	start := time.Now()
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() {
			if err := all[i].run(ctx, start, limit); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	done := benchLoad{Started: start.UnixMicro(), Ended: time.Now().UnixMicro()}
	for _, one := range all {
		done.Accepted = append(done.Accepted, one.accepted...)
		done.Refused += one.refused
		if one.refused > 0 {
			done.Status = one.status
		}
	}
	return done, context.Cause(ctx)
}

// prepared is a request whose event id ends in a number that is written into the bytes.
type prepared struct {
	bytes  []byte
	id     []byte // part of bytes
	number []byte // part of id
}

func prepareRequest(host, eventType string, client int) (p prepared) {
	const number = "0000000000"
	id := fmt.Sprintf("load-%04d-%s", client, number)
	before := fmt.Sprintf(`{"id":"%s","type":"%s","subject":"%s","payload":`, id, eventType, id)
	head := fmt.Sprintf("POST /api/v1/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		host, os.Getenv(benchTokenVariable), len(before)+len(benchPayload)+1)
	p.bytes = fmt.Appendf(nil, "%s%s%s}", head, before, benchPayload)
	start := len(head) + len(`{"id":"`)
	p.id = p.bytes[start : start+len(id)]
	p.number = p.id[len(id)-len(number):]
	return p
}

// next counts the id up.
func (p prepared) next() {
	for i := len(p.number) - 1; i >= 0; i-- {
		if p.number[i]++; p.number[i] <= '9' {
			return
		}
		p.number[i] = '0'
	}
}

type loadClient struct {
	prepared

	conn     net.Conn
	answers  *bufio.Reader
	accepted []benchLoaded
	refused  int
	status   int
}

// run publishes until the limit is over, or another client has failed.
func (c *loadClient) run(ctx context.Context, start time.Time, limit time.Duration) error {
	for time.Since(start) < limit && ctx.Err() == nil {
		c.next()
		sent := time.Now()
		if err := c.conn.SetDeadline(sent.Add(time.Minute)); err != nil {
			return err
		}
		if _, err := c.conn.Write(c.bytes); err != nil {
			return fmt.Errorf("send request: %w", err)
		}
		resp, err := http.ReadResponse(c.answers, nil)
		if err != nil {
			return fmt.Errorf("read response: %w", err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return fmt.Errorf("read response: %w", err)
		}
		if resp.StatusCode != http.StatusAccepted {
			c.refused, c.status = c.refused+1, resp.StatusCode
			continue
		}
		c.accepted = append(c.accepted, benchLoaded{string(c.id), sent.UnixMicro(), time.Since(sent).Microseconds()})
	}
	return nil
}
