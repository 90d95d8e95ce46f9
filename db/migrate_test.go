package db_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"weir/db"
	"weir/db/dbtest"
)

func TestMigrate(t *testing.T) {
	t.Parallel()

	t.Run("processes that start at once take turns on an empty database", func(t *testing.T) {
		t.Parallel()
		pool := dbtest.Pool(t)
		_, err := pool.Exec(t.Context(), "DROP SCHEMA weir CASCADE")
		require.NoError(t, err)
		var group errgroup.Group
		for range 4 {
			group.Go(func() error { return db.Migrate(t.Context(), pool, slog.New(slog.DiscardHandler)) })
		}
		require.NoError(t, group.Wait())
		var applied int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM schema_migration WHERE version_id > 0").Scan(&applied))
		files, err := db.Migrations.ReadDir("migrations")
		require.NoError(t, err)
		require.Equal(t, len(files), applied)
	})

	t.Run("an application's tables of the same names are left alone", func(t *testing.T) {
		t.Parallel()
		pool := dbtest.Pool(t)
		_, err := pool.Exec(t.Context(), "CREATE TABLE public.event (mine int); INSERT INTO public.event VALUES (1); DROP SCHEMA weir CASCADE")
		require.NoError(t, err)
		require.NoError(t, db.Migrate(t.Context(), pool, slog.New(slog.DiscardHandler)))
		var mine int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT mine FROM public.event").Scan(&mine))
	})

	t.Run("River's table is as it was measured to work best", func(t *testing.T) {
		t.Parallel()
		pool := dbtest.Pool(t)
		var indexes, options string
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT string_agg(indexdef, ' ') FROM pg_indexes WHERE tablename = 'river_job'").Scan(&indexes))
		require.NotContains(t, indexes, "gin")
		require.Contains(t, indexes, "river_job_scheduled_at_idx")
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE oid = 'river_job'::regclass").Scan(&options))
		require.Contains(t, options, "fillfactor=80")
		var statistics int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_statistic_ext WHERE stxname = 'river_job_bitmask_stats'").Scan(&statistics))
		require.Equal(t, 1, statistics)
	})
}

// What the schema makes impossible, whatever the code does.
func TestConstraints(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO lane (id, name) VALUES (1000, 'l');
		INSERT INTO destination (id, name, url, lane_id) VALUES (1000, 'd', 'https://example.test/', 1000);
		INSERT INTO event (id, event_id, type, subject, version, payload, occurred_at) VALUES (1000, 'e1', 't', 's', 1, '{}', now());
		INSERT INTO delivery (id, event_id, destination_id, lane_id, expires_at) VALUES (1, 1000, 1000, 1000, now());
		INSERT INTO attempt (delivery_id, no, lane_id, process, started_at, lease_until) VALUES (1, 1, 1, 'w', now(), now())`)
	require.NoError(t, err)
	for sql, constraint := range map[string]string{
		"INSERT INTO event (event_id, type, payload, occurred_at) VALUES ('e1', 't', '{}', now())":                             "event_event_id_key",
		"INSERT INTO event (event_id, type, subject, version, payload, occurred_at) VALUES ('e2', 't', 's', 1, '{}', now())":   "event_fact_key",
		"INSERT INTO event (event_id, type, payload, occurred_at) VALUES ('a b', 't', '{}', now())":                            "event_event_id_check",
		"INSERT INTO delivery (id, event_id, destination_id, lane_id, expires_at) VALUES (2, 1000, 1000, 1000, now())":         "delivery_once_per_destination",
		"UPDATE delivery SET state = 'delivered'":                                                                              "delivery_settled_has_a_time",
		"UPDATE delivery SET settled_at = now()":                                                                               "delivery_settled_has_a_time",
		"UPDATE delivery SET state = 'dead_lettered', settled_at = now()":                                                      "delivery_bad_end_has_a_reason",
		"UPDATE delivery SET parked = true, in_window = true":                                                                  "delivery_parked_is_outside_the_window",
		"UPDATE delivery SET state = 'delivered', settled_at = now(), parked = true":                                           "delivery_only_live_ones_wait",
		"INSERT INTO attempt (delivery_id, no, lane_id, process, started_at, lease_until) VALUES (1, 1, 1, 'w', now(), now())": "attempt_pkey",
		"UPDATE attempt SET finished_at = now()":                                                                               "attempt_finished_has_a_verdict",
		"UPDATE destination SET state = 'deleted'":                                                                             "destination_deleted_has_a_time",
		"INSERT INTO destination (name, url, lane_id) VALUES ('d', 'https://example.test/', 1000)":                             "destination_name_key",
		"UPDATE destination SET url = 'ftp://x'":                                                                               "destination_url_check",
		"UPDATE lane SET rate = -1":                                                                                            "lane_rate_check",
		"UPDATE lane SET in_flight = -1":                                                                                       "lane_in_flight_check",
		"INSERT INTO discovery_run (job_id, source, started_at, read) VALUES (1, 'outbox', now(), 3)":                          "discovery_run_adds_up",
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.ErrorContains(t, err, constraint, sql)
	}
}

// The pacing columns follow from what an operator types.
func TestLaneBudget(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t)
	for _, c := range []struct {
		rate, burst, inFlight       string
		period, tau, margin, window int64
	}{
		{"NULL", "10", "NULL", 0, 0, 0, 1000},
		{"NULL", "10", "4", 0, 0, 0, 4},
		{"10", "10", "4", 100_000, 675_000, 225_000, 8}, // a quarter of the burst's room
		{"5", "1", "4", 215_000, 0, 15_000, 8},          // no room: 4.65/s
		{"200", "4", "NULL", 5_000, 0, 15_000, 400},     // room for exactly the margin
		{"200", "1", "NULL", 20_000, 0, 15_000, 400},    // 50/s: the form warns
		{"0.1", "6", "NULL", 10_000_000, 49_750_000, 250_000, 1},
		{"0.001", "1", "1", 1_010_000_000, 0, 10_000_000, 1}, // a hundredth of the period
	} {
		var period, tau, margin, window int64
		require.NoError(t, pool.QueryRow(t.Context(), fmt.Sprintf(
			"INSERT INTO lane (name, rate, burst, max_in_flight) VALUES ('l', %s, %s, %s) RETURNING period_us, tau_us, margin_us, window_size",
			c.rate, c.burst, c.inFlight)).Scan(&period, &tau, &margin, &window))
		require.Equal(t, []int64{c.period, c.tau, c.margin, c.window}, []int64{period, tau, margin, window}, strings.Join([]string{c.rate, c.burst, c.inFlight}, " "))
	}
}
