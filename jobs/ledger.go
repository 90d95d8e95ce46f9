package jobs

import (
	"encoding/json"
	"math"
	"time"

	"github.com/riverqueue/river"

	"weir/db/dbsqlc"
	"weir/jobs/webhook"
)

// settlement is one change of a delivery: an attempt closed with its consequence, or, with no = 0, a move without an attempt.
type settlement struct {
	deliveryID, jobID, laneID int64
	destinationID             int64
	limited                   bool
	no                        int32
	try                       int32 // of the job that ends; a successor is the next
	priority                  int16 // the successor's
	outcome                   webhook.Outcome
	decision                  decision
	successor                 bool          // leave a parked job behind: this one cannot or must not go on
	blocked                   bool          // with a successor: outside the gate, until an older version of its subject has ended
	serial                    bool          // others of its subject may wait for this
	turn                      int64         // behind the gate; 0: the one it has
	wait                      time.Duration // from due to sent; for statistics
}

// ledger writes down what became of a delivery.
type ledger struct{ committer *committer }

// close settles an attempt. It reports no error when somebody else has closed the attempt (its lease had run out): then nothing changes.
func (l *ledger) close(job *river.Job[DeliverArgs], a admission, outcome webhook.Outcome, d decision) error {
	return l.committer.settle(settlement{
		deliveryID: a.DeliveryID, jobID: job.ID, laneID: a.LaneID, destinationID: a.DestinationID, limited: a.Limited,
		no: a.No, try: job.Args.Try, serial: a.Serial, outcome: outcome, decision: d, wait: max(0, time.UnixMicro(a.SlotUs).Sub(a.DueAt)),
	})
}

// park ends a job whose delivery has to wait longer than a worker may: a pending successor takes its place behind the gate.
func (l *ledger) park(job *river.Job[DeliverArgs], a admission) error {
	return l.committer.settle(settlement{
		deliveryID: a.DeliveryID, jobID: job.ID, laneID: a.LaneID, limited: a.Limited, try: job.Args.Try, priority: a.Priority,
		decision: decision{state: a.State}, successor: true,
	})
}

// block ends a job whose delivery has to wait for an older version of its subject.
func (l *ledger) block(job *river.Job[DeliverArgs], a admission) error {
	return l.committer.settle(settlement{
		deliveryID: a.DeliveryID, jobID: job.ID, laneID: a.LaneID, limited: a.Limited, try: job.Args.Try, priority: a.Priority,
		decision: decision{state: a.State}, successor: true, blocked: true, serial: true,
	})
}

// end settles a delivery that made no attempt: expired, or cancelled with its destination.
func (l *ledger) end(job *river.Job[DeliverArgs], a admission, state, reason string) error {
	return l.committer.settle(settlement{
		deliveryID: a.DeliveryID, jobID: job.ID, laneID: a.LaneID, destinationID: a.DestinationID, limited: a.Limited, serial: a.Serial,
		decision: decision{state: state, reason: reason},
	})
}

// settledLanes are the lanes that settlements concern. All three without duplicates but for also, where they do no harm.
type settledLanes struct {
	touched []int64 // locked where limited
	also    []int64 // locked in any case: they get a hold or parked work
	promote []int64 // whose gate may open: limited ones, where a place came free
	release []int64 // deliveries of ordered subjects
}

// columnsOf turns items into the statement's arrays.
func columnsOf(items []settlement, successors []int64) (c dbsqlc.AttemptSettleParams, lanes settledLanes) {
	lanes = settledLanes{[]int64{}, []int64{}, []int64{}, nil}
	seen := make(map[int64]bool, 1)
	for i, item := range items {
		d, o := item.decision, item.outcome
		if !seen[item.laneID] {
			seen[item.laneID] = true
			lanes.touched = append(lanes.touched, item.laneID)
			if item.limited {
				lanes.promote = append(lanes.promote, item.laneID)
			}
		}
		if !item.limited && (item.successor || d.hold > 0) {
			lanes.also = append(lanes.also, item.laneID)
		}
		if item.serial {
			lanes.release = append(lanes.release, item.deliveryID)
		}
		c.DeliveryIds = append(c.DeliveryIds, item.deliveryID)
		c.JobIds = append(c.JobIds, item.jobID)
		c.Nos = append(c.Nos, item.no)
		c.Verdicts = append(c.Verdicts, string(o.Verdict))
		c.Statuses = append(c.Statuses, int32(o.Status)) // three digits
		c.ErrorClasses = append(c.ErrorClasses, o.ErrorClass)
		c.AttemptReasons = append(c.AttemptReasons, o.Reason)
		c.TookUs = append(c.TookUs, o.Took.Microseconds())
		c.RetryAfters = append(c.RetryAfters, o.RetryAfterRaw)
		c.Excerpts = append(c.Excerpts, o.Excerpt)
		c.Truncated = append(c.Truncated, o.Truncated)
		c.States = append(c.States, d.state)
		c.Charges = append(c.Charges, d.charge)
		c.DelaysUs = append(c.DelaysUs, d.delay.Microseconds())
		c.Reasons = append(c.Reasons, d.reason)
		c.Successors = append(c.Successors, successors[i])
		c.HoldsUs = append(c.HoldsUs, d.hold.Microseconds())
		c.Blocked = append(c.Blocked, item.blocked)
		c.Turns = append(c.Turns, item.turn)
		c.DnsUs = append(c.DnsUs, microseconds(o.Phases.DNS))
		c.ConnectUs = append(c.ConnectUs, microseconds(o.Phases.Connect))
		c.TlsUs = append(c.TlsUs, microseconds(o.Phases.TLS))
		c.FirstByteUs = append(c.FirstByteUs, microseconds(o.Phases.FirstByte))
		c.ResponseHeaders = append(c.ResponseHeaders, headersJSON(o.Headers))
	}
	return c, lanes
}

// headersJSON is empty where none are kept, which becomes NULL.
func headersJSON(headers []webhook.Header) string {
	if len(headers) == 0 {
		return ""
	}
	text, _ := json.Marshal(headers) // strings always can be
	return string(text)
}

// microseconds of a phase: at most the longest timeout, a minute, so it fits; 0 did not happen.
func microseconds(d time.Duration) int32 { return int32(min(d.Microseconds(), math.MaxInt32)) }
