package jobs

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
)

func TestPublish(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.destination(t, &dbfactory.DestinationOpts{})
	one := int64(1)

	t.Run("answers the same event as a duplicate and sends it once", func(t *testing.T) {
		event := Event{ID: "same", Payload: []byte(`{"a":1}`)}
		require.False(t, b.publish(t, event).Duplicate)
		again := b.publish(t, event)
		require.True(t, again.Duplicate)
		require.Equal(t, "same", again.ID)
	})
	t.Run("refuses the same id with other content", func(t *testing.T) {
		b.publish(t, Event{ID: "taken", Payload: []byte(`{"a":1}`)})
		_, err := b.engine.Publish(t.Context(), Event{ID: "taken", Type: "shipment.updated", Payload: []byte(`{"a":1.0}`)})
		var conflict *ConflictError
		require.ErrorAs(t, err, &conflict)
	})
	t.Run("takes two ids for one fact as one event", func(t *testing.T) {
		first := b.publish(t, Event{ID: "enrol-a", Type: "enrollment.created", Subject: "E1", Version: &one, Payload: []byte(`{"id":"a"}`)})
		second := b.publish(t, Event{ID: "enrol-b", Type: "enrollment.created", Subject: "E1", Version: &one, Payload: []byte(`{"id":"b"}`)})
		require.True(t, second.Duplicate)
		require.Equal(t, first.ID, second.ID)
	})
	t.Run("tells tenants apart", func(t *testing.T) {
		require.Equal(t, "acme/shipment.updated:S:v1", b.publish(t, Event{Tenant: "acme", Subject: "S", Version: &one}).ID)
		require.Equal(t, "bolt/shipment.updated:S:v1", b.publish(t, Event{Tenant: "bolt", Subject: "S", Version: &one}).ID)
	})
	t.Run("escapes a subject that a header cannot carry", func(t *testing.T) {
		require.Equal(t, "shipment.updated:M%C3%BCnchen%201:v1", b.publish(t, Event{Subject: "München 1", Version: &one}).ID)
	})
	t.Run("one in a batch that is refused takes no other with it", func(t *testing.T) {
		results := b.engine.PublishMany(t.Context(), []Event{
			{ID: "m1", Type: "t", Payload: []byte("1")}, {ID: "m2", Type: "", Payload: []byte("1")}, {ID: "m1", Type: "t", Payload: []byte("1")},
			{ID: "m1", Type: "t", Payload: []byte("2")}, {ID: "m3", Type: "t", Payload: []byte("1")},
		})
		require.NoError(t, results[0].Err)
		require.ErrorContains(t, results[1].Err, "type")
		require.True(t, results[2].Receipt.Duplicate)
		require.ErrorContains(t, results[3].Err, "taken")
		require.NoError(t, results[4].Err)
	})
	t.Run("many at once of one id make one event", func(t *testing.T) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		fresh := 0
		for range 50 {
			wg.Go(func() {
				receipt, err := b.engine.Publish(t.Context(), Event{ID: "race", Type: "t", Payload: []byte("{}")})
				mu.Lock()
				defer mu.Unlock()
				if err == nil && !receipt.Duplicate {
					fresh++
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, fresh)
	})
}

func TestParseEvent(t *testing.T) {
	t.Parallel()

	t.Run("keeps the payload's bytes as written", func(t *testing.T) {
		t.Parallel()
		for _, payload := range []string{
			`{}`, `"x"`, `{"a": 1.10}`, "{ \"b\":\t-0, \"a\":1e400 }\r\n", `{"a":1,"a":2}`, `{"s":"\ud83d"}`, `{"s":"\u0000 \/ \u00e9 é"}`,
		} {
			for _, format := range []string{`{"type":"t","payload":PAYLOAD}`, `{"payload": PAYLOAD,"type":"t"}`} {
				event, err := ParseEvent([]byte(strings.Replace(format, "PAYLOAD", payload, 1)))
				require.NoError(t, err)
				require.Equal(t, payload, string(event.Payload))
			}
		}
		event, err := ParseEvent([]byte(`{"type":"t","payload_base64":"ew0KfQ=="}`))
		require.NoError(t, err)
		require.Equal(t, "{\r\n}", string(event.Payload))
	})

	t.Run("names the field that is wrong", func(t *testing.T) {
		t.Parallel()
		for input, field := range map[string]string{
			`[]`: "body", ``: "body", `{"type":"t"`: "body", `{"type":"t"}`: "payload", `{"type":1,"payload":1}`: "type",
			`{"type":"t","payload":1,"versions":3}`: "versions", `{"type":"t","payload":1,"version":"3"}`: "version",
			`{"type":"t","payload":1,"version":1.5}`: "version", `{"type":"t","payload":1,"occurred_at":"yesterday"}`: "occurred_at",
			`{"type":"t","payload":1,"occurred_at":"2026-11-30 10:00"}`: "occurred_at", `{"type":"t","type":"u","payload":1}`: "type",
			`{"type":"t","payload":1}{"x":1}`: "body", `{"type":"t","payload":{"a":}}`: "payload", "{\"type\":\"\xff\",\"payload\":1}": "body",
			`{"type":"t","payload":1,"payload_base64":"MQ=="}`: "payload_base64", `{"type":"t","payload_base64":"%"}`: "payload_base64",
			`{"type":"t","payload":` + strings.Repeat("[", 12000) + strings.Repeat("]", 12000) + `}`: "payload",
		} {
			_, err := ParseEvent([]byte(input))
			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid, input[:min(len(input), 60)])
			require.Equal(t, field, invalid.Field, input[:min(len(input), 60)])
		}
	})

	t.Run("checks what was parsed", func(t *testing.T) {
		t.Parallel()
		now := time.Now()
		minus := int64(-1)
		for field, event := range map[string]Event{
			"type": {Type: "with space", Payload: []byte("1")}, "tenant": {Type: "t", Tenant: "a/b", Payload: []byte("1")},
			"subject": {Type: "t", Subject: "a\nb", Payload: []byte("1")}, "version": {Type: "t", Version: &minus, Payload: []byte("1")},
			"priority": {Type: "t", Priority: 9, Payload: []byte("1")}, "expires_at": {Type: "t", ExpiresAt: now.Add(-time.Hour), Payload: []byte("1")},
			"id": {Type: "t", ID: "a b", Payload: []byte("1")}, "payload": {Type: "t", Payload: []byte("\xef\xbb\xbf{}")},
			"occurred_at": {Type: "t", OccurredAt: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC), Payload: []byte("1")},
		} {
			var invalid *InvalidError
			require.ErrorAs(t, event.normalize(now, 100), &invalid)
			require.Equal(t, field, invalid.Field)
		}
		event := Event{Type: "t", Payload: []byte(`"` + strings.Repeat("x", 98) + `"`)}
		require.NoError(t, event.normalize(now, 100))
		event = Event{Type: "t", Payload: []byte(`"` + strings.Repeat("x", 99) + `"`)}
		require.ErrorContains(t, event.normalize(now, 100), "101 bytes, the limit is 100")
	})
}
