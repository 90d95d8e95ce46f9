package jobs

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
)

// A page cannot wait for a long count: it gets what there was time for, and is told so.
func TestReplayPreviewEndsInTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.destination(t, &dbfactory.DestinationOpts{})
	b.deadLetters(t, d, "many-", 1)
	_, err := b.pool.Exec(t.Context(), `WITH e AS (
			INSERT INTO event (event_id, type, payload, occurred_at) SELECT 'more-' || g, 'x.y', '{}', now() FROM generate_series(1, 2999) g RETURNING id
		) INSERT INTO delivery (id, event_id, destination_id, lane_id, state, reason, attempts, expires_at, settled_at)
		SELECT 1000000 + e.id, e.id, destination_id, lane_id, state, reason, 1, expires_at, settled_at FROM e, (SELECT * FROM delivery LIMIT 1) d`)
	require.NoError(t, err)
	for within, selected := range map[time.Duration]int{0: minPreviewStretch, PreviewTime: 3000} {
		preview, err := b.engine.PreviewReplay(t.Context(), ReplayRun{}, within)
		require.NoError(t, err)
		require.Equal(t, selected, preview.Selected)
		require.Equal(t, selected == 3000, preview.Complete)
	}
}

func TestReplayRunStartsOnce(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	d := b.destination(t, &dbfactory.DestinationOpts{})
	b.deadLetters(t, d, "old-", 20)
	click := func(run ReplayRun) (ids map[int64]bool, fresh int) {
		var mu sync.Mutex
		var clicks sync.WaitGroup
		ids = map[int64]bool{}
		for range 10 {
			clicks.Go(func() {
				id, existing, err := b.engine.StartReplay(t.Context(), run)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					ids[id] = true
				}
				if !existing {
					fresh++
				}
			})
		}
		clicks.Wait()
		return ids, fresh
	}
	ids, fresh := click(ReplayRun{Actor: "ann", Key: "k1"})
	require.Len(t, ids, 1)
	require.Equal(t, 1, fresh)
	again, fresh := click(ReplayRun{Actor: "ann"})
	require.Equal(t, ids, again, "the same selection is under way")
	require.Zero(t, fresh)
	other, fresh := click(ReplayRun{Actor: "ben"})
	require.NotEqual(t, ids, other)
	require.Equal(t, 1, fresh)

	_, _, err := b.engine.StartReplay(t.Context(), ReplayRun{Actor: "ann", Key: "k1", Filter: ReplayFilter{Subject: "S1"}})
	var conflict *ConflictError
	require.ErrorAs(t, err, &conflict)
	_, _, err = b.engine.StartReplay(t.Context(), ReplayRun{Actor: "ann", Filter: ReplayFilter{Subject: "nobody"}})
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, 2, b.count(t, "SELECT count(*) FROM replay"))

	// Both runs select the same; each delivery goes out once.
	eventually(t, 20*time.Second, "all are fed; one step has a second for it", func() bool {
		b.feed(t)
		return b.count(t, "SELECT count(*) FROM replay_item WHERE state IN ('sent', 'refused')") == 40
	})
	require.Equal(t, 20, b.count(t, "SELECT count(*) FROM delivery WHERE state = 'pending'"))
	require.Equal(t, 20, b.count(t, "SELECT count(*) FROM replay_item WHERE state = 'sent'"))
	require.Equal(t, 20, b.count(t, "SELECT count(*) FROM replay_item WHERE refusal LIKE 'it is being sent again by replay rpl_%'"))
}

