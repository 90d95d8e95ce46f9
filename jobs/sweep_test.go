package jobs

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
	"weir/db/dbtest"
)

func TestSweep(t *testing.T) {
	t.Parallel()

	t.Run("a request whose process died goes out again, and says that it was interrupted", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 100, MaxInFlight: 1})
		hung := make(chan struct{})
		b.receiver.answers(func(n int, r *http.Request, _ []byte, _ http.ResponseWriter) {
			if n == 1 {
				close(hung)
				<-r.Context().Done()
			}
		})
		receipt := b.publish(t, Event{})
		<-hung
		// What a kill leaves behind: an open attempt whose lease runs out. The sender that still hangs here is then a stale one.
		_, err := b.pool.Exec(t.Context(), "UPDATE attempt SET lease_until = now() - interval '1 second'")
		require.NoError(t, err)
		row := b.awaitState(t, receipt.ID, d.ID, StateDelivered)
		require.Equal(t, 2, row.Attempts)
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM attempt WHERE error_class = 'interrupted' AND status IS NULL"))
		eventually(t, 15*time.Second, "the stale sender changes nothing", func() bool {
			return b.count(t, "SELECT in_flight + open + parked FROM lane") == 0
		})
	})

	t.Run("a delivery that is interrupted again and again is dead-lettered", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Retry: []time.Duration{time.Millisecond, time.Millisecond}})
		b.receiver.answers(func(_ int, r *http.Request, _ []byte, _ http.ResponseWriter) { <-r.Context().Done() })
		receipt := b.publish(t, Event{})
		for n := 1; n <= 3; n++ {
			b.receiver.await(t, n, 10*time.Second)
			_, err := b.pool.Exec(t.Context(), "UPDATE attempt SET lease_until = now() - interval '1 second' WHERE finished_at IS NULL")
			require.NoError(t, err)
		}
		row := b.awaitState(t, receipt.ID, d.ID, StateDeadLettered)
		require.Equal(t, ClassInterrupted, row.Class)
		require.Equal(t, 3, row.Attempts)
	})

	t.Run("takes over what a dead process had fetched and not begun", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 100, State: "paused"})
		receipt := b.publish(t, Event{})
		_, err := b.pool.Exec(t.Context(), `
			UPDATE river_job SET state = 'running', attempted_at = now() - interval '1 minute', attempted_by = '{wdead}', attempt = 1 WHERE kind = 'deliver'`)
		require.NoError(t, err)
		_, err = b.pool.Exec(t.Context(), "UPDATE delivery SET parked = false, in_window = true")
		require.NoError(t, err)
		_, err = b.pool.Exec(t.Context(), "UPDATE lane SET parked = 0, open = 1")
		require.NoError(t, err)
		_, err = b.pool.Exec(t.Context(), "INSERT INTO process (id, roles, beat_at) VALUES ('wdead', '{work}', now() - interval '1 minute')")
		require.NoError(t, err)
		require.NoError(t, b.engine.ResumeDestination(t.Context(), d.ID))
		row := b.awaitState(t, receipt.ID, d.ID, StateDelivered)
		require.Equal(t, 1, row.Attempts)
		require.Len(t, b.receiver.all(), 1)
	})

	t.Run("reads a source again whose run died with its process", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.destination(t, &dbfactory.DestinationOpts{})
		eventually(t, 15*time.Second, "the run at the start is over", func() bool {
			return b.count(t, "SELECT count(*) FROM river_job WHERE kind = 'discover' AND state = 'completed'") == 1
		})
		_, err := b.pool.Exec(t.Context(), `UPDATE river_job SET state = 'running', finalized_at = NULL,
			attempted_at = now() - interval '1 minute', attempted_by = '{wdead}' WHERE kind = 'discover'`)
		require.NoError(t, err)
		_, err = b.pool.Exec(t.Context(), "INSERT INTO process (id, roles, beat_at) VALUES ('wdead', '{discover}', now() - interval '1 minute')")
		require.NoError(t, err)
		b.outbox(t, "t", "s", []byte("{}"), nil)
		eventually(t, 15*time.Second, "the dead run is out of the way", func() bool {
			result, err := b.engine.client.Insert(t.Context(), DiscoverArgs{Source: SourceOutbox}, nil)
			return err == nil && !result.UniqueSkippedAsDuplicate
		})
		b.receiver.await(t, 1, 10*time.Second)
	})

	t.Run("a stop in the middle of a request records it as shut down, uncharged, and it goes out again", func(t *testing.T) {
		t.Parallel()
		b := &bundle{pool: dbtest.Pool(t), receiver: newReceiver(t)}
		var stop func() error
		b.engine, stop = b.startStoppable(t, Options{Grace: time.Second})
		d := b.destination(t, &dbfactory.DestinationOpts{Timeout: 30 * time.Second})
		b.receiver.answers(func(n int, r *http.Request, _ []byte, _ http.ResponseWriter) {
			if n == 1 {
				<-r.Context().Done()
			}
		})
		receipt := b.publish(t, Event{})
		b.receiver.await(t, 1, 5*time.Second)

		began := time.Now()
		require.NoError(t, stop())
		require.Less(t, time.Since(began), 10*time.Second, "the request alone would take thirty")
		row := b.delivery(t, receipt.ID, d.ID)
		require.Equal(t, StateRetrying, row.State)
		require.Equal(t, "shutdown", row.Class)
		require.Zero(t, row.Failures)

		b.engine = b.start(t, Options{})
		require.Equal(t, 2, b.awaitState(t, receipt.ID, d.ID, StateDelivered).Attempts)
	})
}
