package jobs

import (
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
	"weir/db/dbsqlc"
	"weir/jobs/webhook"
)

func TestTallySumsEqualTheLedger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.start(t, Options{})
	b.receiver.answers(func(n int, _ *http.Request, _ []byte, w http.ResponseWriter) {
		time.Sleep(5 * time.Millisecond)
		w.WriteHeader([]int{200, 404, 500, 204, 302}[n%5])
	})
	mixed := b.destination(t, &dbfactory.DestinationOpts{Types: []string{"mixed"}, Retry: []time.Duration{10 * time.Millisecond}})
	closed := b.destination(t, &dbfactory.DestinationOpts{Types: []string{"closed"}, URL: "http://127.0.0.1:9/", Retry: []time.Duration{}})
	paused := b.destination(t, &dbfactory.DestinationOpts{Types: []string{"paused"}, State: "paused", TTL: time.Second})
	latest := b.destination(t, &dbfactory.DestinationOpts{Types: []string{"latest"}, State: "paused"})
	_, err := b.pool.Exec(t.Context(), "UPDATE destination SET ordering = 'latest' WHERE id = $1", latest.ID)
	require.NoError(t, err)
	for range 40 {
		b.publish(t, Event{Type: "mixed"})
	}
	for range 3 {
		b.publish(t, Event{Type: "closed"})
		b.publish(t, Event{Type: "paused"})
	}
	for version := range int64(3) {
		b.publish(t, Event{Type: "latest", Subject: "shipment-1", Version: &version})
	}
	open := "SELECT count(*) FROM delivery WHERE settled_at IS NULL"
	eventually(t, 20*time.Second, "all but the newest version settle", func() bool { return b.count(t, open) == 1 })
	require.NoError(t, b.engine.DeleteDestination(t.Context(), latest.ID, "no longer needed"))
	require.Zero(t, b.count(t, open))

	for _, engine := range []*Engine{b.engine, other} {
		require.NoError(t, engine.tally.flush(t.Context()))
		require.NoError(t, engine.tally.flush(t.Context()), "nothing is counted twice")
	}
	for _, d := range []int64{mixed.ID, closed.ID, paused.ID, latest.ID, 0} {
		for _, step := range []int32{60, 3600} {
			require.Equal(t, ledgerSums(t, b, d), tallySums(t, b, d, step), "destination %d, step %d", d, step)
		}
	}
	sum, err := b.engine.queries.TallySum(t.Context(), b.pool, dbsqlc.TallySumParams{DestinationID: mixed.ID, StepS: 60, Since: time.Now().Add(-time.Hour)})
	require.NoError(t, err)
	require.Equal(t, b.count(t, "SELECT sum(took_us) FROM attempt a JOIN delivery d ON d.id = a.delivery_id WHERE d.destination_id = $1", mixed.ID), int(sum.TookUs))
	require.Greater(t, sum.SlowestUs, int64(5000))
	require.Less(t, sum.WaitUs/sum.Requests, int64(5_000_000), "a mean wait of an idle machine")

	rows, err := b.engine.queries.TallySumByDestination(t.Context(), b.pool, dbsqlc.TallySumByDestinationParams{StepS: 3600, Since: time.Now().Add(-2 * time.Hour), Max: 2})
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, []int64{mixed.ID, closed.ID}, []int64{rows[0].DestinationID, rows[1].DestinationID}, "the busiest first")
	series, err := b.engine.queries.TallyListByMinute(t.Context(), b.pool, dbsqlc.TallyListByMinuteParams{StepS: 60, BinS: 300, Since: time.Now().Add(-time.Hour)})
	require.NoError(t, err)
	var requests int64
	for _, bin := range series {
		require.Zero(t, bin.Bin.Unix()%300)
		requests += bin.Requests
	}
	require.EqualValues(t, b.count(t, "SELECT count(*) FROM attempt"), requests)
}

// sums is what the ledger and the tally must agree on.
type sums struct {
	Requests, OK, Refused, ServerError, Network, Delivered, Retried, DeadLettered, Expired, Superseded, Cancelled, Arrived int64
}

func ledgerSums(t *testing.T, b *bundle, destination int64) sums {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `
		WITH d AS (SELECT * FROM delivery WHERE $1::bigint IN (0, destination_id)), a AS (SELECT attempt.* FROM attempt JOIN d ON d.id = delivery_id)
		SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM a WHERE verdict = 'delivered'),
			(SELECT count(*) FROM a WHERE status IN (302, 404)), (SELECT count(*) FROM a WHERE status = 500),
			(SELECT count(*) FROM a WHERE error_class = 'connection_refused'),
			(SELECT count(*) FROM d WHERE state = 'delivered'),
			(SELECT count(*) FROM a JOIN d ON d.id = a.delivery_id WHERE a.no < d.attempts),
			(SELECT count(*) FROM d WHERE state = 'dead_lettered'), (SELECT count(*) FROM d WHERE state = 'expired'),
			(SELECT count(*) FROM d WHERE state = 'superseded'), (SELECT count(*) FROM d WHERE state = 'cancelled'),
			(SELECT count(*) FROM d)`, destination)
	require.NoError(t, err)
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[sums])
	require.NoError(t, err)
	return s
}

