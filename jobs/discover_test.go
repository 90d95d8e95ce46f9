package jobs

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
)

func (b *bundle) outbox(t *testing.T, eventType, subject string, payload []byte, version any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), "SELECT publish($1, $2, $3::bytea, version => $4::bigint)", eventType, subject, payload, version)
	require.NoError(t, err)
}

func (b *bundle) discover(t *testing.T) {
	t.Helper()
	eventually(t, 30*time.Second, "the outbox is read", func() bool {
		// Again and again: a run that is just at work, and has read before, makes this one a duplicate.
		_, err := b.engine.client.Insert(t.Context(), DiscoverArgs{Source: SourceOutbox}, nil)
		require.NoError(t, err)
		return b.count(t, "SELECT count(*) FROM outbox WHERE refused_at IS NULL") == 0
	})
}

func TestDiscover(t *testing.T) {
	t.Parallel()

	t.Run("takes an application's events with their exact bytes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{})
		body := []byte("{\"z\":1e2,\"a\":-0,\"nul\":\"\\u0000\"}\r\n")
		b.outbox(t, "shipment.updated", "SHP-9", body, 4)
		b.discover(t)
		got := b.receiver.await(t, 1, 10*time.Second)[0]
		require.Equal(t, body, got.body)
		require.Equal(t, "shipment.updated:SHP-9:v4", got.id)
		b.awaitState(t, got.id, d.ID, StateDelivered)
		var read, fresh, deliveries int
		require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT read, new, deliveries FROM discovery_run WHERE read > 0").Scan(&read, &fresh, &deliveries))
		require.Equal(t, []int{1, 1, 1}, []int{read, fresh, deliveries})
		require.Equal(t, 0, b.count(t, "SELECT count(*) FROM outbox"))
	})

	t.Run("an application's own role can publish and do nothing else", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.destination(t, &dbfactory.DestinationOpts{})
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(t.Context()) //nolint:errcheck // committed below
		for _, sql := range []string{
			"CREATE ROLE shop", "GRANT USAGE ON SCHEMA weir TO shop", "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA weir TO shop",
			"SET LOCAL ROLE shop", "SET LOCAL search_path = public",
			`SELECT weir.publish('shipment.updated', 'SHP-1', '{"status": "in_transit"}', version => 3)`,
			"SAVEPOINT s",
		} {
			_, err := tx.Exec(t.Context(), sql)
			require.NoError(t, err, sql)
		}
		_, err = tx.Exec(t.Context(), "SELECT * FROM weir.outbox")
		require.ErrorContains(t, err, "permission denied")
		for _, sql := range []string{"ROLLBACK TO s", "RESET ROLE", "DROP OWNED BY shop", "DROP ROLE shop"} {
			_, err := tx.Exec(t.Context(), sql)
			require.NoError(t, err, sql)
		}
		require.NoError(t, tx.Commit(t.Context()))
		b.discover(t)
		require.Equal(t, `{"status": "in_transit"}`, string(b.receiver.await(t, 1, 10*time.Second)[0].body))
	})

	t.Run("sees nothing of a transaction that rolls back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.destination(t, &dbfactory.DestinationOpts{})
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "SELECT publish('shipment.updated', 'S', '{}')")
		require.NoError(t, err)
		require.NoError(t, tx.Rollback(t.Context()))
		b.discover(t)
		require.Equal(t, 0, b.count(t, "SELECT count(*) FROM event"))
	})

	t.Run("parks what is wrong, with the reason, and takes the rest of the page", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.destination(t, &dbfactory.DestinationOpts{})
		for i := range 3 {
			b.outbox(t, "good", fmt.Sprint(i), []byte("{}"), 1)
		}
		b.outbox(t, "not a type", "x", []byte("{}"), nil)
		b.outbox(t, "bad", "utf8", []byte("{\"a\":\"\xff\"}"), nil)
		b.outbox(t, "good", "0", []byte("{}"), 1) // the same fact again
		for i := range 3 {
			b.outbox(t, "good", fmt.Sprint(10+i), []byte("{}"), 1)
		}
		b.discover(t)
		b.receiver.await(t, 6, 10*time.Second)
		require.Equal(t, 2, b.count(t, "SELECT count(*) FROM outbox WHERE refused_at IS NOT NULL AND refused_reason <> ''"))
		require.Equal(t, 1, b.count(t, "SELECT sum(duplicate) FROM discovery_run"))
	})

	t.Run("parks the one event that the database refuses", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.destination(t, &dbfactory.DestinationOpts{})
		_, err := b.pool.Exec(t.Context(), "ALTER TABLE event ADD CONSTRAINT poison CHECK (subject <> 'poison')")
		require.NoError(t, err)
		for _, subject := range []string{"a", "b", "poison", "c"} {
			b.outbox(t, "good", subject, []byte("{}"), nil)
		}
		b.discover(t)
		b.receiver.await(t, 3, 10*time.Second)
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM outbox WHERE subject = 'poison' AND refused_reason LIKE '%poison%'"))
	})

	t.Run("spreads one event over more destinations than a page holds", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.pool.Exec(t.Context(), `
			WITH l AS (INSERT INTO lane (name, rate) SELECT 'l' || g, 0.001 FROM generate_series(1, 4500) g RETURNING id),
			d AS (INSERT INTO destination (name, url, lane_id, state) SELECT 'd' || id, 'http://127.0.0.1:9/', id, 'paused' FROM l RETURNING id)
			INSERT INTO subscription (destination_id, types) SELECT id, '{*}' FROM d`)
		require.NoError(t, err)
		b.publish(t, Event{ID: "wide"})
		b.discover(t)
		eventually(t, 20*time.Second, "the fan-out completes", func() bool { return b.count(t, "SELECT count(*) FROM delivery") == 4500 })
		eventually(t, 5*time.Second, "and is marked complete", func() bool {
			return b.count(t, "SELECT count(*) FROM event WHERE fanout_after IS NOT NULL") == 0
		})
		require.Equal(t, 4500, b.count(t, "SELECT sum(parked) FROM lane"))
	})

	t.Run("keeps the progress of several fan-outs that are each half done", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.pool.Exec(t.Context(), `
			WITH l AS (INSERT INTO lane (name, rate) VALUES ('l', 0.001) RETURNING id),
			d AS (INSERT INTO destination (name, url, lane_id, state) SELECT 'd' || g, 'http://127.0.0.1:9/', l.id, 'paused' FROM l, generate_series(1, 1900) g RETURNING id)
			INSERT INTO subscription (destination_id, types) SELECT id, '{*}' FROM d`)
		require.NoError(t, err)
		for _, batch := range [][]string{{"a", "b"}, {"c", "d"}, {"e", "f"}} { // each leaves its second event at 100 of 1,900
			events := make([]Event, len(batch))
			for i, id := range batch {
				events[i] = Event{ID: id, Type: "t", Payload: []byte("1")}
				require.NoError(t, events[i].normalize(time.Now(), MaxPayload))
			}
			_, err := b.engine.intake.commit(t.Context(), events)
			require.NoError(t, err)
		}
		b.discover(t)
		eventually(t, 20*time.Second, "all fan-outs complete", func() bool {
			return b.count(t, "SELECT count(*) FROM event WHERE fanout_after IS NOT NULL") == 0
		})
		require.Equal(t, 6*1900, b.count(t, "SELECT count(*) FROM delivery"))
		require.Equal(t, 0, b.count(t, "SELECT count(*) FROM discovery_run WHERE error <> ''"))
	})

	t.Run("two processes over one outbox send each event once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.start(t, Options{})
		for range 3 {
			b.destination(t, &dbfactory.DestinationOpts{Types: []string{"shipment.*"}})
		}
		_, err := b.pool.Exec(t.Context(), "SELECT publish('shipment.updated', g::text, '{}', version => 1) FROM generate_series(1, 1000) g")
		require.NoError(t, err)
		b.discover(t)
		all := b.receiver.await(t, 3000, 30*time.Second)
		eventually(t, 10*time.Second, "all delivered", func() bool { return b.count(t, "SELECT count(*) FROM delivery WHERE state = 'delivered'") == 3000 })
		require.Len(t, b.receiver.all(), 3000)
		require.Len(t, all, 3000)
	})
}