func TestReplayRunSelects(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	d1, d2 := b.destination(t, &dbfactory.DestinationOpts{}), b.destination(t, &dbfactory.DestinationOpts{})
	b.deadLetters(t, d1, "a-", 10)
	b.deadLetters(t, d2, "b-", 6)
	for _, sql := range []string{
		"UPDATE delivery SET state = 'expired', reason = 'Expired while waiting', last_status = NULL WHERE id % 1000000 = 1",
		"UPDATE delivery SET state = 'delivered', reason = '' WHERE id % 1000000 = 2",
		"UPDATE delivery SET state = 'cancelled', last_error_class = 'timeout' WHERE id % 1000000 = 3",
		"UPDATE delivery SET created_at = now() - interval '2 days', settled_at = now() - interval '1 day' WHERE id % 1000000 = 4",
		"UPDATE delivery SET state = 'pending', settled_at = NULL WHERE id % 1000000 = 5",
		"UPDATE event SET type = 'order.paid', tenant = 'acme' WHERE event_id IN ('a-6', 'a-7')",
	} {
		_, err := b.pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	yesterday := time.Now().Add(-12 * time.Hour)
	all := []string{StateDelivered, StateDeadLettered, StateExpired, StateCancelled, StateSuperseded}
	for name, c := range map[string]struct {
		filter ReplayFilter
		n      int
	}{
		"what was not delivered":    {ReplayFilter{}, 10},
		"everything that has ended": {ReplayFilter{States: all}, 14},
		"of a destination":          {ReplayFilter{DestinationID: d2.ID}, 3},
		"delivered to it":           {ReplayFilter{DestinationID: d2.ID, States: []string{StateDelivered}}, 1},
		"of an event":               {ReplayFilter{EventID: "a-8"}, 1},
		"of a subject":              {ReplayFilter{Subject: "S4"}, 2},
		"of a subject's event":      {ReplayFilter{Subject: "S4", EventID: "b-8"}, 0},
		"by type":                   {ReplayFilter{Type: "order.paid"}, 2},
		"by pattern":                {ReplayFilter{Type: "order.*"}, 2},
		"by another pattern":        {ReplayFilter{Type: "shipment.*"}, 8},
		"by tenant":                 {ReplayFilter{Tenant: "acme"}, 2},
		"by class":                  {ReplayFilter{States: all, ErrorClass: "timeout"}, 2},
		"by status":                 {ReplayFilter{Status: 500}, 8},
		"by reason":                 {ReplayFilter{Reason: "expired while"}, 2},
		"ended before":              {ReplayFilter{SettledTo: &yesterday}, 2},
		"ended since":               {ReplayFilter{SettledFrom: &yesterday}, 8},
		"made before":               {ReplayFilter{CreatedTo: &yesterday}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			preview, err := b.engine.PreviewReplay(t.Context(), ReplayRun{Filter: c.filter}, PreviewTime)
			require.NoError(t, err)
			require.Equal(t, c.n, preview.Selected)
			run := ReplayRun{Filter: c.filter, Actor: name}
			id, _, err := b.engine.StartReplay(t.Context(), run)
			if c.n == 0 {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			for b.run(t, id).Selecting {
				require.NoError(t, b.engine.feeder.selectMore(t.Context(), id))
			}
			require.Equal(t, c.n, b.count(t, "SELECT count(*) FROM replay_item WHERE replay_id = $1", id))
		})
	}
	for field, run := range map[string]ReplayRun{
		"states": {Filter: ReplayFilter{States: []string{"pending"}}}, "share": {Share: 1.5}, "status": {Filter: ReplayFilter{Status: 7}},
		"reason": {Filter: ReplayFilter{Reason: "a\x00"}}, "settled_to": {Filter: ReplayFilter{SettledFrom: &yesterday, SettledTo: &yesterday}},
	} {
		_, err := b.engine.PreviewReplay(t.Context(), run, PreviewTime)
		var invalid *InvalidError
		require.ErrorAs(t, err, &invalid, field)
		require.Equal(t, field, invalid.Field)
	}
}

func TestReplayOfAWideEventIsARun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 120 {
		b.destination(t, &dbfactory.DestinationOpts{})
	}
	b.publish(t, Event{ID: "wide"})
	b.receiver.await(t, 120, 30*time.Second)
	eventually(t, 20*time.Second, "all have ended", func() bool { return b.count(t, "SELECT count(*) FROM delivery WHERE state = 'delivered'") == 120 })
	result, err := b.engine.Replay(t.Context(), ReplayRequest{EventID: "wide", Actor: "ann", Key: "k"})
	require.NoError(t, err)
	require.Equal(t, 120, result.Sent)
	again, err := b.engine.Replay(t.Context(), ReplayRequest{EventID: "wide", Actor: "ann", Key: "k"})
	require.NoError(t, err)
	require.Equal(t, result.ID, again.ID)
	require.True(t, again.Existing)
	b.awaitRun(t, result.ID, ReplayDone, 30*time.Second)
	require.Len(t, b.receiver.all(), 240)
	_, err = b.engine.Replay(t.Context(), ReplayRequest{EventID: "other", Actor: "ann", Key: "k"})
	var conflict *ConflictError
	require.ErrorAs(t, err, &conflict)
}
