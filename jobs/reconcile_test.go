package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
)

// jobID is the job that the ledger names for a delivery.
func (b *bundle) jobID(t *testing.T, delivery int64) int64 {
	t.Helper()
	return int64(b.count(t, "SELECT job_id FROM delivery WHERE id = $1", delivery))
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// mended waits for a mend of this kind and returns its sentence.
func (b *bundle) mended(t *testing.T, what string, delivery int64) string {
	t.Helper()
	var sentence string
	eventually(t, 90*time.Second, "mended as "+what, func() bool {
		err := b.pool.QueryRow(t.Context(), "SELECT sentence FROM mend WHERE what = $1 AND coalesce(delivery_id, 0) = $2", what, delivery).Scan(&sentence)
		return err == nil
	})
	return sentence
}

// settled waits until no lane counts anything.
func (b *bundle) settled(t *testing.T) {
	t.Helper()
	eventually(t, 90*time.Second, "the lanes count nothing", func() bool {
		return b.count(t, "SELECT coalesce(sum(in_flight + open + parked), 0) FROM lane") == 0
	})
}

// finish is what ends a job in SQL without River.
const finish = "UPDATE river_job SET state = $2::text::weir.river_job_state, finalized_at = now() WHERE id = $1"

func TestReconcileJobs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, test := range []struct {
		name   string
		what   string
		damage func(t *testing.T, b *bundle, client *river.Client[pgx.Tx], delivery, job int64)
	}{
		{"cancelled", MendJobCancelled, func(t *testing.T, _ *bundle, client *river.Client[pgx.Tx], _, job int64) {
			t.Helper()
			_, err := client.JobCancel(ctx, job)
			require.NoError(t, err)
		}},
		{"deleted", MendJobDeleted, func(t *testing.T, _ *bundle, client *river.Client[pgx.Tx], _, job int64) {
			t.Helper()
			_, err := client.JobDelete(ctx, job)
			require.NoError(t, err)
		}},
		{"cancelled and then deleted", MendJobDeleted, func(t *testing.T, b *bundle, client *river.Client[pgx.Tx], _, job int64) {
			t.Helper()
			require.NoError(t, pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { // between two looks
				if _, err := client.JobCancelTx(ctx, tx, job); err != nil {
					return err
				}
				_, err := client.JobDeleteTx(ctx, tx, job)
				return err
			}))
		}},
		{"discarded by the rescuer", MendJobDiscarded, func(t *testing.T, b *bundle, _ *river.Client[pgx.Tx], _, job int64) {
			t.Helper()
			b.exec(t, finish, job, "discarded")
		}},
		{"completed by a stale completion", MendJobCompleted, func(t *testing.T, b *bundle, _ *river.Client[pgx.Tx], _, job int64) {
			t.Helper()
			b.exec(t, finish, job, "completed")
		}},
		{"swept away with the whole table", MendJobDeleted, func(t *testing.T, b *bundle, _ *river.Client[pgx.Tx], _, _ int64) {
			t.Helper()
			b.exec(t, "TRUNCATE river_job")
		}},
		{"forgotten by the ledger", MendJobDeleted, func(t *testing.T, b *bundle, _ *river.Client[pgx.Tx], delivery, _ int64) {
			t.Helper()
			b.exec(t, "UPDATE delivery SET job_id = NULL WHERE id = $1", delivery)
		}},
		{"put to sleep", MendJobAsleep, func(t *testing.T, b *bundle, _ *river.Client[pgx.Tx], delivery, job int64) {
			t.Helper()
			// With the delivery in the window: for one behind the gate, pending is right.
			b.exec(t, "UPDATE delivery SET parked = false, in_window = true WHERE id = $1", delivery)
			b.exec(t, "UPDATE river_job SET state = 'pending' WHERE id = $1", job)
		}},
		{"mistaken for another's", MendJobForeign, func(t *testing.T, b *bundle, client *river.Client[pgx.Tx], delivery, _ int64) {
			t.Helper()
			other, err := client.Insert(ctx, DeliverArgs{DeliveryID: delivery + 1, Try: 77}, &river.InsertOpts{ScheduledAt: time.Now().Add(time.Hour)})
			require.NoError(t, err)
			b.exec(t, "UPDATE delivery SET job_id = $2, parked = false WHERE id = $1", delivery, other.Job.ID)
		}},
	} {
		for _, place := range []string{"behind the gate", "in the window", "waiting for a retry"} {
			t.Run(test.name+" "+place, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				d := b.destination(t, &dbfactory.DestinationOpts{Rate: 1000, MaxInFlight: 5, State: "paused", Retry: []time.Duration{5 * time.Second, time.Second}})
				requests := 1
				if place == "waiting for a retry" {
					requests = 2
					b.receiver.statuses(500, 200)
					require.NoError(t, b.engine.ResumeDestination(ctx, d.ID))
				}
				receipt := b.publish(t, Event{})
				if place == "waiting for a retry" {
					b.awaitState(t, receipt.ID, d.ID, StateRetrying)
					eventually(t, 10*time.Second, "snoozed", func() bool {
						return b.count(t, "SELECT count(*) FROM river_job WHERE kind = 'deliver' AND state IN ('scheduled', 'available')") == 1
					})
				}
				delivery := b.delivery(t, receipt.ID, d.ID).ID
				job := b.jobID(t, delivery)
				if place == "in the window" { // as promoted, and not fetched yet
					b.exec(t, `WITH j AS (UPDATE river_job SET state = 'available', scheduled_at = now() + interval '1 hour' WHERE id = $1), l AS (UPDATE lane SET parked = 0, open = 1)
						UPDATE delivery SET parked = false, in_window = true`, job)
				}
				test.damage(t, b, b.engine.client, delivery, job)
				if place != "waiting for a retry" {
					require.NoError(t, b.engine.ResumeDestination(ctx, d.ID))
				}
				eventually(t, 90*time.Second, "delivered", func() bool { return b.delivery(t, receipt.ID, d.ID).State == StateDelivered })
				require.NotEmpty(t, b.mended(t, test.what, delivery))
				b.settled(t)
				require.Len(t, b.receiver.all(), requests, "it arrives exactly once")
			})
		}
	}
}
