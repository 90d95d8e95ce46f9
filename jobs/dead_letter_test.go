package jobs

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
	"weir/db/dbsqlc"
	"weir/db/dbtest"
)

// setupInbox is an engine that does not run: the test moves deliveries, and says when the inbox looks.
func setupInbox(t *testing.T) (*bundle, dbfactory.Destination) {
	t.Helper()
	b := &bundle{pool: dbtest.Pool(t)}
	queries := dbsqlc.New()
	b.engine = &Engine{pool: b.pool, queries: queries}
	b.engine.sweeper = &sweeper{inbox: &inbox{pool: b.pool, queries: queries, log: slog.New(slog.DiscardHandler)}}
	return b, dbfactory.NewDestination(t.Context(), t, b.pool, &dbfactory.DestinationOpts{})
}

// owe makes n pending deliveries with ids from first on.
func (b *bundle) owe(t *testing.T, d dbfactory.Destination, typ string, first, n int) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), `
		WITH e AS (
			INSERT INTO event (event_id, type, subject, payload, occurred_at)
			SELECT 'e' || i, $3, 'S', '{}', now() FROM generate_series($4::int, $4 + $5::int - 1) i RETURNING id, substr(event_id, 2)::bigint AS no
		)
		INSERT INTO delivery (id, event_id, destination_id, lane_id, expires_at) SELECT no, id, $1, $2, now() + interval '1 day' FROM e`, d.ID, d.LaneID, typ, first, n)
	require.NoError(t, err)
}

// end gives deliveries from first to last a bad end.
func (b *bundle) end(t *testing.T, first, last int, state string, status int, class string) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), `UPDATE delivery SET state = $3, last_status = nullif($4::int, 0), last_error_class = $5, reason = 'because ' || id,
		settled_at = clock_timestamp() WHERE id BETWEEN $1 AND $2`, first, last, state, status, class)
	require.NoError(t, err)
}

func (b *bundle) followLedger(t *testing.T) {
	t.Helper()
	require.NoError(t, b.engine.sweeper.inbox.step(t.Context()))
	b.inboxAddsUp(t)
}

// inboxAddsUp says that the groups' counts fit what they stand for.
func (b *bundle) inboxAddsUp(t *testing.T) {
	t.Helper()
	require.Zero(t, b.count(t, `SELECT count(*) FROM dead_letter_group g WHERE (g.open, g.sending) <> (SELECT count(*), count(l.replay_id) FROM dead_letter l
		WHERE l.group_id = g.id AND l.left_at IS NULL AND l.seq > g.resolved_through) OR (g.open > 0) <> (g.opened_at IS NOT NULL)`))
}

func (b *bundle) letters(t *testing.T) []dbsqlc.DeadLetterGroup {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), "SELECT * FROM dead_letter_group ORDER BY id")
	require.NoError(t, err)
	groups, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dbsqlc.DeadLetterGroup])
	require.NoError(t, err)
	return groups
}

// history is a group's, oldest first, as "kind count note".
func (b *bundle) history(t *testing.T, group int64) []string {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), "SELECT kind || ' ' || count || ' ' || note FROM dead_letter_history WHERE group_id = $1 ORDER BY id", group)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return lines
}

// lettersOf are the deliveries of a group, the lowest first.
func (b *bundle) lettersOf(t *testing.T, group int64) []int64 {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), "SELECT delivery_id FROM dead_letter WHERE group_id = $1 AND left_at IS NULL ORDER BY 1", group)
	require.NoError(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	return ids
}