func tallySums(t *testing.T, b *bundle, destination int64, step int32) sums {
	t.Helper()
	row, err := b.engine.queries.TallySum(t.Context(), b.pool, dbsqlc.TallySumParams{DestinationID: destination, StepS: step, Since: time.Now().Add(-3 * time.Hour)})
	require.NoError(t, err)
	require.Equal(t, row.Requests, row.Ok+row.RateLimited+row.Refused+row.ServerError+row.Timeout+row.Network+row.Other)
	return sums{
		row.Requests, row.Ok, row.Refused, row.ServerError, row.Network,
		row.Delivered, row.Retried, row.DeadLettered, row.Expired, row.Superseded, row.Cancelled, row.Arrived,
	}
}

func TestTallyOfAStoppedProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.destination(t, &dbfactory.DestinationOpts{})
	b.publish(t, Event{ID: "evt"})
	b.awaitState(t, "evt", d.ID, StateDelivered)
	require.NoError(t, b.stop())
	require.Equal(t, 1, b.count(t, "SELECT delivered FROM tally WHERE destination_id = $1 AND step_s = 60", d.ID))
}

func TestTallyKeepsWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tally := newTally(b.pool, b.engine.queries, b.engine.Log)
	_, err := b.pool.Exec(t.Context(), "ALTER TABLE tally RENAME TO away")
	require.NoError(t, err)
	item := settlement{destinationID: 7, laneID: 7, no: 1, decision: decision{state: StateDelivered}, outcome: webhook.Outcome{Verdict: webhook.Delivered, Status: 200}}
	tally.add([]settlement{item, item}, []bool{true, false})
	require.Error(t, tally.flush(t.Context()))
	_, err = b.pool.Exec(t.Context(), "ALTER TABLE away RENAME TO tally")
	require.NoError(t, err)
	tally.add([]settlement{item}, []bool{true})
	require.NoError(t, tally.flush(t.Context()))
	require.Equal(t, 2, b.count(t, "SELECT ok FROM tally WHERE destination_id = 7 AND step_s = 60"))
}

func TestTallyPrunes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.pool.Exec(t.Context(), `
		INSERT INTO tally (destination_id, step_s, at, ok)
		SELECT 1, step, date_trunc('hour', now()) - age, 1 FROM unnest(ARRAY[60, 3600]) AS step,
			unnest(ARRAY['47 hours', '50 hours', '29 days', '31 days']::interval[]) AS age`)
	require.NoError(t, err)
	require.NoError(t, b.engine.sweeper.pruneTally(t.Context()))
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM tally WHERE step_s = 60"))
	require.Equal(t, 3, b.count(t, "SELECT count(*) FROM tally WHERE step_s = 3600"))
}

func TestAnswerClasses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcome webhook.Outcome
		want    int
	}{
		"delivered":               {webhook.Outcome{Verdict: webhook.Delivered, Status: 204}, answerOK},
		"a conflict that is fine": {webhook.Outcome{Verdict: webhook.Delivered, Status: 409}, answerOK},
		"429":                     {webhook.Outcome{Verdict: webhook.Hold, Status: 429, ErrorClass: webhook.ClassStatus429}, answerRateLimited},
		"503 that asks to wait":   {webhook.Outcome{Verdict: webhook.Hold, Status: 503, ErrorClass: webhook.ClassStatus5xx}, answerServerError},
		"gone":                    {webhook.Outcome{Verdict: webhook.Gone, Status: 410, ErrorClass: webhook.ClassGone}, answerRefused},
		"redirect":                {webhook.Outcome{Verdict: webhook.Reject, Status: 302, ErrorClass: webhook.ClassRedirect}, answerRefused},
		"timeout":                 {webhook.Outcome{Verdict: webhook.Retry, ErrorClass: webhook.ClassTimeout}, answerTimeout},
		"no connection in time":   {webhook.Outcome{Verdict: webhook.Retry, ErrorClass: webhook.ClassConnectTimeout}, answerTimeout},
		"no such name":            {webhook.Outcome{Verdict: webhook.Retry, ErrorClass: webhook.ClassDNS}, answerNetwork},
		"interrupted":             {webhook.Outcome{Verdict: webhook.Retry, ErrorClass: ClassInterrupted}, answerOther},
		"blocked":                 {webhook.Outcome{Verdict: webhook.Blocked, ErrorClass: webhook.ClassBlocked + "loopback"}, answerOther},
	} {
		require.Equal(t, test.want, answerOf(test.outcome), name)
	}
}

// The tally is beside the hot path: one settlement may cost no more than a microsecond.
func BenchmarkTally(b *testing.B) {
	tally := newTally(nil, nil, nil)
	items, took := make([]settlement, 100), make([]bool, 100)
	for i := range items {
		took[i] = true
		items[i] = settlement{destinationID: int64(i), no: 1, decision: decision{state: StateDelivered}, outcome: webhook.Outcome{Verdict: webhook.Delivered, Status: 200}}
	}
	for range b.N {
		tally.add(items, took)
	}
}
