package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weir/jobs"
)

// publishChunk is how many lines are taken in together; each is its own event all the same.
const publishChunk = 500

func newPublishCommand() *cobra.Command {
	var event jobs.Event
	var version int64
	var occurred, expires string
	cmd := &cobra.Command{
		Use:   "publish FILE|-",
		Short: "Hand in events from a file or from standard input",
		Long: `Hand in events from a file or from standard input (-), straight into the database.

Without --type, each line is one event in JSON, as in POST /api/v1/events/batch:

    {"type":"shipment.updated","subject":"SHP-1","version":3,"payload":{"status":"in_transit"}}

With --type, the whole file is the payload of one event, byte for byte.

One line comes back per event. The exit code is 1 when any was refused; the others are taken.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("version") {
				event.Version = &version
			}
			if err := parseTimes(&event, occurred, expires); err != nil {
				return err
			}
			in := cmd.InOrStdin()
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				in = file
			}
			return publish(cmd, in, event)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&event.Type, "type", "", "type of the one event whose payload the file is, such as shipment.updated")
	flags.StringVar(&event.Subject, "subject", "", "what it is about, such as the shipment's number (with --type)")
	flags.StringVar(&event.ID, "id", "", "its id; empty: made from type, subject and version (with --type)")
	flags.StringVar(&event.Tenant, "tenant", "", "whose it is (with --type)")
	flags.Int64Var(&version, "version", 0, "the subject's version (with --type)")
	flags.StringVar(&occurred, "occurred-at", "", "when it happened, RFC 3339; empty: now (with --type)")
	flags.StringVar(&expires, "expires-at", "", "when it is no longer worth sending, RFC 3339 (with --type)")
	return cmd
}

func parseTimes(event *jobs.Event, occurred, expires string) error {
	for _, field := range []struct {
		name, text string
		into       *time.Time
	}{{"--occurred-at", occurred, &event.OccurredAt}, {"--expires-at", expires, &event.ExpiresAt}} {
		if field.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, field.text)
		if err != nil {
			return fmt.Errorf("%s: want an RFC 3339 time such as 2026-11-30T14:03:00Z", field.name)
		}
		*field.into = at
	}
	return nil
}

func publish(cmd *cobra.Command, in io.Reader, event jobs.Event) error {
	c, store, log, err := openCommand(cmd.Context())
	if err != nil {
		return err
	}
	defer store.close(log)
	c.Roles = []string{jobs.RoleWeb}
	engine, sender, err := newEngine(c, store, log)
	if err != nil {
		return err
	}
	defer sender.Close()
	defer engine.Stop(cmd.Context()) //nolint:errcheck // it has nothing under way

	p := publisher{engine: engine, out: cmd.OutOrStdout()}
	if event.Type == "" {
		err = p.lines(cmd.Context(), in, c.BodyLimit)
	} else {
		err = p.file(cmd.Context(), in, event, c.BodyLimit)
	}
	if err != nil {
		return err
	}
	if p.refused > 0 {
		return fmt.Errorf("publish: %d of %d refused", p.refused, p.refused+p.taken)
	}
	return nil
}

type publisher struct {
	engine         *jobs.Engine
	out            io.Writer
	taken, refused int
}

func (p *publisher) file(ctx context.Context, in io.Reader, event jobs.Event, limit int) error {
	payload, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err != nil {
		return fmt.Errorf("read payload: %w", err)
	}
	event.Payload = payload
	p.answer([]int{1}, p.engine.PublishMany(ctx, []jobs.Event{event}))
	return nil
}

func (p *publisher) lines(ctx context.Context, in io.Reader, limit int) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 2*limit+64<<10)
	var events []jobs.Event
	var numbers []int
	flush := func() {
		if len(events) > 0 {
			p.answer(numbers, p.engine.PublishMany(ctx, events))
			events, numbers = events[:0:0], numbers[:0:0]
		}
	}
	n := 0
	for scanner.Scan() {
		n++
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 {
			continue
		}
		event, err := jobs.ParseEvent(line)
		if err != nil {
			flush()
			p.answer([]int{n}, []jobs.Result{{Err: err}})
			continue
		}
		if events, numbers = append(events, event), append(numbers, n); len(events) == publishChunk {
			flush()
		}
	}
	flush()
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("publish: line %d is longer than an event of %d bytes can be", n+1, limit)
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	return nil
}

func (p *publisher) answer(numbers []int, results []jobs.Result) {
	for i, result := range results {
		switch {
		case result.Err != nil:
			p.refused++
			say(p.out, "%d\trefused\t%v", numbers[i], result.Err)
		case result.Receipt.Duplicate:
			p.taken++
			say(p.out, "%d\tduplicate\t%s", numbers[i], result.Receipt.ID)
		default:
			p.taken++
			say(p.out, "%d\ttaken\t%s", numbers[i], result.Receipt.ID)
		}
	}
}
