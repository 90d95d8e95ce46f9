package jobs

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
)

func TestDestination(t *testing.T) {
	t.Parallel()

	t.Run("a pause holds what is owed, a resume lets it through", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 200, Burst: 20})
		require.NoError(t, b.engine.PauseDestination(t.Context(), d.ID, "their maintenance"))
		for _, id := range fields("evt-%d", 30) {
			b.publish(t, Event{ID: id})
		}
		require.Equal(t, 30, b.count(t, "SELECT parked FROM lane WHERE id = $1", d.LaneID))
		require.ErrorContains(t, b.engine.PauseDestination(t.Context(), d.ID, ""), "only an active destination")
		require.Empty(t, b.receiver.all())
		require.NoError(t, b.engine.ResumeDestination(t.Context(), d.ID))
		b.receiver.await(t, 30, 10*time.Second)
		eventually(t, 5*time.Second, "the lane is empty", func() bool { return b.count(t, "SELECT parked + open + in_flight FROM lane") == 0 })
	})

	t.Run("one that drains gets what it is owed and no new events, until it takes them again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{State: "paused"})
		b.publish(t, Event{ID: "before"})
		require.NoError(t, b.engine.DrainDestination(t.Context(), d.ID, "moves to another address"))
		require.ErrorContains(t, b.engine.DrainDestination(t.Context(), d.ID, ""), "drains already")
		b.publish(t, Event{ID: "meanwhile"})
		require.NoError(t, b.engine.ResumeDestination(t.Context(), d.ID), "to resume it does not end the draining")
		b.awaitState(t, "before", d.ID, StateDelivered)
		receipt, err := b.engine.SendTest(t.Context(), d.ID)
		require.NoError(t, err)
		b.awaitState(t, receipt.ID, d.ID, StateDelivered)
		require.NoError(t, b.engine.UndrainDestination(t.Context(), d.ID))
		require.ErrorContains(t, b.engine.UndrainDestination(t.Context(), d.ID), "does not drain")
		b.publish(t, Event{ID: "after"})
		b.awaitState(t, "after", d.ID, StateDelivered)
		require.Equal(t, 3, b.count(t, "SELECT count(*) FROM delivery"), "what came while it drained is not owed to it")
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM attempt WHERE response_headers IS NOT NULL"), "headers are kept of the answer to the test event")
	})

	t.Run("one that is disabled by hand holds what it is owed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{})
		require.NoError(t, b.engine.DisableDestination(t.Context(), d.ID, "their contract ended"))
		b.publish(t, Event{ID: "evt"})
		require.ErrorContains(t, b.engine.DisableDestination(t.Context(), d.ID, "again"), "only an active or paused")
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM delivery WHERE parked"))
		require.NoError(t, b.engine.ResumeDestination(t.Context(), d.ID))
		b.awaitState(t, "evt", d.ID, StateDelivered)
	})

	t.Run("an unlimited one holds and lets through as well", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{})
		require.NoError(t, b.engine.PauseDestination(t.Context(), d.ID, ""))
		for _, id := range fields("evt-%d", 30) {
			b.publish(t, Event{ID: id})
		}
		require.NoError(t, b.engine.ResumeDestination(t.Context(), d.ID))
		b.receiver.await(t, 30, 10*time.Second)
	})

	t.Run("a deletion cancels what is owed and sends nothing more", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 0.01, Burst: 1})
		for _, id := range fields("evt-%d", 50) {
			b.publish(t, Event{ID: id})
		}
		b.receiver.await(t, 1, 5*time.Second)
		b.awaitState(t, "evt-0", d.ID, StateDelivered)
		require.NoError(t, b.engine.DeleteDestination(t.Context(), d.ID, "left us"))
		eventually(t, 10*time.Second, "all others cancelled", func() bool {
			return b.count(t, "SELECT count(*) FROM delivery WHERE state = 'cancelled' AND reason = 'its destination was deleted'") == 49
		})
		require.Equal(t, 0, b.count(t, "SELECT count(*) FROM secret"))
		require.Len(t, b.receiver.all(), 1)
		b.publish(t, Event{ID: "later"})
		require.Equal(t, 50, b.count(t, "SELECT count(*) FROM delivery"))
	})

	t.Run("a deletion that was cut short is finished by the sweep", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{State: "paused", Rate: 10})
		for _, id := range fields("evt-%d", 3) {
			b.publish(t, Event{ID: id})
		}
		// As the process leaves it that dies between the destination and its ledger rows; an hour ago.
		_, err := b.pool.Exec(t.Context(), "UPDATE destination SET state = 'deleted', deleted_at = now() - interval '1 hour' WHERE id = $1", d.ID)
		require.NoError(t, err)
		require.NoError(t, b.engine.sweeper.finishDeletions(t.Context()))
		require.Equal(t, 3, b.count(t, "SELECT count(*) FROM delivery WHERE state = 'cancelled'"))
		require.Equal(t, 0, b.count(t, "SELECT parked FROM lane WHERE id = $1", d.LaneID))
		require.Equal(t, 3, b.count(t, "SELECT count(*) FROM river_job WHERE kind = 'deliver' AND state = 'cancelled'"))
	})

	t.Run("a test event goes to this destination alone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Types: []string{"order.*"}})
		b.destination(t, &dbfactory.DestinationOpts{})
		receipt, err := b.engine.SendTest(t.Context(), d.ID)
		require.NoError(t, err)
		b.awaitState(t, receipt.ID, d.ID, StateDelivered)
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM delivery"))
	})
}