func TestInboxGroups(t *testing.T) {
	t.Parallel()
	b, d := setupInbox(t)
	b.owe(t, d, "shipment.updated", 1, 10)
	b.owe(t, d, "shipment.returned", 11, 10)
	b.end(t, 1, 4, StateDeadLettered, 422, "status_4xx")
	b.end(t, 5, 6, StateDeadLettered, 503, "status_5xx")
	b.end(t, 7, 7, StateExpired, 0, "")
	b.end(t, 8, 8, StateDelivered, 200, "")
	b.end(t, 11, 12, StateDeadLettered, 422, "status_4xx")
	b.end(t, 13, 13, StateDeadLettered, 503, "status_5xx")
	require.Equal(t, 10, b.count(t, "SELECT count(*) FROM dead_letter_change"), "one that is delivered leaves none")
	b.followLedger(t)

	open := map[string]int32{}
	for _, g := range b.letters(t) {
		open[fmt.Sprintf("%s %d %s", g.State, g.Status, g.Type)] = g.Open
		require.Equal(t, []string{"opened 0 "}, b.history(t, g.ID))
		require.False(t, g.FirstSeen.After(g.LastSeen))
	}
	require.Equal(t, map[string]int32{
		"dead_lettered 422 shipment.updated": 4, "dead_lettered 422 shipment.returned": 2, "dead_lettered 503 ": 3, "expired 0 ": 1,
	}, open)
	require.Zero(t, b.count(t, "SELECT count(*) FROM dead_letter_change"))
	require.Equal(t, 10, b.count(t, "SELECT sum(came) FROM dead_letter_tally"))

	t.Run("more of the same kind come into the same group", func(t *testing.T) {
		b.end(t, 9, 10, StateDeadLettered, 422, "status_4xx")
		b.followLedger(t)
		groups := b.letters(t)
		require.Len(t, groups, 4)
		require.Equal(t, 6, b.count(t, "SELECT open FROM dead_letter_group WHERE type = 'shipment.updated'"))
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM dead_letter_group WHERE reason = 'because 10'"), "it shows the newest reason")
	})

	t.Run("what is removed from the ledger is counted and said", func(t *testing.T) {
		_, err := b.pool.Exec(t.Context(), "DELETE FROM delivery WHERE id IN (1, 2)")
		require.NoError(t, err)
		b.followLedger(t)
		_, err = b.pool.Exec(t.Context(), "DELETE FROM delivery WHERE id = 3")
		require.NoError(t, err)
		b.followLedger(t)
		for _, g := range b.letters(t) {
			if g.Type == "shipment.updated" {
				require.EqualValues(t, 3, g.Open)
				require.Equal(t, []string{"opened 0 ", "removed 3 "}, b.history(t, g.ID), "one entry for a day")
			}
		}
		require.Zero(t, b.count(t, "SELECT count(*) FROM dead_letter WHERE delivery_id <= 3"))
	})
}

func TestInboxResolve(t *testing.T) {
	t.Parallel()
	b, d := setupInbox(t)
	b.owe(t, d, "order.paid", 1, 40)
	b.end(t, 1, 5, StateDeadLettered, 503, "status_5xx")
	b.followLedger(t)
	group := b.letters(t)[0].ID
	seen, err := b.engine.queries.DeadLetterLastSeq(t.Context(), b.pool, group)
	require.NoError(t, err)
	b.end(t, 6, 7, StateDeadLettered, 503, "status_5xx")
	b.followLedger(t)

	var wrong *InvalidError
	_, err = b.engine.ResolveLetters(t.Context(), group, 0, " ", "ann")
	require.ErrorAs(t, err, &wrong, "not without a reason")
	n, err := b.engine.ResolveLetters(t.Context(), group, seen, "the receiver was down", "ann")
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.EqualValues(t, 2, b.letters(t)[0].Open, "what came after the look is still open")
	b.inboxAddsUp(t)
	var conflict *ConflictError
	_, err = b.engine.ResolveLetters(t.Context(), group, seen, "again", "ann")
	require.ErrorAs(t, err, &conflict, "nothing answers ok that did nothing")

	n, err = b.engine.ResolveChosenLetters(t.Context(), group, []int64{1, 6}, "a duplicate", "ann")
	require.NoError(t, err)
	require.Equal(t, 1, n, "the first is resolved already")
	n, err = b.engine.ResolveLetters(t.Context(), group, 0, "all well", "bob")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Nil(t, b.letters(t)[0].OpenedAt)
	b.inboxAddsUp(t)

	// What is resolved is none of the counts any more, whatever becomes of it.
	_, err = b.pool.Exec(t.Context(), "DELETE FROM delivery WHERE id = 2")
	require.NoError(t, err)
	b.followLedger(t)
	require.NotContains(t, b.history(t, group), "removed 1 ")

	b.end(t, 8, 8, StateDeadLettered, 503, "status_5xx")
	b.followLedger(t)
	require.EqualValues(t, 1, b.letters(t)[0].Open)
	n, err = b.engine.TakeBackResolution(t.Context(), group, "bob")
	require.NoError(t, err)
	require.Equal(t, 1, n, "the last resolution only")
	_, err = b.engine.TakeBackResolution(t.Context(), group, "bob")
	require.ErrorAs(t, err, &conflict)
	b.inboxAddsUp(t)
	require.Equal(t, []string{
		"opened 0 ", "resolved 5 the receiver was down", "resolved_some 1 a duplicate", "resolved 1 all well", "reopened 0 ", "taken_back 1 all well",
	}, b.history(t, group))
	var missing *NotFoundError
	require.ErrorAs(t, b.engine.NoteLetters(t.Context(), 99, "text", "ann"), &missing)
}

