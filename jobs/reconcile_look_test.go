package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/db/dbfactory"
	"weir/db/dbtest"
)

// Each look finds by itself what it is for: in a test the ledger is so small that the slow walk through it would find everything at once.
func TestReconcileLooks(t *testing.T) {
	t.Parallel()
	const window = "UPDATE delivery SET parked = false, in_window = true; UPDATE river_job SET state = 'available' WHERE kind = 'deliver'; UPDATE lane SET parked = 0, open = 1; "
	const retry = "UPDATE delivery SET parked = false, state = 'retrying'; UPDATE river_job SET state = 'scheduled' WHERE kind = 'deliver'; UPDATE lane SET parked = 0; "
	const blocked = "UPDATE delivery SET parked = false, blocked = true; UPDATE lane SET parked = 0; "
	const end = "finalized_at = now() - interval '1 minute' WHERE kind = 'deliver'"
	const untraced = "DELETE FROM river_job WHERE kind = 'deliver'; DELETE FROM job_gone"
	for _, test := range []struct {
		name   string
		look   func(*reconciler, context.Context) error
		damage string
		what   string // empty: nothing is wrong
	}{
		{"deleted", (*reconciler).lookAtGone, window + "DELETE FROM river_job WHERE kind = 'deliver'", MendJobDeleted},
		{"deleted soon after its end", (*reconciler).lookAtGone, window + "UPDATE river_job SET state = 'cancelled', " + end + "; DELETE FROM river_job WHERE kind = 'deliver'", MendJobDeleted},
		{"nothing deleted", (*reconciler).lookAtGone, window, ""},
		{"cancelled", (*reconciler).lookAtEnded, window + "UPDATE river_job SET state = 'cancelled', " + end, MendJobCancelled},
		{"discarded", (*reconciler).lookAtEnded, window + "UPDATE river_job SET state = 'discarded', " + end, MendJobDiscarded},
		{"completed", (*reconciler).lookAtEnded, window + "UPDATE river_job SET state = 'completed', " + end, MendJobCompleted},
		{"nothing ended", (*reconciler).lookAtEnded, window, ""},
		{"parked", (*reconciler).lookAtParked, untraced, MendJobDeleted},
		{"rightly parked", (*reconciler).lookAtParked, "", ""},
		{"blocked", (*reconciler).lookAtBlocked, blocked + untraced, MendJobDeleted},
		{"rightly blocked", (*reconciler).lookAtBlocked, blocked, ""},
		{"retrying", (*reconciler).lookAtAttention, retry + untraced, MendJobDeleted},
		{"rightly retrying", (*reconciler).lookAtAttention, retry, ""},
		{"asleep", (*reconciler).lookAtPending, "UPDATE delivery SET parked = false; UPDATE lane SET parked = 0", MendJobAsleep},
		{"nobody's", (*reconciler).lookAtPending, "UPDATE delivery SET job_id = 0", MendJobUnowned},
		{"rightly pending", (*reconciler).lookAtPending, blocked, ""},
		{"in the ledger", (*reconciler).lookAtLedger, window + untraced, MendJobDeleted},
		{"rightly in the ledger", (*reconciler).lookAtLedger, window, ""},
		{"running", (*reconciler).takeOver, window + `UPDATE river_job SET state = 'running', attempted_at = now() - interval '1 minute', attempted_by = '{wdead}' WHERE kind = 'deliver';
			INSERT INTO process (id, roles, beat_at) VALUES ('wdead', '{work}', now() - interval '1 minute')`, MendProcessDied},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := &bundle{pool: dbtest.Pool(t), receiver: newReceiver(t)}
			engine, err := New(Options{Pool: b.pool, Keyring: dbfactory.Keyring(t), Grace: time.Second})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
			b.engine = engine // not started: nothing but the look acts
			d := b.destination(t, &dbfactory.DestinationOpts{Rate: 100, State: "paused"})
			receipt := b.publish(t, Event{})
			delivery := b.delivery(t, receipt.ID, d.ID).ID
			if test.damage != "" {
				b.exec(t, test.damage)
			}
			r := engine.sweeper.mender
			for range 2 { // what is mended stays mended
				require.NoError(t, test.look(r, t.Context()))
			}
			if test.what == "" {
				require.Zero(t, b.count(t, "SELECT count(*) FROM mend"))
				return
			}
			require.Equal(t, 1, b.count(t, "SELECT count(*) FROM mend"))
			require.Equal(t, 1, b.count(t, "SELECT count(*) FROM mend WHERE what = $1 AND delivery_id = $2", test.what, delivery))
			if test.what != MendJobUnowned {
				require.Equal(t, 1, b.count(t, `SELECT count(*) FROM delivery d JOIN river_job j ON j.id = d.job_id AND j.state = 'pending'
					WHERE d.parked <> d.blocked AND NOT d.in_window AND d.try = 2`))
				require.Equal(t, b.count(t, "SELECT count(*) FROM delivery WHERE parked"), b.count(t, "SELECT parked + open FROM lane"))
			}
			require.Zero(t, b.count(t, "SELECT count(*) FROM job_gone"))
		})
	}
}
