package jobs

import (
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
	"weir/db/dbsqlc"
)

// learning makes a destination whose receiver refuses its first three requests with 429 and takes the rest, and whose lane, at 2/s with
// room for 40 at once, has more to send than that. It returns once the first 40 requests are answered and counted.
func learning(t *testing.T, b *bundle, mode string) dbfactory.Destination {
	t.Helper()
	b.receiver.answers(func(n int, _ *http.Request, _ []byte, w http.ResponseWriter) {
		if n <= 3 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	d := b.destination(t, &dbfactory.DestinationOpts{Rate: 2, Burst: 40, Retry: []time.Duration{time.Second}})
	// As if the lane had been there for a while.
	_, err := b.pool.Exec(t.Context(), "UPDATE lane SET learning = $2, created_at = now() - interval '1 hour' WHERE id = $1", d.LaneID, mode)
	require.NoError(t, err)
	for range 100 {
		b.publish(t, Event{})
	}
	b.receiver.await(t, 38, 20*time.Second)
	eventually(t, 10*time.Second, "the answers are counted", func() bool {
		require.NoError(t, b.engine.tally.flush(t.Context()))
		return b.count(t, "SELECT coalesce(sum(requests), 0) FROM lane_sample WHERE lane_id = $1", d.LaneID) >= 38
	})
	return d
}

func learnedRate(t *testing.T, b *bundle, lane int64) float64 {
	t.Helper()
	var rate float64
	require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT coalesce(learned_rate, 0) FROM lane WHERE id = $1", lane).Scan(&rate))
	return rate
}

func TestLearning(t *testing.T) {
	t.Parallel()

	t.Run("lowers the rate after refusals and raises it when all is well", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := learning(t, b, "on")
		learn := func() { require.NoError(t, b.engine.sweeper.learn(t.Context())) }
		learn()
		require.InDelta(t, 1.4, learnedRate(t, b, d.LaneID), 0)
		require.Regexp(t, `^429 on [\d.]+ % of \d+ answers in the last \d+ s: 2/s → 1\.4/s$`,
			b.text(t, "SELECT reason FROM lane_change WHERE lane_id = $1 AND kind = 'learned'", d.LaneID))
		learn()
		require.InDelta(t, 1.4, learnedRate(t, b, d.LaneID), 0, "at most once in 30 seconds")

		// A minute later: answers as the lane's pace gives them, none a refusal.
		for _, want := range []float64{1.5, 1.6, 1.7, 1.8, 1.9, 0} {
			_, err := b.pool.Exec(t.Context(), `
				WITH old AS (DELETE FROM lane_sample RETURNING *)
				INSERT INTO lane_sample (lane_id, at, requests, answers, took_us)
				SELECT lane_id, date_bin('10 seconds', now(), 'epoch'), 60, 60, 60000 FROM old GROUP BY lane_id`)
			require.NoError(t, err)
			_, err = b.pool.Exec(t.Context(), "UPDATE lane_change SET at = at - interval '1 minute'")
			require.NoError(t, err)
			learn()
			require.InDelta(t, want, learnedRate(t, b, d.LaneID), 0)
		}
		require.Regexp(t, `^all \d+ answers in the last \d+ s were clean and \d+ deliveries wait: 1\.9/s → 2/s, the rate that was set$`,
			b.text(t, "SELECT reason FROM lane_change WHERE lane_id = $1 ORDER BY id DESC LIMIT 1", d.LaneID))
		learn()
		require.Zero(t, learnedRate(t, b, d.LaneID), "the operator's rate is the ceiling")
		require.Equal(t, 7, b.count(t, "SELECT count(*) FROM lane_change"))
	})

	t.Run("suggests without applying, once, until somebody adopts it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := learning(t, b, "suggest")
		for range 2 {
			require.NoError(t, b.engine.sweeper.learn(t.Context()))
		}
		require.Zero(t, learnedRate(t, b, d.LaneID))
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM lane_change WHERE kind = 'suggested' AND rate_before = 2 AND rate_after = 1.4"))
		require.NoError(t, b.engine.AdoptRate(t.Context(), d.LaneID, "mara"))
		require.InDelta(t, 1.4, learnedRate(t, b, d.LaneID), 0)
		require.Regexp(t, "^adopted: 429 on .*/s$", b.text(t, "SELECT reason FROM lane_change WHERE kind = 'learned' AND actor = 'mara'"))
		var conflict *ConflictError
		require.ErrorAs(t, b.engine.AdoptRate(t.Context(), d.LaneID, "mara"), &conflict)
		var missing *NotFoundError
		require.ErrorAs(t, b.engine.AdoptRate(t.Context(), 999, "mara"), &missing)
	})

	t.Run("leaves lanes alone that do not learn", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 100})
		b.receiver.statuses(http.StatusTooManyRequests)
		b.publish(t, Event{ID: "evt"})
		b.awaitState(t, "evt", d.ID, StateRetrying)
		require.NoError(t, b.engine.tally.flush(t.Context()))
		require.Equal(t, 1, b.count(t, "SELECT rate_limited FROM tally WHERE destination_id = $1 AND step_s = 60", d.ID))
		require.NoError(t, b.engine.sweeper.learn(t.Context()))
		require.Zero(t, learnedRate(t, b, d.LaneID))
		require.Zero(t, b.count(t, "SELECT count(*) FROM lane_sample"))
	})
}