func TestInboxSnooze(t *testing.T) {
	t.Parallel()
	b, d := setupInbox(t)
	b.owe(t, d, "order.paid", 1, 40)
	b.end(t, 1, 3, StateDeadLettered, 503, "status_5xx")
	b.followLedger(t)
	group := b.letters(t)[0].ID
	snoozed := func() bool { return b.letters(t)[0].SnoozedUntil != nil }
	open := func() int {
		n, err := b.engine.queries.DeadLetterGroupCountOpen(t.Context(), b.pool, 100)
		require.NoError(t, err)
		return int(n)
	}
	require.Equal(t, 1, open())
	require.NoError(t, b.engine.SnoozeLetters(t.Context(), group, time.Now().Add(time.Hour), "ann"))
	require.Zero(t, open())
	b.end(t, 4, 12, StateDeadLettered, 503, "status_5xx")
	b.followLedger(t)
	require.True(t, snoozed(), "12 are not enough to wake a group of 3")
	b.end(t, 13, 13, StateDeadLettered, 503, "status_5xx")
	b.followLedger(t)
	require.False(t, snoozed(), "13 are")

	require.NoError(t, b.engine.SnoozeLetters(t.Context(), group, time.Now().Add(time.Hour), "ann"))
	_, err := b.pool.Exec(t.Context(), "UPDATE dead_letter_group SET snoozed_until = now()")
	require.NoError(t, err)
	b.followLedger(t)
	require.False(t, snoozed(), "its time was over")
	var conflict *ConflictError
	require.ErrorAs(t, b.engine.SnoozeLetters(t.Context(), group, time.Time{}, "ann"), &conflict)
	var wrong *InvalidError
	require.ErrorAs(t, b.engine.SnoozeLetters(t.Context(), group, time.Now().Add(31*24*time.Hour), "ann"), &wrong)
	history := b.history(t, group)
	require.Len(t, history, 5)
	require.Equal(t, "woke 13 it grew from 3 to 13", history[2])
	require.Equal(t, "woke 13 its time was over", history[4])
}

func TestInboxTypesAreCapped(t *testing.T) {
	t.Parallel()
	b, d := setupInbox(t)
	const more = 5
	b.owe(t, d, "t", 1, maxTypedGroups+more)
	_, err := b.pool.Exec(t.Context(), "UPDATE event SET type = 'type' || id")
	require.NoError(t, err)
	b.end(t, 1, maxTypedGroups+more, StateDeadLettered, 422, "status_4xx")
	b.followLedger(t)
	require.Equal(t, maxTypedGroups, b.count(t, "SELECT count(*) FROM dead_letter_group WHERE type <> '' AND open = 1"))
	require.Equal(t, more, b.count(t, "SELECT open FROM dead_letter_group WHERE type = ''"))
}

