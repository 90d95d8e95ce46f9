package jobs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
)

func TestReconcile(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("a job made to run by hand behind the gate, or again after its delivery ended, ends without a request", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 1000, State: "paused"})
		receipt := b.publish(t, Event{})
		delivery := b.delivery(t, receipt.ID, d.ID).ID
		first := b.jobID(t, delivery)
		_, err := b.engine.client.JobRetry(ctx, first)
		require.NoError(t, err)
		eventually(t, 15*time.Second, "parked again with another job", func() bool { return b.jobID(t, delivery) != first })
		require.Equal(t, 1, b.count(t, "SELECT parked FROM lane"))
		require.Equal(t, 0, b.count(t, "SELECT open + in_flight FROM lane"))

		require.NoError(t, b.engine.ResumeDestination(ctx, d.ID))
		b.awaitState(t, receipt.ID, d.ID, StateDelivered)
		for _, job := range []int64{first, b.jobID(t, delivery)} { // a foreign job, then its own
			eventually(t, 15*time.Second, "ended", func() bool {
				return b.count(t, "SELECT count(*) FROM river_job WHERE id = $1 AND state = 'completed'", job) == 1
			})
			_, err = b.engine.client.JobRetry(ctx, job)
			require.NoError(t, err)
			eventually(t, 15*time.Second, "ended again", func() bool {
				return b.count(t, "SELECT count(*) FROM river_job WHERE id = $1 AND state = 'completed'", job) == 1
			})
		}
		b.settled(t)
		require.Len(t, b.receiver.all(), 1)
	})

	t.Run("a cancel of a running job cuts the request, and the delivery goes out again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 1000})
		b.receiver.answers(func(n int, r *http.Request, _ []byte, _ http.ResponseWriter) {
			if n == 1 {
				<-r.Context().Done()
			}
		})
		receipt := b.publish(t, Event{})
		b.receiver.await(t, 1, 10*time.Second)
		delivery := b.delivery(t, receipt.ID, d.ID).ID
		_, err := b.engine.client.JobCancel(ctx, b.jobID(t, delivery))
		require.NoError(t, err)
		b.awaitState(t, receipt.ID, d.ID, StateDelivered)
		b.settled(t)
		require.Len(t, b.receiver.all(), 2)
	})

	t.Run("a delivery that waits for an earlier version gets a job that waits as well", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.serial(t, &dbfactory.DestinationOpts{Rate: 1000, State: "paused"})
		for version := range int64(3) {
			b.publish(t, Event{ID: fmt.Sprintf("v%d", version), Subject: "s", Version: &version})
		}
		second, third := b.delivery(t, "v1", d.ID).ID, b.delivery(t, "v2", d.ID).ID
		require.Equal(t, 2, b.count(t, "SELECT count(*) FROM delivery WHERE blocked"))
		_, err := b.engine.client.JobDelete(ctx, b.jobID(t, second))
		require.NoError(t, err)
		_, err = b.engine.client.JobCancel(ctx, b.jobID(t, third))
		require.NoError(t, err)
		b.mended(t, MendJobDeleted, second)
		b.mended(t, MendJobCancelled, third)
		require.Equal(t, 2, b.count(t, "SELECT count(*) FROM delivery d JOIN river_job j ON j.id = d.job_id AND j.state = 'pending' WHERE d.blocked"))
		require.NoError(t, b.engine.ResumeDestination(ctx, d.ID))
		b.awaitState(t, "v2", d.ID, StateDelivered)
		b.settled(t)
		var order []string
		for _, a := range b.receiver.all() {
			order = append(order, a.id)
		}
		require.Equal(t, []string{"v0", "v1", "v2"}, order)
	})

	t.Run("a pending job whose delivery has ended is cancelled", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 1000, State: "paused"})
		receipt := b.publish(t, Event{})
		delivery := b.delivery(t, receipt.ID, d.ID).ID
		job := b.jobID(t, delivery)
		// By hand: an end stays an end, job and counters follow.
		b.exec(t, "UPDATE delivery SET state = 'delivered', settled_at = now(), parked = false WHERE id = $1", delivery)
		require.Contains(t, b.mended(t, MendJobUnowned, delivery), "is cancelled")
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM river_job WHERE id = $1 AND state = 'cancelled'", job))
		b.settled(t)
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM mend WHERE what = 'lane_counters' AND lane_id = $1", d.LaneID))
		require.Empty(t, b.receiver.all())
	})

	t.Run("a delivery made owed by hand is delivered", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 1000})
		for _, edit := range []string{"parked = false", "parked = true", "in_window = true"} {
			receipt := b.publish(t, Event{})
			delivery := b.awaitState(t, receipt.ID, d.ID, StateDelivered).ID
			before := len(b.receiver.all())
			b.exec(t, "UPDATE delivery SET state = 'pending', settled_at = NULL, "+edit+" WHERE id = $1", delivery)
			b.mended(t, MendJobCompleted, delivery)
			b.awaitState(t, receipt.ID, d.ID, StateDelivered)
			require.Len(t, b.receiver.all(), before+1, edit)
		}
		b.settled(t)
	})

	t.Run("a request that the delivery does not know of is counted, and not made again where it succeeded", func(t *testing.T) {
		t.Parallel()
		for verdict, requests := range map[string]int{"delivered": 0, "retry": 1} {
			b := setup(t)
			d := b.destination(t, &dbfactory.DestinationOpts{State: "paused"})
			receipt := b.publish(t, Event{})
			delivery := b.delivery(t, receipt.ID, d.ID).ID
			b.exec(t, `INSERT INTO attempt (delivery_id, no, lane_id, process, started_at, lease_until, finished_at, verdict)
				VALUES ($1, 1, $2, 'w', now() - interval '2 minutes', now() - interval '1 minute', now() - interval '1 minute', $3)`, delivery, d.LaneID, verdict)
			require.NoError(t, b.engine.ResumeDestination(ctx, d.ID))
			b.mended(t, MendUncounted, delivery)
			require.Equal(t, 1+requests, b.awaitState(t, receipt.ID, d.ID, StateDelivered).Attempts)
			require.Len(t, b.receiver.all(), requests)
			b.settled(t)
		}
	})

	t.Run("counters that do not fit the rows are set to what is there, exactly", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 1000, MaxInFlight: 2, Timeout: time.Minute})
		free := make(chan struct{})
		b.receiver.answers(func(_ int, r *http.Request, _ []byte, _ http.ResponseWriter) {
			select {
			case <-free:
			case <-r.Context().Done():
			}
		})
		for range 6 { // two in flight, two more in the window, two behind the gate
			b.publish(t, Event{})
		}
		b.receiver.await(t, 2, 10*time.Second)
		b.exec(t, "UPDATE lane SET in_flight = 5, open = 9, parked = 7 WHERE id = $1", d.LaneID)
		require.Contains(t, b.mendedLane(t, d.LaneID), "in flight")
		require.Equal(t, 2, b.count(t, "SELECT in_flight FROM lane"))
		require.Equal(t, b.count(t, "SELECT count(*) FROM delivery WHERE in_window"), b.count(t, "SELECT open FROM lane"))
		require.Equal(t, b.count(t, "SELECT count(*) FROM delivery WHERE parked"), b.count(t, "SELECT parked FROM lane"))
		// Requests of a delivery that was deleted by hand.
		b.exec(t, `INSERT INTO attempt (delivery_id, no, lane_id, process, started_at, lease_until) VALUES (999999999, 1, $1, 'w', now(), now())`, d.LaneID)
		b.mended(t, MendUndelivered, 999999999)
		close(free)
		b.receiver.await(t, 6, 20*time.Second)
		b.settled(t)
		require.LessOrEqual(t, b.receiver.most, 2)
	})
}

