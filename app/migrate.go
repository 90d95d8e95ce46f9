package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"weir/db"
)

func newMigrateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database named by DATABASE_URL up to date, and stop",
		Long: `Bring the database named by DATABASE_URL up to date, and stop.

"weir serve" does the same when it starts; this is for those who migrate before they deploy. Several at once take turns.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig()
			if err != nil {
				return err
			}
			log, err := newLog(c, os.Stderr)
			if err != nil {
				return err
			}
			if c.DatabaseURL == "" {
				return errors.New("migrate: set DATABASE_URL; the embedded database is migrated by serve")
			}
			pool, err := db.Open(cmd.Context(), c.DatabaseURL, db.Options{})
			if err != nil {
				return err
			}
			defer pool.Close()
			if err := db.Migrate(cmd.Context(), pool, log); err != nil {
				return err
			}
			say(cmd.OutOrStdout(), "The database is up to date.")
			return nil
		},
	}
}