func TestInboxReplay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.destination(t, &dbfactory.DestinationOpts{Retry: []time.Duration{}})
	b.receiver.statuses(422)
	for i := range 6 {
		b.publish(t, Event{ID: fmt.Sprintf("e%d", i), Subject: "s", Type: "order.paid"})
	}
	group := func() dbsqlc.DeadLetterGroup {
		groups := b.letters(t)
		if len(groups) == 0 {
			return dbsqlc.DeadLetterGroup{}
		}
		return groups[0]
	}
	eventually(t, 10*time.Second, "all six are in the inbox", func() bool { return group().Open == 6 })

	// Two are delivered, one fails as before, the others otherwise.
	b.receiver.answers(func(_ int, r *http.Request, _ []byte, w http.ResponseWriter) {
		switch r.Header.Get("Webhook-Id") {
		case "e0", "e1":
		case "e2":
			w.WriteHeader(http.StatusUnprocessableEntity)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	run := ReplayRun{Filter: ReplayFilter{Letters: group().ID}, Reason: "mended", Share: 1}
	id := b.startReplay(t, run)
	run.Actor = "ann"
	again, existing, err := b.engine.StartReplay(t.Context(), run)
	require.NoError(t, err)
	require.True(t, existing)
	require.Equal(t, id, again)
	b.awaitRun(t, id, ReplayDone, 20*time.Second)
	eventually(t, 5*time.Second, "only the one that failed as before is in the group", func() bool { return group().Open == 1 && group().Sending == 0 })
	require.ElementsMatch(t, []string{"opened 0 ", "replay 6 mended", "delivered 2 ", "failed 1 ", "moved 3 "}, b.history(t, group().ID))
	require.Equal(t, 3, b.count(t, "SELECT open FROM dead_letter_group WHERE status = 401"))
	require.Equal(t, 2, b.count(t, "SELECT count(*) FROM dead_letter WHERE left_why = 'delivered'"))
	b.inboxAddsUp(t)

	t.Run("what is none of the group is not sent as its own", func(t *testing.T) {
		mine, others := b.lettersOf(t, group().ID), b.lettersOf(t, int64(b.count(t, "SELECT id FROM dead_letter_group WHERE status = 401")))
		require.Len(t, others, 3)
		run := ReplayRun{Filter: ReplayFilter{Letters: group().ID, Deliveries: append(others[1:3:3], mine...)}, Actor: "eve", Share: 1}
		_, _, err := b.engine.StartReplay(t.Context(), run)
		want := &InvalidError{"deliveries", fmt.Sprintf("want deliveries of the group dlg_%d of dead letters; dlv_%d does not belong to it", group().ID, others[1])}
		require.Equal(t, want, err)
		_, err = b.engine.PreviewReplay(t.Context(), run, PreviewTime)
		require.Equal(t, want, err)
		require.Zero(t, b.count(t, "SELECT count(*) FROM replay WHERE actor = 'eve'"))

		run.Filter.Letters, run.Filter.Deliveries = int64(b.count(t, "SELECT id FROM dead_letter_group WHERE status = 401")), others[:2]
		preview, err := b.engine.PreviewReplay(t.Context(), run, PreviewTime)
		require.NoError(t, err)
		require.Equal(t, 2, preview.Selected, "those chosen, not all of the group")
	})

	t.Run("chosen ones, and what a stopped run gives back", func(t *testing.T) {
		_, err := b.pool.Exec(t.Context(), "UPDATE lane SET held_us = (extract(epoch FROM now() + interval '1 hour') * 1e6)::bigint, rate = 10")
		require.NoError(t, err)
		ids := []int64{}
		rows, err := b.pool.Query(t.Context(), "SELECT delivery_id FROM dead_letter WHERE left_at IS NULL ORDER BY delivery_id DESC LIMIT 2")
		require.NoError(t, err)
		ids, err = pgx.AppendRows(ids, rows, pgx.RowTo[int64])
		require.NoError(t, err)
		// Fed by hand: a run feeds nothing to a lane that is held.
		id := b.startReplay(t, ReplayRun{Filter: ReplayFilter{Deliveries: ids}, Actor: "bob", Share: 1})
		require.Equal(t, 2, int(b.sum(t, id).Waiting))
		require.NotZero(t, b.count(t, "SELECT count(*) FROM dead_letter_history WHERE kind = 'replay' AND actor = 'bob' AND replay_id = $1", id), "said before it is sent")
		err = pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
			if err := b.engine.queries.LaneLock(t.Context(), tx, []int64{d.LaneID}); err != nil {
				return err
			}
			return b.engine.feeder.send(t.Context(), tx, id, []replaySend{{ids[0], d.ID, d.LaneID, 9, 2}, {ids[1], d.ID, d.LaneID, 9, 2}})
		})
		require.NoError(t, err)
		eventually(t, 5*time.Second, "they are shown as being sent", func() bool { return b.count(t, "SELECT sum(sending) FROM dead_letter_group") == 2 })
		require.NoError(t, b.engine.StopReplay(t.Context(), id, "bob"))
		eventually(t, 5*time.Second, "they are back", func() bool { return b.count(t, "SELECT sum(sending) FROM dead_letter_group") == 0 })
		require.Equal(t, 4, b.count(t, "SELECT sum(open) FROM dead_letter_group"))
		b.inboxAddsUp(t)
	})
}
