package jobs

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
)

func (b *bundle) serial(t *testing.T, opts *dbfactory.DestinationOpts) dbfactory.Destination {
	t.Helper()
	d := b.destination(t, opts)
	_, err := b.pool.Exec(t.Context(), "WITH d AS (UPDATE destination SET ordering = 'serial' WHERE id = $1 RETURNING lane_id) UPDATE lane SET serial = true FROM d WHERE lane.id = d.lane_id", d.ID)
	require.NoError(t, err)
	return d
}

func (b *bundle) drained(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "all is settled and the counters are back at zero", func() bool {
		return b.count(t, "SELECT count(*) FROM delivery WHERE settled_at IS NULL") == 0 && b.count(t, "SELECT sum(in_flight + open + parked) FROM lane") == 0
	})
}

func TestOrderingSerial(t *testing.T) {
	t.Parallel()
	version := func(n int) *int64 { v := int64(n); return &v }

	for name, opts := range map[string]*dbfactory.DestinationOpts{
		"without limits": {}, "limited": {Rate: 200, Burst: 50, MaxInFlight: 4},
	} {
		t.Run("one subject's versions go one after another, other subjects beside them: "+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.start(t, Options{})
			b.serial(t, opts)
			b.receiver.answers(func(int, *http.Request, []byte, http.ResponseWriter) { time.Sleep(20 * time.Millisecond) })
			const subjects, versions = 5, 8
			var events []Event
			for v := range versions {
				for s := range subjects {
					events = append(events, Event{ID: fmt.Sprintf("s%d-v%d", s, v), Type: "shipment.updated", Subject: fmt.Sprint("SHP-", s), Version: version(v), Payload: []byte("{}")})
				}
			}
			for _, result := range b.engine.PublishMany(t.Context(), events) {
				require.NoError(t, result.Err)
			}
			b.drained(t)
			all := b.receiver.all()
			require.Len(t, all, subjects*versions)
			for s := range subjects {
				var seen []string
				var last time.Time
				for _, a := range all {
					if a.header.Get("weir-subject") == fmt.Sprint("SHP-", s) {
						require.GreaterOrEqual(t, a.at.Sub(last), 20*time.Millisecond, "not before the one before was answered")
						seen, last = append(seen, a.id), a.at
					}
				}
				require.Equal(t, fields(fmt.Sprintf("s%d-v%%d", s), versions), seen)
			}
			require.Greater(t, b.receiver.most, 1, "subjects do not wait for each other")
		})
	}

	t.Run("a version that is retried holds back the next, and a dead-lettered one lets it through", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.serial(t, &dbfactory.DestinationOpts{Retry: []time.Duration{300 * time.Millisecond}})
		b.receiver.answers(func(_ int, r *http.Request, _ []byte, w http.ResponseWriter) {
			if r.Header.Get("webhook-id") == "v1" {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		for v := 1; v <= 3; v++ {
			b.publish(t, Event{ID: fmt.Sprint("v", v), Subject: "S", Version: version(v)})
		}
		b.publish(t, Event{ID: "other", Subject: "T", Version: version(1)})
		b.awaitState(t, "other", d.ID, StateDelivered)
		b.drained(t)
		var order []string
		for _, a := range b.receiver.all() {
			if a.id != "other" {
				order = append(order, a.id)
			}
		}
		require.Equal(t, []string{"v1", "v1", "v2", "v3"}, order)
		require.Equal(t, StateDeadLettered, b.delivery(t, "v1", d.ID).State)
	})

	t.Run("a version that comes late goes before those that still wait, and never beside one", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.serial(t, &dbfactory.DestinationOpts{State: "paused"})
		for _, v := range []int{3, 1, 2} {
			b.publish(t, Event{ID: fmt.Sprint("v", v), Subject: "S", Version: version(v)})
		}
		require.NoError(t, b.engine.ResumeDestination(t.Context(), d.ID))
		b.drained(t)
		var order []string
		for _, a := range b.receiver.all() {
			order = append(order, a.id)
		}
		require.Equal(t, []string{"v1", "v2", "v3"}, order)
		require.Equal(t, 1, b.receiver.most)
	})

	t.Run("nothing stays behind when the ordering is changed, or the older version expires", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.serial(t, &dbfactory.DestinationOpts{Retry: []time.Duration{time.Hour}})
		b.receiver.answers(func(_ int, r *http.Request, _ []byte, w http.ResponseWriter) {
			if r.Header.Get("weir-version") == "1" {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		b.publish(t, Event{ID: "a1", Subject: "A", Version: version(1)})
		b.publish(t, Event{ID: "a2", Subject: "A", Version: version(2)})
		b.publish(t, Event{ID: "b1", Subject: "B", Version: version(1)})
		b.publish(t, Event{ID: "b2", Subject: "B", Version: version(2), ExpiresAt: time.Now().Add(4 * time.Second)})
		b.awaitState(t, "a1", d.ID, StateRetrying)
		b.awaitState(t, "b1", d.ID, StateRetrying)
		require.Equal(t, 2, b.count(t, "SELECT count(*) FROM delivery WHERE blocked"))
		require.Contains(t, b.awaitState(t, "b2", d.ID, StateExpired).Reason, "expired")
		_, err := b.pool.Exec(t.Context(), "UPDATE destination SET ordering = 'all' WHERE id = $1", d.ID)
		require.NoError(t, err)
		b.awaitState(t, "a2", d.ID, StateDelivered)
	})
}

// Two tenants, one of which has sent a flood, share a destination.
func TestTurns(t *testing.T) {
	t.Parallel()
	order := func(b *bundle, n int) (ids []string) {
		for _, a := range b.receiver.await(t, n, 30*time.Second)[:n] {
			ids = append(ids, a.id)
		}
		return ids
	}

	t.Run("a tenant that comes later does not wait for another's flood", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 50, Burst: 1, MaxInFlight: 1, State: "paused"})
		var events []Event
		for _, id := range fields("noisy-%02d", 60) {
			events = append(events, Event{ID: id, Tenant: "noisy", Type: "t", Payload: []byte("{}")})
		}
		b.engine.PublishMany(t.Context(), events)
		events = nil
		for _, id := range fields("quiet-%02d", 10) {
			events = append(events, Event{ID: id, Tenant: "quiet", Type: "t", Payload: []byte("{}")})
		}
		b.engine.PublishMany(t.Context(), events)
		require.NoError(t, b.engine.ResumeDestination(t.Context(), d.ID))
		quiet := 0
		ids := order(b, 26) // 20, and what was in the window with them
		for _, id := range ids {
			if id[:5] == "quiet" {
				quiet++
			}
		}
		require.Equal(t, 10, quiet, "every second place until it has no more: %v", ids)
		b.drained(t)
	})

	t.Run("first tries keep a share against a flood of retries", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 40, Burst: 5, MaxInFlight: 2, Retry: []time.Duration{5 * time.Second, time.Hour}})
		b.receiver.answers(func(_ int, r *http.Request, _ []byte, w http.ResponseWriter) {
			if r.Header.Get("weir-attempt") == "1" && r.Header.Get("webhook-id")[:3] == "old" {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		for _, id := range fields("old-%02d", 60) {
			b.publish(t, Event{ID: id})
		}
		eventually(t, 30*time.Second, "all have been tried", func() bool {
			return b.count(t, "SELECT count(*) FROM delivery WHERE attempts > 0") == 60
		})
		require.NoError(t, b.engine.PauseDestination(t.Context(), d.ID, "so that all of them stand behind the gate"))
		eventually(t, 30*time.Second, "the retries stand behind the gate", func() bool {
			return b.count(t, "SELECT count(*) FROM delivery WHERE parked AND state = 'retrying'") == b.count(t, "SELECT count(*) FROM delivery WHERE settled_at IS NULL")
		})
		before := len(b.receiver.all())
		for _, id := range fields("new-%02d", 8) {
			b.publish(t, Event{ID: id})
		}
		require.NoError(t, b.engine.ResumeDestination(t.Context(), d.ID))
		fresh := 0
		for _, id := range order(b, before+24)[before:] { // twice 8, and what was in the window with them
			if id[:3] == "new" {
				fresh++
			}
		}
		require.Equal(t, 8, fresh)
	})
}

// A lane that is marked slow is worked in the other queue, whatever was waiting where.
func TestSlowQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.destination(t, &dbfactory.DestinationOpts{Rate: 20, Burst: 1, MaxInFlight: 4})
	for _, id := range fields("a-%02d", 30) {
		b.publish(t, Event{ID: id})
	}
	_, err := b.pool.Exec(t.Context(), "UPDATE lane SET slow_since = now() WHERE id = $1", d.LaneID)
	require.NoError(t, err)
	marked := len(b.receiver.all())
	for _, id := range fields("b-%02d", 5) {
		b.publish(t, Event{ID: id})
	}
	b.drained(t)
	require.Len(t, b.receiver.all(), 35)
	fast := b.count(t, "SELECT count(*) FROM river_job j JOIN attempt a ON a.delivery_id = (j.args->>'delivery_id')::bigint JOIN delivery d ON d.job_id = j.id WHERE j.queue = 'deliver'")
	// Those in flight, or granted and waiting for their slot, when it was marked.
	require.LessOrEqual(t, fast, marked+12)
	require.Positive(t, b.count(t, "SELECT count(*) FROM river_job WHERE queue = 'deliver_slow' AND state = 'completed'"))
}
