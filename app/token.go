package main

import (
	"time"

	"github.com/spf13/cobra"

	"weir/web"
)

func newTokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Manage tokens of the API"}
	var name string
	var scopes []string
	var days int
	create := &cobra.Command{
		Use:   "create --name NAME --scope SCOPE",
		Short: "Make a token; it is the last word of the output and is shown only now",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, store, log, err := openCommand(cmd.Context())
			if err != nil {
				return err
			}
			defer store.close(log)
			var expires *time.Time
			if cmd.Flags().Changed("days") {
				until := time.Now().AddDate(0, 0, days).UTC()
				expires = &until
			}
			token, err := web.CreateTokenUntil(web.AsCommand(cmd.Context(), whoami()), store.pool, name, scopes, expires)
			if err != nil {
				return err
			}
			say(cmd.OutOrStdout(), "Send it as \"Authorization: Bearer TOKEN\". It is not shown again: %s", token)
			return nil
		},
	}
	create.Flags().StringVar(&name, "name", "", "what it is for")
	create.Flags().StringSliceVar(&scopes, "scope", nil, "publish (hand in events), read, operate (pause, resume, test, replay, work on dead letters), or admin (all)")
	create.Flags().IntVar(&days, "days", 0, "after how many days it stops working; never, if left out")
	for _, required := range []string{"name", "scope"} {
		if err := create.MarkFlagRequired(required); err != nil {
			panic(err) // a flag named above does not exist
		}
	}
	cmd.AddCommand(create)
	return cmd
}