func TestJudgePace(t *testing.T) {
	t.Parallel()
	// Half of the allowance used, clean, and a backlog.
	clean := dbsqlc.LaneListLearningRow{Rate: 10, WindowS: 30, SeenS: 30, UnchangedS: 60, Requests: 150, Answers: 150, TookUs: 150 * 100_000, Parked: 1, BaselineUs: 100_000, Windows: 100}
	for name, test := range map[string]struct {
		pace, want float64
		change     func(*dbsqlc.LaneListLearningRow)
	}{
		"all is well":                      {7, 7.5, func(*dbsqlc.LaneListLearningRow) {}},
		"never above the ceiling":          {9.8, 10, func(*dbsqlc.LaneListLearningRow) {}},
		"at the ceiling":                   {10, 10, func(*dbsqlc.LaneListLearningRow) {}},
		"nothing waits":                    {7, 7, func(r *dbsqlc.LaneListLearningRow) { r.Parked = 0 }},
		"the allowance is not used":        {7, 7, func(r *dbsqlc.LaneListLearningRow) { r.Requests = 100 }},
		"changed a moment ago":             {7, 7, func(r *dbsqlc.LaneListLearningRow) { r.UnchangedS = 20 }},
		"a server error":                   {7, 7, func(r *dbsqlc.LaneListLearningRow) { r.Failed = 1 }},
		"marked slow":                      {7, 7, func(r *dbsqlc.LaneListLearningRow) { r.Slow = true }},
		"one 429 of 150":                   {7, 7, func(r *dbsqlc.LaneListLearningRow) { r.RateLimited = 1 }},
		"2 % of 429":                       {10, 7, func(r *dbsqlc.LaneListLearningRow) { r.RateLimited, r.Answers = 2, 100 }},
		"three of any number":              {10, 7, func(r *dbsqlc.LaneListLearningRow) { r.RateLimited, r.Answers = 3, 1000 }},
		"two of four are too few to judge": {10, 10, func(r *dbsqlc.LaneListLearningRow) { r.RateLimited, r.Answers = 2, 4 }},
		"429 again within 30 s":            {7, 7, func(r *dbsqlc.LaneListLearningRow) { r.RateLimited, r.UnchangedS = 50, 29 }},
		"answers take longer than usual":   {10, 8.5, func(r *dbsqlc.LaneListLearningRow) { r.TookUs = r.Answers * 210_000 }},
		"but not long":                     {10, 10, func(r *dbsqlc.LaneListLearningRow) { r.TookUs, r.BaselineUs = r.Answers*190_000, 50_000 }},
		"twice as long is bearable":        {10, 10, func(r *dbsqlc.LaneListLearningRow) { r.TookUs, r.BaselineUs = r.Answers*590_000, 300_000 }},
		"usual is not known yet":           {10, 10, func(r *dbsqlc.LaneListLearningRow) { r.TookUs, r.Windows = r.Answers*900_000, 29 }},
		"too few took longer":              {10, 10, func(r *dbsqlc.LaneListLearningRow) { r.Answers, r.TookUs = 19, 19*900_000 }},
		"no lower than a hundredth":        {0.11, 0.1, func(r *dbsqlc.LaneListLearningRow) { r.RateLimited = 9 }},
		"and there it stays":               {0.1, 0.1, func(r *dbsqlc.LaneListLearningRow) { r.RateLimited = 9 }},
		"no lower than one an hour":        {1.0 / 3600, 1.0 / 3600, func(r *dbsqlc.LaneListLearningRow) { r.RateLimited, r.Rate = 9, 0.01 }},
	} {
		row := clean
		test.change(&row)
		got, why := judgePace(row, test.pace)
		require.InDelta(t, test.want, got, 0, name)
		if got != test.pace {
			require.NotEmpty(t, why, name)
		}
	}
}

