package jobs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
)

func TestReplay(t *testing.T) {
	t.Parallel()

	t.Run("sends a dead letter again under its id, with its bytes, and says that it is a replay", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 100})
		b.receiver.statuses(400, 200)
		b.publish(t, Event{ID: "evt-1", Payload: []byte(`{"v": 1.0}`)})
		b.awaitState(t, "evt-1", d.ID, StateDeadLettered)

		result, err := b.engine.Replay(t.Context(), ReplayRequest{EventID: "evt-1", Actor: "ann", Reason: "their bug is fixed"})
		require.NoError(t, err)
		require.Equal(t, 1, result.Sent)
		row := b.awaitState(t, "evt-1", d.ID, StateDelivered)
		require.Equal(t, 2, row.Attempts)
		all := b.receiver.all()
		require.Equal(t, all[0].body, all[1].body)
		require.Equal(t, "evt-1", all[1].id)
		require.Empty(t, all[0].header.Get("Weir-Replay"))
		require.Equal(t, "true", all[1].header.Get("Weir-Replay"))
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM replay_item i JOIN replay r ON r.id = i.replay_id WHERE r.actor = 'ann' AND i.previous_state = 'dead_lettered'"))
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM attempt WHERE replay_id = $1 AND no = 2", result.ID))
	})

	t.Run("a dry run changes nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{})
		b.publish(t, Event{ID: "evt-1"})
		b.awaitState(t, "evt-1", d.ID, StateDelivered)
		result, err := b.engine.Replay(t.Context(), ReplayRequest{EventID: "evt-1", Actor: "ann", DryRun: true})
		require.NoError(t, err)
		require.Equal(t, 1, result.Sent)
		require.Zero(t, result.ID)
		require.Equal(t, "delivered", b.delivery(t, "evt-1", d.ID).State)
		require.Equal(t, 0, b.count(t, "SELECT count(*) FROM replay"))
	})

	t.Run("gives an expired delivery a new life", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 10})
		b.publish(t, Event{ID: "evt-1"})
		b.awaitState(t, "evt-1", d.ID, StateDelivered)
		_, err := b.pool.Exec(t.Context(), "UPDATE delivery SET state = 'expired', reason = 'x', expires_at = now() - interval '1 hour'")
		require.NoError(t, err)
		_, err = b.engine.Replay(t.Context(), ReplayRequest{EventID: "evt-1", Actor: "ann"})
		require.NoError(t, err)
		b.awaitState(t, "evt-1", d.ID, StateDelivered)
		require.Len(t, b.receiver.all(), 2)
	})

	t.Run("refuses, with the reason, where nothing would come of it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{State: "paused"})
		b.publish(t, Event{ID: "waiting"})
		refusal := func() string {
			result, err := b.engine.Replay(t.Context(), ReplayRequest{EventID: "waiting", Actor: "ann"})
			require.NoError(t, err)
			require.Zero(t, result.Sent)
			return result.Items[0].Refusal
		}
		require.Contains(t, refusal(), "still being delivered")
		require.NoError(t, b.engine.DeleteDestination(t.Context(), d.ID, ""))
		require.Contains(t, refusal(), "was deleted")
		require.Equal(t, StateCancelled, b.delivery(t, "waiting", d.ID).State)
		require.Empty(t, b.receiver.all())

		paused := b.destination(t, &dbfactory.DestinationOpts{})
		b.publish(t, Event{ID: "done"})
		b.awaitState(t, "done", paused.ID, StateDelivered)
		require.NoError(t, b.engine.PauseDestination(t.Context(), paused.ID, "maintenance"))
		result, err := b.engine.Replay(t.Context(), ReplayRequest{EventID: "done", Actor: "ann"})
		require.NoError(t, err)
		require.Contains(t, result.Items[0].Refusal, "paused")

		_, err = b.engine.Replay(t.Context(), ReplayRequest{EventID: "never", Actor: "ann"})
		var missing *NotFoundError
		require.ErrorAs(t, err, &missing)
	})
}
