package jobs

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
)

func TestDeliver(t *testing.T) {
	t.Parallel()

	t.Run("sends the exact bytes, signed, with the event's own id", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{})
		body := []byte("{ \"weight\": 136.0,\t\"a\":1, \"a\":2 }\r\n")
		version := int64(7)
		receipt := b.publish(t, Event{Subject: "SHP-1", Version: &version, Payload: body})
		require.Equal(t, "shipment.updated:SHP-1:v7", receipt.ID)

		got := b.receiver.await(t, 1, 5*time.Second)[0]
		require.Equal(t, body, got.body)
		require.Equal(t, receipt.ID, got.id)
		require.Equal(t, receipt.ID, got.header.Get("Idempotency-Key"))
		require.Equal(t, "1", got.header.Get("Weir-Attempt"))
		got.verify(t, d.Secret)
		row := b.awaitState(t, receipt.ID, d.ID, StateDelivered)
		require.Equal(t, 1, row.Attempts)
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM attempt WHERE delivery_id = $1 AND verdict = 'delivered' AND status = 200", row.ID))
	})

	t.Run("retries with the same bytes and a fresh signature until it is delivered", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 100, Retry: []time.Duration{50 * time.Millisecond, 50 * time.Millisecond}})
		b.receiver.statuses(500, 503, 200)
		receipt := b.publish(t, Event{ID: "evt-1", Payload: []byte(`{"v":1e2}`)})
		row := b.awaitState(t, receipt.ID, d.ID, StateDelivered)
		require.Equal(t, 3, row.Attempts)
		require.Equal(t, 2, row.Failures)
		for i, a := range b.receiver.await(t, 3, time.Second) {
			require.True(t, bytes.Equal([]byte(`{"v":1e2}`), a.body))
			require.Equal(t, "evt-1", a.id)
			a.verify(t, d.Secret)
			require.Equal(t, string(rune('1'+i)), a.header.Get("Weir-Attempt"))
		}
	})

	t.Run("dead-letters when the budget is spent, with the last reason", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Retry: []time.Duration{10 * time.Millisecond}})
		b.receiver.statuses(500)
		receipt := b.publish(t, Event{})
		row := b.awaitState(t, receipt.ID, d.ID, StateDeadLettered)
		require.Equal(t, 2, row.Attempts)
		require.Contains(t, row.Reason, "all 2 attempts failed")
		require.Equal(t, "status_5xx", row.Class)
	})

	t.Run("ends at once what the receiver will never take", func(t *testing.T) {
		t.Parallel()
		for status, class := range map[int]string{400: "status_4xx", 403: "status_4xx", 302: "redirect"} {
			b := setup(t)
			d := b.destination(t, &dbfactory.DestinationOpts{})
			b.receiver.answers(func(_ int, _ *http.Request, _ []byte, w http.ResponseWriter) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
			})
			receipt := b.publish(t, Event{})
			row := b.awaitState(t, receipt.ID, d.ID, StateDeadLettered)
			require.Equal(t, class, row.Class)
			require.Len(t, b.receiver.all(), 1)
			require.NotEmpty(t, row.Reason)
		}
	})

	t.Run("disables a destination that is gone and keeps what it is owed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 1000, MaxInFlight: 1})
		b.receiver.statuses(410)
		first := b.publish(t, Event{ID: "first"})
		b.awaitState(t, first.ID, d.ID, StateDeadLettered)
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM destination WHERE state = 'disabled' AND state_reason <> ''"))
		require.Equal(t, 1, b.count(t, `SELECT count(*) FROM audit WHERE actor_kind = 'weir' AND action = 'destination.disable' AND object_id = 'dst_' || $1::bigint
			AND before = '{"state": "active"}' AND after = '{"state": "disabled"}' AND note LIKE '%410%'`, d.ID), "the change has its entry")
		second := b.publish(t, Event{ID: "second"})
		row := b.delivery(t, second.ID, d.ID)
		require.Equal(t, StatePending, row.State)
		require.True(t, row.Parked)
		b.receiver.statuses(200)
		require.NoError(t, b.engine.ResumeDestination(t.Context(), d.ID))
		b.awaitState(t, second.ID, d.ID, StateDelivered)
	})

	t.Run("waits as long as a 429 asks, for the whole lane, without touching the budget", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 100, Burst: 20, MaxInFlight: 2, Retry: []time.Duration{100 * time.Millisecond}})
		b.receiver.answers(func(n int, _ *http.Request, _ []byte, w http.ResponseWriter) {
			if n == 1 {
				w.Header().Set("Retry-After", "2")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		})
		for _, id := range fields("evt-%d", 10) {
			b.publish(t, Event{ID: id})
		}
		for _, id := range fields("evt-%d", 10) {
			b.awaitState(t, id, d.ID, StateDelivered)
		}
		all := b.receiver.all()
		require.Len(t, all, 11)
		early := 0
		for _, a := range all[1:] {
			if a.at.Sub(all[0].at) < 1900*time.Millisecond {
				early++
			}
		}
		require.LessOrEqual(t, early, 2, "only what was in flight may arrive during the hold")
		require.Equal(t, 0, b.count(t, "SELECT sum(failures) FROM delivery"))
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM attempt WHERE verdict = 'hold' AND retry_after = '2'"))
	})

	t.Run("expires what waited too long", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{State: "paused", TTL: time.Second})
		receipt := b.publish(t, Event{})
		row := b.awaitState(t, receipt.ID, d.ID, StateExpired)
		require.Equal(t, "expired while waiting for its turn", row.Reason)
		require.Empty(t, b.receiver.all())
	})

	t.Run("a timeout is retried under the same id and says that the outcome is unknown", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Timeout: time.Second, Retry: []time.Duration{10 * time.Millisecond}})
		b.receiver.answers(func(n int, r *http.Request, _ []byte, _ http.ResponseWriter) {
			if n == 1 {
				<-r.Context().Done()
			}
		})
		receipt := b.publish(t, Event{})
		row := b.awaitState(t, receipt.ID, d.ID, StateDelivered)
		require.Equal(t, 2, row.Attempts)
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM attempt WHERE error_class = 'timeout' AND reason LIKE '%unknown%'"))
		all := b.receiver.all()
		require.Equal(t, all[0].id, all[1].id)
	})
}