func (b *bundle) mendedLane(t *testing.T, lane int64) string {
	t.Helper()
	var sentence string
	eventually(t, 90*time.Second, "counters mended", func() bool {
		return b.pool.QueryRow(t.Context(), "SELECT sentence FROM mend WHERE what = 'lane_counters' AND lane_id = $1", lane).Scan(&sentence) == nil
	})
	return sentence
}

// Whatever is done to River's jobs while they are worked, every delivery arrives, the counters come down to nothing, and what could not
// be told from a crash is the only duplicate.
func TestReconcileRandomDamage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := setup(t)
	limited := b.destination(t, &dbfactory.DestinationOpts{Rate: 40, MaxInFlight: 4, Types: []string{"limited"}})
	unlimited := b.destination(t, &dbfactory.DestinationOpts{Types: []string{"unlimited"}, State: "paused"})
	for n := range 150 {
		b.publish(t, Event{ID: fmt.Sprintf("l%d", n), Type: "limited"})
		b.publish(t, Event{ID: fmt.Sprintf("u%d", n), Type: "unlimited"})
	}
	random := rand.New(rand.NewPCG(1, 2))
	damages := []func(job int64){
		func(job int64) { _, _ = b.engine.client.JobCancel(ctx, job) },
		func(job int64) { _, _ = b.engine.client.JobDelete(ctx, job) },
		func(job int64) { _, _ = b.engine.client.JobRetry(ctx, job) },
		func(job int64) {
			b.exec(t, finish+" AND state IN ('pending', 'available', 'scheduled')", job, "discarded")
		},
		func(job int64) {
			b.exec(t, finish+" AND state IN ('pending', 'available', 'scheduled')", job, "completed")
		},
		func(job int64) {
			b.exec(t, "UPDATE river_job SET state = 'pending' WHERE id = $1 AND state = 'available'", job)
		},
		func(int64) { b.exec(t, "UPDATE lane SET open = open + 1, parked = greatest(0, parked - 1)") },
	}
	for n := range 200 {
		rows, err := b.pool.Query(ctx, "SELECT id FROM river_job WHERE kind = 'deliver' ORDER BY id")
		require.NoError(t, err)
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		require.NoError(t, err)
		damages[random.IntN(len(damages))](ids[random.IntN(len(ids))])
		if n == 50 {
			require.NoError(t, b.engine.ResumeDestination(ctx, unlimited.ID))
		}
	}
	eventually(t, 90*time.Second, "all delivered", func() bool {
		return b.count(t, "SELECT count(*) FROM delivery WHERE state = 'delivered'") == 300
	})
	b.settled(t)
	require.Positive(t, b.count(t, "SELECT count(*) FROM mend"))
	require.Equal(t, b.count(t, "SELECT count(*) FROM mend"), b.count(t, "SELECT sum(total) FROM mend_total"))
	eventually(t, 30*time.Second, "no job waits for nobody", func() bool {
		return b.count(t, "SELECT count(*) FROM river_job WHERE kind = 'deliver' AND finalized_at IS NULL") == 0
	})
	cut := b.count(t, "SELECT count(*) FROM attempt WHERE verdict <> 'delivered'") // a cancel can cut a request that runs
	require.Equal(t, 300+cut, b.count(t, "SELECT count(*) FROM attempt"))
	require.NotZero(t, limited.ID)
}