func TestUsualLatency(t *testing.T) {
	t.Parallel()
	row := dbsqlc.LaneListLearningRow{Answers: 10, TookUs: 3000}
	require.EqualValues(t, 300, usualLatency(row), "the first window is all there is")
	row.BaselineUs, row.Windows, row.TookUs = 300, 2, 6000
	require.EqualValues(t, 400, usualLatency(row))
	row.BaselineUs, row.Windows, row.TookUs = 100_000, 360, 10*460_000
	require.EqualValues(t, 101_000, usualLatency(row), "later ones count for little")
}

func TestSpellRate(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]string{10: "10/s", 0.7: "0.7/s", 1234.5: "1230/s", 0.25: "15/min", 1.0 / 60: "1/min", 1.0 / 3600: "1/h", 0.001: "3.6/h"} {
		require.Equal(t, want, SpellRate(rate))
	}
}

// laneAllowance is how many requests a lane could make at once.
const laneAllowance = `SELECT (tau_us - greatest(0, tat_us - extract(epoch FROM clock_timestamp()) * 1e6))::float8 / period_us FROM lane WHERE id = $1`

func TestRescaleLane(t *testing.T) {
	t.Parallel()
	b := setup(t)
	q := b.engine.queries
	for _, test := range []struct {
		burst         int
		before, after float64
	}{{10, 10, 7}, {10, 7, 10}, {10, 10, 0.1}, {10, 0.1, 10}, {1, 5, 3.5}, {1, 3.5, 5}, {400, 200, 20}} {
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 1000, Burst: test.burst})
		for _, left := range []float64{0, 0.5, -0.5} {
			var was, is float64
			var start time.Time
			require.NoError(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "UPDATE lane SET learned_rate = $2 WHERE id = $1", d.LaneID, test.before)
				require.NoError(t, err)
				_, err = tx.Exec(t.Context(), `UPDATE lane SET tat_us = extract(epoch FROM clock_timestamp()) * 1e6 + tau_us - $2::float8 * least(period_us, tau_us + period_us) WHERE id = $1`, d.LaneID, left)
				require.NoError(t, err)
				start = time.Now()
				require.NoError(t, tx.QueryRow(t.Context(), laneAllowance, d.LaneID).Scan(&was))
				before, err := q.LaneGetByID(t.Context(), tx, d.LaneID)
				require.NoError(t, err)
				_, err = tx.Exec(t.Context(), "UPDATE lane SET learned_rate = $2 WHERE id = $1", d.LaneID, test.after)
				require.NoError(t, err)
				require.NoError(t, RescaleLane(t.Context(), tx, q, before))
				return tx.QueryRow(t.Context(), laneAllowance, d.LaneID).Scan(&is)
			}))
			grown := time.Since(start).Seconds() * max(test.before, test.after) // while it was measured
			require.Greater(t, is, was-0.05, "%+v, %v left", test, left)
			require.Less(t, is, was+grown+0.05, "%+v, %v left", test, left)
		}
	}

	t.Run("a hold stays as long as it was", func(t *testing.T) {
		d := b.destination(t, &dbfactory.DestinationOpts{Rate: 10, Burst: 10})
		require.NoError(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE lane SET held_us = extract(epoch FROM clock_timestamp() + interval '1 minute') * 1e6,
				tat_us = extract(epoch FROM clock_timestamp() + interval '1 minute') * 1e6 + tau_us WHERE id = $1`, d.LaneID)
			require.NoError(t, err)
			before, err := q.LaneGetByID(t.Context(), tx, d.LaneID)
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), "UPDATE lane SET learned_rate = 1 WHERE id = $1", d.LaneID)
			require.NoError(t, err)
			return RescaleLane(t.Context(), tx, q, before)
		}))
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM lane WHERE id = $1 AND tat_us - tau_us = held_us", d.LaneID))
	})
}