func TestOrderingLatest(t *testing.T) {
	t.Parallel()
	latest := func(t *testing.T, b *bundle, opts *dbfactory.DestinationOpts) dbfactory.Destination {
		t.Helper()
		d := b.destination(t, opts)
		_, err := b.pool.Exec(t.Context(), "UPDATE destination SET ordering = 'latest' WHERE id = $1", d.ID)
		require.NoError(t, err)
		return d
	}
	version := func(n int64) *int64 { return &n }

	t.Run("an older version that still waits is superseded, whichever comes first", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := latest(t, b, &dbfactory.DestinationOpts{State: "paused", Rate: 100})
		other := b.destination(t, &dbfactory.DestinationOpts{State: "paused", Rate: 100})
		for _, n := range []int64{2, 1, 4, 3} {
			b.publish(t, Event{ID: fmt.Sprint("v", n), Subject: "SHP-1", Version: version(n)})
		}
		b.publish(t, Event{ID: "another", Subject: "SHP-2", Version: version(1)})
		b.publish(t, Event{ID: "unversioned", Subject: "SHP-1"})
		for _, n := range []int64{1, 2, 3} {
			row := b.delivery(t, fmt.Sprint("v", n), d.ID)
			require.Equal(t, StateSuperseded, row.State, n)
			require.Contains(t, row.Reason, fmt.Sprintf("while version %d waited", n))
			require.Equal(t, StatePending, b.delivery(t, fmt.Sprint("v", n), other.ID).State)
		}
		require.Equal(t, 3, b.count(t, "SELECT parked FROM lane WHERE id = $1", d.LaneID))
		require.NoError(t, b.engine.ResumeDestination(t.Context(), d.ID))
		for _, id := range []string{"v4", "another", "unversioned"} {
			b.awaitState(t, id, d.ID, StateDelivered)
		}
		require.Len(t, b.receiver.all(), 3)
		require.Equal(t, 0, b.count(t, "SELECT parked + open + in_flight FROM lane WHERE id = $1", d.LaneID))
	})

	t.Run("a retry of an older version gives way to a newer one", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := latest(t, b, &dbfactory.DestinationOpts{Retry: []time.Duration{5 * time.Second}})
		b.receiver.statuses(500, 200)
		b.publish(t, Event{ID: "v1", Subject: "S", Version: version(1)})
		b.awaitState(t, "v1", d.ID, StateRetrying)
		b.publish(t, Event{ID: "v2", Subject: "S", Version: version(2)})
		b.awaitState(t, "v2", d.ID, StateDelivered)
		require.Equal(t, StateSuperseded, b.delivery(t, "v1", d.ID).State)
		require.Len(t, b.receiver.all(), 2)

		result, err := b.engine.Replay(t.Context(), ReplayRequest{EventID: "v1", Actor: "ann"})
		require.NoError(t, err)
		require.Equal(t, 1, result.Sent, "an operator may insist")
		b.awaitState(t, "v1", d.ID, StateDelivered)
	})
}
