package jobs

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
	"weir/db/dbsqlc"
	"weir/db/dbtest"
	"weir/jobs/webhook"
)

// deadLetters makes n deliveries to a destination that ended badly, in the ledger alone: nobody was asked.
func (b *bundle) deadLetters(t *testing.T, d dbfactory.Destination, prefix string, n int) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), `
		WITH e AS (
			INSERT INTO event (event_id, type, subject, payload, occurred_at)
			SELECT $1 || i, 'shipment.updated', 'S' || i, '{}', now() FROM generate_series(1, $2::int) i RETURNING id
		)
		INSERT INTO delivery (id, event_id, destination_id, lane_id, state, attempts, failures, last_status, last_error_class, reason, expires_at, settled_at)
		SELECT 1000000 * $3::bigint + row_number() OVER (ORDER BY id), id, $3, $4, 'dead_lettered', 8, 8, 500, 'status', 'all 8 attempts failed',
			now() + interval '1 day', now() - interval '1 minute' FROM e`, prefix, n, d.ID, d.LaneID)
	require.NoError(t, err)
}

func (b *bundle) startReplay(t *testing.T, run ReplayRun) int64 {
	t.Helper()
	run.Actor = or(run.Actor, "ann")
	id, existing, err := b.engine.StartReplay(t.Context(), run)
	require.NoError(t, err)
	require.False(t, existing)
	return id
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

func (b *bundle) run(t *testing.T, id int64) dbsqlc.Replay {
	t.Helper()
	row, err := b.engine.queries.ReplayGet(t.Context(), b.pool, id)
	require.NoError(t, err)
	return row
}

func (b *bundle) sum(t *testing.T, id int64) dbsqlc.ReplayDestinationSumRow {
	t.Helper()
	row, err := b.engine.queries.ReplayDestinationSum(t.Context(), b.pool, id)
	require.NoError(t, err)
	return row
}

func (b *bundle) awaitRun(t *testing.T, id int64, state string, within time.Duration) {
	t.Helper()
	eventually(t, within, "the run is "+state, func() bool {
		run := b.run(t, id)
		return run.State == state && run.FinishedAt != nil
	})
}

// lanesAreRight says that the counters fit the rows they stand for.
func (b *bundle) lanesAreRight(t *testing.T) {
	t.Helper()
	require.Zero(t, b.count(t, `SELECT count(*) FROM lane WHERE parked <> (SELECT count(*) FROM delivery d WHERE d.parked AND d.lane_id = lane.id)
		OR (limited AND open <> (SELECT count(*) FROM delivery d WHERE d.in_window AND d.lane_id = lane.id))`))
	require.Zero(t, b.count(t, `SELECT count(*) FROM replay_destination p WHERE (p.waiting, p.sent, p.refused, p.restored) <> (
		SELECT count(*) FILTER (WHERE i.state = 'waiting'), count(*) FILTER (WHERE i.state = 'sent'), count(*) FILTER (WHERE i.state = 'refused'),
			count(*) FILTER (WHERE i.state = 'left')
		FROM replay_item i WHERE i.replay_id = p.replay_id AND i.destination_id = p.destination_id AND i.lane_id = p.lane_id)`))
}

// quiet is a bundle whose sweep does not run by itself: the test ticks the feeder.
func quiet(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{pool: dbtest.Pool(t), receiver: newReceiver(t)}
	engine, err := New(Options{Pool: b.pool, Keyring: dbfactory.Keyring(t), Sender: webhook.NewSender(webhook.SenderOptions{}), Roles: []string{RoleWeb}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
	b.engine = engine
	return b
}

func (b *bundle) feed(t *testing.T) {
	t.Helper()
	require.NoError(t, b.engine.feeder.step(t.Context()))
}

// 300 dead letters on a lane of 20/s, of which the run may take a quarter; first tries at the same time have the rest.
func TestReplayRunTakesItsShare(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.destination(t, &dbfactory.DestinationOpts{Rate: 20, Burst: 4})
	b.deadLetters(t, d, "old-", 300)
	start := time.Now()
	id := b.startReplay(t, ReplayRun{Share: 0.25, Reason: "their bug is fixed"})
	load := time.NewTicker(100 * time.Millisecond) // 10/s
	defer load.Stop()
	for i := range 120 {
		b.publish(t, Event{ID: fmt.Sprintf("new-%d", i)})
		<-load.C
	}
	for i := range 120 {
		b.awaitState(t, fmt.Sprintf("new-%d", i), d.ID, StateDelivered)
	}
	took := time.Since(start)
	require.NoError(t, b.engine.StopReplay(t.Context(), id, "ann"))
	b.awaitRun(t, id, ReplayStopped, 20*time.Second)

	var replayed []time.Time
	var worst time.Duration
	published := b.times(t, "SELECT e.event_id, e.created_at FROM event e WHERE e.event_id LIKE 'new-%'")
	for _, a := range b.receiver.all() {
		if a.header.Get("Weir-Replay") == "true" {
			replayed = append(replayed, a.at)
		} else {
			worst = max(worst, a.at.Sub(published[a.id]))
		}
	}
	// 5/s and what a tick feeds at once; a busy machine may send that late by a second.
	slices.SortFunc(replayed, time.Time.Compare)
	for i := range replayed {
		for j := i; j < len(replayed); j++ {
			window := replayed[j].Sub(replayed[i]).Seconds()
			require.LessOrEqual(t, float64(j-i+1), 1+1.5*5+5*(window+1), "between %d and %d", i, j)
		}
	}
	require.Greater(t, float64(len(replayed)), 0.6*5*took.Seconds(), "it takes its share, too")
	require.Less(t, worst, 5*time.Second, "a first try does not wait for the run: 300 at 20/s are fifteen seconds")
	sum := b.sum(t, id)
	require.Equal(t, sum.Delivered, sum.Sent)
	require.Len(t, replayed, int(sum.Delivered))
	require.Equal(t, int32(300), sum.Waiting+sum.Sent+sum.Restored)
	b.lanesAreRight(t)
}

func (b *bundle) times(t *testing.T, sql string) map[string]time.Time {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), sql)
	require.NoError(t, err)
	defer rows.Close()
	times := map[string]time.Time{}
	for rows.Next() {
		var id string
		var at time.Time
		require.NoError(t, rows.Scan(&id, &at))
		times[id] = at
	}
	require.NoError(t, rows.Err())
	return times
}

// RPL-05: 500 dead letters to a 5/s destination that answers 429 to whoever is faster, and 20 fresh events.
func TestReplayRunMakesNoStorm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.destination(t, &dbfactory.DestinationOpts{Rate: 5, Burst: 2})
	b.deadLetters(t, d, "old-", 500)
	var mu sync.Mutex
	var arrived []time.Time
	tooMany := 0
	b.receiver.answers(func(_ int, _ *http.Request, _ []byte, w http.ResponseWriter) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		arrived = append(arrived, now)
		n := 0
		for _, at := range arrived {
			if now.Sub(at) < time.Second {
				n++
			}
		}
		if n > 7 {
			tooMany++
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	id := b.startReplay(t, ReplayRun{Filter: ReplayFilter{States: []string{StateDeadLettered}, DestinationID: d.ID}})
	b.receiver.await(t, 3, 20*time.Second)
	start := time.Now()
	for i := range 20 {
		b.publish(t, Event{ID: fmt.Sprintf("new-%d", i)})
	}
	for i := range 20 {
		b.awaitState(t, fmt.Sprintf("new-%d", i), d.ID, StateDelivered)
	}
	require.Less(t, time.Since(start), 12*time.Second, "20 at 5/s with half for the run, not behind 500")
	require.NoError(t, b.engine.StopReplay(t.Context(), id, "ann"))
	b.awaitRun(t, id, ReplayStopped, 20*time.Second)
	mu.Lock()
	defer mu.Unlock()
	require.Zero(t, tooMany)
	require.Equal(t, 500-int(b.sum(t, id).Delivered), b.count(t, "SELECT count(*) FROM delivery WHERE state = 'dead_lettered'"))
	b.lanesAreRight(t)
}

// RPL-04: the event as it came, to where its destination is now.
func TestReplaySendsWhatWasStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.destination(t, &dbfactory.DestinationOpts{Rate: 100})
	b.receiver.statuses(400, 200)
	v1, v2 := []byte(`{"status" : "in_transit","v":1.0}`), []byte(`{"status":"delivered"}`)
	b.publish(t, Event{ID: "s:v1", Subject: "S", Version: new(int64(1)), Payload: v1})
	b.awaitState(t, "s:v1", d.ID, StateDeadLettered)
	b.publish(t, Event{ID: "s:v2", Subject: "S", Version: new(int64(2)), Payload: v2})
	b.awaitState(t, "s:v2", d.ID, StateDelivered)
	_, err := b.pool.Exec(t.Context(), "UPDATE destination SET url = $1, version = version + 1", b.receiver.URL+"/moved")
	require.NoError(t, err)
	id := b.startReplay(t, ReplayRun{})
	b.awaitRun(t, id, ReplayDone, 20*time.Second)
	last := b.receiver.all()[2]
	require.Equal(t, "s:v1", last.id)
	require.Equal(t, v1, last.body)
	require.Equal(t, "/moved", last.path)
	last.verify(t, d.Secret)
}

// RPL-03 for runs: what cannot be sent is not touched, and each has its reason.
func TestReplayRunWaitsForThePausedAndRefusesTheDeleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	paused, deleted := b.destination(t, &dbfactory.DestinationOpts{}), b.destination(t, &dbfactory.DestinationOpts{})
	b.deadLetters(t, paused, "paused-", 3)
	b.deadLetters(t, deleted, "deleted-", 4)
	require.NoError(t, b.engine.PauseDestination(t.Context(), paused.ID, "maintenance"))
	require.NoError(t, b.engine.DeleteDestination(t.Context(), deleted.ID, ""))
	preview, err := b.engine.PreviewReplay(t.Context(), ReplayRun{}, PreviewTime)
	require.NoError(t, err)
	require.Equal(t, 7, preview.Selected)
	require.True(t, preview.Complete)
	require.Equal(t, map[string]int{"its destination was deleted": 4}, preview.Refused)
	require.Equal(t, map[string]int{"its destination is paused": 3}, preview.Waiting)
	require.Equal(t, deleted.ID, preview.Destinations[0].ID)

	id := b.startReplay(t, ReplayRun{})
	eventually(t, 15*time.Second, "the deleted are refused", func() bool { return b.sum(t, id).Refused == 4 })
	require.Equal(t, int32(3), b.sum(t, id).Waiting)
	require.Equal(t, 7, b.count(t, "SELECT count(*) FROM delivery WHERE state = 'dead_lettered' AND replay_id IS NULL"), "no state was changed")
	require.Empty(t, b.receiver.all())
	require.Equal(t, ReplayRunning, b.run(t, id).State)

	require.NoError(t, b.engine.ResumeDestination(t.Context(), paused.ID))
	b.awaitRun(t, id, ReplayDone, 20*time.Second)
	require.Equal(t, dbsqlc.ReplayDestinationSumRow{Sent: 3, Refused: 4, Delivered: 3}, b.sum(t, id))
	require.Equal(t, 4, b.count(t, "SELECT count(*) FROM replay_item WHERE refusal = 'its destination was deleted'"))
}

