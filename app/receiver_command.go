package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// newReceiverCommand is `weir receiver`: the subscriber that a new one can be copied from. It knows nothing of Weir but
// the headers that arrive: the signature is checked with the standard's own library, and an inbox table makes each event
// take effect once. It also counts what it gets, and misbehaves when it is told to.
func newReceiverCommand() *cobra.Command {
	var (
		addr        string
		databaseURL string
		secrets     []string
		tempers     []string
		logRequests bool
		noControl   bool
	)
	cmd := &cobra.Command{
		Use:   "receiver",
		Short: "Run a sample subscriber: verifies, applies each event once, counts, misbehaves on request",
		Long: `Runs a subscriber. Every path is a destination of its own: /acme, /northwind, …

It verifies the Standard Webhooks signature, and applies each event id once per path: the id and
the effect are written in one transaction, and a repeated id is answered 200 {"duplicate": true}.
The newest version of each subject is kept and never moves back.

Watch and steer it under /-/, on the same address:

  GET    /-/counts?path=&after=&limit=     requests, effects, duplicates, bad signatures, the most
                                           requests in any one second and in flight, and per event
  GET    /-/requests?path=&after=&limit=   the last requests, arrival times in microseconds
  GET    /-/shipment?path=&subject=        the version that a subject has reached
  PUT    /-/secret?path=                   body: whsec_…, or several (a rotation)
  PUT    /-/temper?path=                   body: the temper as JSON; {} is good behaviour again
  DELETE /-/                               forgets requests, counts, inbox and effects

A temper is misbehaviour. Fields, here, in JSON, or as query parameters of the destination's URL
(/slow?delay=300ms):

  status, retry_after, location, body   what to answer; nothing but a 2xx applies the event
  delay:300ms                           wait before answering
  drip:1s                               answer one byte per interval
  hang                                  read, and never answer
  close:before|after                    reset the connection before or after reading
  apply_then_timeout:12s                apply, then wait longer than the client does
  die                                   read, then exit with code 137
  every:3 probability:0.05 times:2      only each third request, only by chance, only twice in all`,
		Example: `  weir receiver --secret whsec_…
  weir receiver --addr :0 --database-url postgres://localhost/subscriber --secret /acme=whsec_…
  weir receiver --temper '/acme=status:429,retry_after:5,every:10'
  weir receiver --temper '/acme={"status": 503, "body": "no, not now"}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			receiver, err := newReceiver(receiverOptions{
				DatabaseURL: cmp.Or(databaseURL, os.Getenv("RECEIVER_DATABASE_URL"), os.Getenv("DATABASE_URL")),
				LogRequests: logRequests,
				NoControl:   noControl,
			})
			if err != nil {
				return err
			}
			defer receiver.Close()

			verifies, err := receiver.applyFlags(append(strings.Fields(os.Getenv("RECEIVER_SECRET")), secrets...), tempers)
			if err != nil {
				return err
			}
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", addr)
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "receiver listening on %s (inbox: %s; signatures: %s)\n",
				listenerURL(listener), receiver.inbox, verifies)
			return receiver.Serve(cmd.Context(), listener)
		},
	}
	// The environment is read when the command runs: as a flag's default it would be printed by --help, password and all.
	cmd.Flags().StringVar(&addr, "addr", ":9000", "address to listen on; \":0\" chooses a port")
	cmd.Flags().StringVar(&databaseURL, "database-url", "", "Postgres for the inbox, in its own schema \"receiver\" (default $RECEIVER_DATABASE_URL, $DATABASE_URL, or memory)")
	cmd.Flags().StringArrayVar(&secrets, "secret", nil, "signing secret, whsec_… for every path or /path=whsec_… for one; repeatable (also $RECEIVER_SECRET)")
	cmd.Flags().StringArrayVar(&tempers, "temper", nil, "misbehaviour of one path, /path=field:value,field:value or /path={json}; repeatable")
	cmd.Flags().BoolVar(&logRequests, "log-requests", false, "also keep every request in the table receiver.request")
	cmd.Flags().BoolVar(&noControl, "no-control", false, "no /-/ and no tempers by query parameter: for a receiver that strangers can reach")
	return cmd
}

type receiverOptions struct {
	DatabaseURL string         // Postgres for the inbox; empty: in memory, for trying out
	LogRequests bool           // keep every request in receiver.request; needs Postgres
	NoControl   bool           // serve no /-/, take no tempers by query parameter
	Logger      *slog.Logger   // default: slog.Default()
	Exit        func(code int) // what the temper "die" calls; default: os.Exit
}
