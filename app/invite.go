package main

import (
	"strings"

	"github.com/spf13/cobra"

	"weir/web"
)

func newInviteCommand() *cobra.Command {
	var role, note, url string
	var hours int
	cmd := &cobra.Command{
		Use:   "invite --role ROLE",
		Short: "Make a one-time link for somebody who is to use the panel",
		Long: `Make a one-time link for somebody who is to use the panel. It is the last word of the output and is shown only now.

This is also the way back in where nobody can sign in as an administrator any more.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, store, log, err := openCommand(cmd.Context())
			if err != nil {
				return err
			}
			defer store.close(log)
			path, until, err := web.Invite(web.AsCommand(cmd.Context(), whoami()), store.pool, role, note, hours)
			if err != nil {
				return err
			}
			say(cmd.OutOrStdout(), "This link makes one %s, once, until %s UTC: %s%s", role, until.UTC().Format("2006-01-02 15:04"), strings.TrimSuffix(url, "/"), path)
			return nil
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "viewer, operator or administrator")
	cmd.Flags().StringVar(&note, "note", "", "whom it is for")
	cmd.Flags().IntVar(&hours, "hours", 24, "how long it works")
	cmd.Flags().StringVar(&url, "url", "http://localhost:8080", "where the panel is")
	if err := cmd.MarkFlagRequired("role"); err != nil {
		panic(err) // the flag named above does not exist
	}
	return cmd
}
