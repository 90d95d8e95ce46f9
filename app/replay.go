package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/jobs"
	"weir/web"
)

func newReplayCommand() *cobra.Command {
	req := jobs.ReplayRequest{}
	var destination string
	cmd := &cobra.Command{
		Use:   "replay --event ID",
		Short: "Send an event again, under its original id",
		Long: `Send an event again, under its original id: to every destination it was owed to, or to one.

The bytes are those first taken in; URL and secrets are today's. What is still being delivered, or whose destination is paused, disabled
or deleted, is refused with the reason. Try --dry-run first: it changes nothing and says what would be sent.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if req.EventID == "" {
				return errors.New("replay: say which event with --event")
			}
			if destination != "" {
				id, err := parseDestination(destination)
				if err != nil {
					return err
				}
				req.DestinationID = &id
			}
			req.Actor = "cli:" + whoami()
			return replay(cmd, req)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.EventID, "event", "", "id of the event")
	flags.StringVar(&destination, "destination", "", "only to this destination, such as dst_12")
	flags.StringVar(&req.Reason, "reason", "", "why, for the record")
	flags.BoolVar(&req.DryRun, "dry-run", false, "say what would be sent, change nothing")
	return cmd
}

func parseDestination(text string) (int64, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(text, "dst_"), 10, 64)
	if err != nil || id <= 0 {
		return 0, errors.New("replay: --destination: want an id such as dst_12")
	}
	return id, nil
}

// whoami names the person for the record: a replay is something that people ask about later.
func whoami() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

func replay(cmd *cobra.Command, req jobs.ReplayRequest) error {
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

	req.Also = web.RecordReplay
	result, err := engine.Replay(web.AsCommand(cmd.Context(), whoami()), req)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	out := cmd.OutOrStdout()
	verb := "sending"
	if req.DryRun {
		verb = "would send"
	}
	for _, item := range result.Items {
		where := fmt.Sprintf("to %s (dst_%d)", item.DestinationName, item.DestinationID)
		if item.Refusal != "" {
			say(out, "refused     %s %s: %s", jobs.FormatDeliveryID(item.DeliveryID), where, item.Refusal)
			continue
		}
		say(out, "%-11s %s %s: %s, %d bytes; it was %s", verb, jobs.FormatDeliveryID(item.DeliveryID), where, item.Type, item.Bytes, item.State)
	}
	switch {
	case result.Sent == 0:
		return errors.New("replay: nothing to send; see the reasons above")
	case req.DryRun:
		say(out, "%d of %d would be sent again under event id %s. Nothing was changed.", result.Sent, len(result.Items), req.EventID)
	default:
		say(out, "%d of %d are being sent again under event id %s. Recorded as replay %d by %s.", result.Sent, len(result.Items), req.EventID, result.ID, req.Actor)
	}
	return nil
}