func TestMatching(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, opts := range []dbfactory.DestinationOpts{
		{Name: "all", Types: []string{"*"}},
		{Name: "shipments", Types: []string{"shipment.*"}},
		{Name: "exact", Types: []string{"order.created", "shipment.updated"}},
		{Name: "tenant", Types: []string{"*"}, Tenant: "acme"},
		{Name: "prefix only", Types: []string{"ship.*"}},
	} {
		opts.State = "paused"
		b.destination(t, &opts)
	}
	for event, want := range map[*Event][]string{
		{Type: "shipment.updated"}:                 {"all", "exact", "shipments"},
		{Type: "shipment.updated", Tenant: "acme"}: {"all", "exact", "shipments", "tenant"},
		{Type: "order.created", Tenant: "other"}:   {"all", "exact"},
		{Type: "shipment"}:                         {"all"},
		{Type: "shipments.updated"}:                {"all"},
	} {
		receipt := b.publish(t, *event)
		rows, err := b.pool.Query(t.Context(), `SELECT t.name FROM delivery d JOIN event e ON e.id = d.event_id
			JOIN destination t ON t.id = d.destination_id WHERE e.event_id = $1 ORDER BY t.name`, receipt.ID)
		require.NoError(t, err)
		var got []string
		for rows.Next() {
			var name string
			require.NoError(t, rows.Scan(&name))
			got = append(got, name)
		}
		require.Equal(t, want, got, "%+v", event)
	}
}