func TestReplayRunPausesResumesAndStops(t *testing.T) {
	t.Parallel()

	t.Run("a pause feeds nothing more, a resume goes on", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 20})
		b.deadLetters(t, d, "old-", 30)
		id := b.startReplay(t, ReplayRun{})
		b.receiver.await(t, 3, 15*time.Second)
		require.NoError(t, b.engine.PauseReplay(t.Context(), id, "ben"))
		eventually(t, 15*time.Second, "what was fed has ended", func() bool {
			sum := b.sum(t, id)
			return sum.Sent == sum.Delivered
		})
		sent := b.sum(t, id).Sent
		require.Less(t, sent, int32(30))
		var conflict *ConflictError
		require.ErrorAs(t, b.engine.PauseReplay(t.Context(), id, "ben"), &conflict)
		for range 3 {
			b.feed(t)
		}
		require.Equal(t, sent, b.sum(t, id).Sent)
		require.Equal(t, "ben", b.run(t, id).StateActor)
		require.NoError(t, b.engine.ResumeReplay(t.Context(), id, "ben"))
		b.awaitRun(t, id, ReplayDone, 20*time.Second)
		require.Len(t, b.receiver.all(), 30)
		require.ErrorAs(t, b.engine.StopReplay(t.Context(), id, "ben"), &conflict)
	})

	t.Run("a stop takes back what was fed and not sent, and leaves the rest", func(t *testing.T) {
		t.Parallel()
		b := quiet(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 20, MaxInFlight: 2})
		unlimited := b.destination(t, &dbfactory.DestinationOpts{})
		b.deadLetters(t, d, "old-", 30)
		b.deadLetters(t, unlimited, "free-", 1500)
		picture := func() (sum string) {
			require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT md5(string_agg(
				(id, state, reason, attempts, failures, settled_at, expires_at, last_status, replay_id, parked, in_window)::text, ';' ORDER BY id)) FROM delivery`).Scan(&sum))
			return sum
		}
		before := picture()
		// Something else is behind the gate of the second lane, so that what is fed parks there.
		_, err := b.pool.Exec(t.Context(), "UPDATE lane SET held_us = (extract(epoch FROM now() + interval '1 hour') * 1e6)::bigint WHERE id = $1", unlimited.LaneID)
		require.NoError(t, err)
		id := b.startReplay(t, ReplayRun{Share: 0.9})
		_, err = b.pool.Exec(t.Context(), "UPDATE replay_lane SET credit = 100")
		require.NoError(t, err)
		b.feed(t)
		require.Equal(t, 3, b.count(t, "SELECT count(*) FROM delivery WHERE state = 'pending'"), "0.9 of a window of 4")
		require.NoError(t, b.engine.StopReplay(t.Context(), id, "ben"))
		require.Equal(t, before, picture(), "all are what they were")
		require.Equal(t, 3, b.count(t, "SELECT count(*) FROM river_job WHERE state = 'cancelled'"))
		require.Equal(t, dbsqlc.ReplayDestinationSumRow{Waiting: 1527, Restored: 3}, b.sum(t, id))
		b.lanesAreRight(t)
		b.feed(t)
		require.Equal(t, ReplayStopped, b.run(t, id).State)
		require.NotNil(t, b.run(t, id).FinishedAt)
		require.Equal(t, before, picture())
	})

	t.Run("what is on its way when it is stopped ends as it ends", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 100, MaxInFlight: 1})
		b.deadLetters(t, d, "old-", 5)
		answer := make(chan struct{})
		b.receiver.answers(func(_ int, _ *http.Request, _ []byte, _ http.ResponseWriter) { <-answer })
		id := b.startReplay(t, ReplayRun{Share: 1})
		b.receiver.await(t, 1, 15*time.Second)
		require.NoError(t, b.engine.StopReplay(t.Context(), id, "ben"))
		require.Equal(t, 4, b.count(t, "SELECT count(*) FROM delivery WHERE state = 'dead_lettered'"))
		close(answer)
		b.awaitRun(t, id, ReplayStopped, 15*time.Second)
		require.Len(t, b.receiver.all(), 1)
		require.Equal(t, 4, b.count(t, "SELECT count(*) FROM delivery WHERE state = 'dead_lettered'"))
		require.Equal(t, int32(1), b.sum(t, id).Delivered)
		b.lanesAreRight(t)
	})
}

func TestReplayRunGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	b := &bundle{pool: dbtest.Pool(t), receiver: newReceiver(t)}
	var stop func() error
	b.engine, stop = b.startStoppable(t, Options{})
	d := b.destination(t, &dbfactory.DestinationOpts{Rate: 20})
	b.deadLetters(t, d, "old-", 40)
	id := b.startReplay(t, ReplayRun{})
	b.receiver.await(t, 5, 15*time.Second)
	require.NoError(t, stop())
	require.Less(t, len(b.receiver.all()), 40)
	b.engine = b.start(t, Options{})
	b.awaitRun(t, id, ReplayDone, 20*time.Second)
	ids := map[string]int{}
	for _, a := range b.receiver.all() {
		ids[a.id]++
	}
	require.Len(t, ids, 40)
	require.Len(t, b.receiver.all(), 40, "each once")
}

func TestReplayRunReportsWhatFailedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.destination(t, &dbfactory.DestinationOpts{Rate: 100, Retry: []time.Duration{}})
	b.deadLetters(t, d, "old-", 6)
	b.receiver.answers(func(n int, _ *http.Request, _ []byte, w http.ResponseWriter) {
		if n%2 == 0 {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	id := b.startReplay(t, ReplayRun{Share: 1})
	b.awaitRun(t, id, ReplayDone, 20*time.Second)
	require.Equal(t, dbsqlc.ReplayDestinationSumRow{Sent: 6, Delivered: 3, Failed: 3}, b.sum(t, id))
	reasons, err := b.engine.queries.ReplayOutcomeList(t.Context(), b.pool, dbsqlc.ReplayOutcomeListParams{ReplayID: id, Depth: 1000, Max: 10})
	require.NoError(t, err)
	require.Len(t, reasons, 1)
	require.Equal(t, int32(422), reasons[0].Status)
	require.Equal(t, int32(3), reasons[0].N)

	// The same again: what failed is selected, what was delivered is not, and the first run's report stays.
	second := b.startReplay(t, ReplayRun{Share: 1})
	b.awaitRun(t, second, ReplayDone, 20*time.Second)
	require.Equal(t, int32(3), b.sum(t, second).Sent)
	require.Equal(t, int32(3), b.sum(t, id).Failed)
}
