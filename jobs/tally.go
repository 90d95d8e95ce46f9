package jobs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"weir/db/dbsqlc"
	"weir/jobs/webhook"
)

// tallyEvery is how often a process writes what it has added up, and so how old the newest figures of a chart may be.
const tallyEvery = 5 * time.Second

// tallyTimeout bounds one flush.
const tallyTimeout = 10 * time.Second

// TallyStep is the step of the tally to sum over a stretch that begins this long ago, in seconds: minutes up to three hours, beyond it
// hours, so that a sum over all destinations reads thousands of rows and not millions.
func TallyStep(ago time.Duration) int32 {
	if ago <= 3*time.Hour {
		return 60
	}
	return 3600
}

// The classes of an answer, in the order of the tally's columns.
const (
	answerOK = iota
	answerRateLimited
	answerRefused
	answerServerError
	answerTimeout
	answerNetwork
	answerOther
	answerClasses // how many
)

// answerOf is the class of what one request came to. The verdict decides first: a 409 that a destination counts as delivered is no refusal.
func answerOf(o webhook.Outcome) int {
	switch {
	case o.Verdict == webhook.Delivered:
		return answerOK
	case o.Status == http.StatusTooManyRequests:
		return answerRateLimited
	case o.Status >= 500:
		return answerServerError
	case o.Status > 0:
		return answerRefused
	}
	switch o.ErrorClass {
	case webhook.ClassTimeout, webhook.ClassConnectTimeout:
		return answerTimeout
	case webhook.ClassDNS, webhook.ClassDNSTemporary, webhook.ClassConnectionRefused, webhook.ClassConnectionReset, webhook.ClassUnreachable, webhook.ClassTLS:
		return answerNetwork
	}
	return answerOther
}

// tallyEnds are the states whose entries are counted, in the order of the tally's columns.
var tallyEnds = [...]string{StateDelivered, StateRetrying, StateDeadLettered, StateExpired, StateSuperseded, StateCancelled}

// counts is what one destination's requests and deliveries came to since the last flush. Times are microseconds.
type counts struct {
	lane                int64 // 0: not known, nothing was sent
	answers             [answerClasses]int64
	ends                [len(tallyEnds)]int64
	arrived             int64 // deliveries that came to be
	took, slowest       int64 // of requests that got a status
	waited, longestWait int64
}

func (c *counts) answered() int64 {
	return c.answers[answerOK] + c.answers[answerRateLimited] + c.answers[answerRefused] + c.answers[answerServerError]
}

func (c *counts) requests() (n int64) {
	for _, count := range c.answers {
		n += count
	}
	return n
}

func (c *counts) merge(o *counts) {
	c.lane = cmp.Or(c.lane, o.lane)
	for i, n := range o.answers {
		c.answers[i] += n
	}
	for i, n := range o.ends {
		c.ends[i] += n
	}
	c.arrived += o.arrived
	c.took += o.took
	c.slowest = max(c.slowest, o.slowest)
	c.waited += o.waited
	c.longestWait = max(c.longestWait, o.longestWait)
}

// tally adds up what receivers answer and how deliveries end, for charts and for learning, without a word to the ledger's tables: a batch
// of settlements costs one lock and a few additions, and every five seconds one statement adds the sums to the current minute and hour by
// the database's clock (so an answer can count up to five seconds late). A process that is killed loses at most five seconds of
// statistics, never anything of the ledger. Its size is bounded by the number of destinations.
type tally struct {
	pool    *pgxpool.Pool
	queries *dbsqlc.Queries
	log     *slog.Logger

	mu   sync.Mutex
	sums map[int64]*counts // by destination
}

func newTally(pool *pgxpool.Pool, queries *dbsqlc.Queries, log *slog.Logger) *tally {
	return &tally{pool: pool, queries: queries, log: log, sums: map[int64]*counts{}}
}

// add counts those settlements of a batch that took effect.
func (t *tally) add(items []settlement, took []bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range items {
		if took[i] {
			t.addOne(&items[i])
		}
	}
}

func (t *tally) addOne(item *settlement) {
	if item.no == 0 && (item.decision.state == StatePending || item.decision.state == StateRetrying) {
		return // it moved, without a request and without an end
	}
	c := t.of(item.destinationID)
	if end := slices.Index(tallyEnds[:], item.decision.state); end >= 0 {
		c.ends[end]++
	}
	if item.no == 0 {
		return
	}
	c.lane = item.laneID
	c.answers[answerOf(item.outcome)]++
	if item.outcome.Status > 0 {
		took := item.outcome.Took.Microseconds()
		c.took += took
		c.slowest = max(c.slowest, took)
	}
	c.waited += item.wait.Microseconds()
	c.longestWait = max(c.longestWait, item.wait.Microseconds())
}

// arrived counts deliveries that came to be.
func (t *tally) arrived(matches []dbsqlc.DeliveryMatchRow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range matches {
		t.of(matches[i].DestinationID).arrived++
	}
}

// ended counts deliveries that ended outside a settlement: while parked, or together.
func (t *tally) ended(destinationID int64, state string, n int) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(destinationID).ends[slices.Index(tallyEnds[:], state)] += int64(n)
}

func (t *tally) of(destinationID int64) *counts {
	c := t.sums[destinationID]
	if c == nil {
		c = &counts{}
		t.sums[destinationID] = c
	}
	return c
}

// run flushes every five seconds until ctx ends. The last flush is Stop's, when nothing settles any more.
func (t *tally) run(ctx context.Context) {
	ticker := time.NewTicker(tallyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := t.flush(context.WithoutCancel(ctx)); err != nil { // cut off, it would not know whether it had counted
				t.log.WarnContext(ctx, "write tally", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// flush writes the sums and begins anew. What cannot be written is kept for the next time.
func (t *tally) flush(ctx context.Context) error {
	t.mu.Lock()
	sums := t.sums
	t.sums = map[int64]*counts{}
	t.mu.Unlock()
	if len(sums) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tallyTimeout)
	defer cancel()
	batch := &pgx.Batch{} // one implicit transaction: all of it or nothing
	queueTally(batch, sums)
	queueSamples(batch, sums)
	if err := t.pool.SendBatch(ctx, batch).Close(); err != nil {
		t.keep(sums)
		return fmt.Errorf("add to tally: %w", err)
	}
	return nil
}

func (t *tally) keep(sums map[int64]*counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for destination, c := range sums {
		t.of(destination).merge(c)
	}
}

// queueTally adds the statement for the destinations and, as destination 0, for all of them together.
func queueTally(batch *pgx.Batch, sums map[int64]*counts) {
	all := &counts{}
	var p dbsqlc.TallyAddParams
	row := func(destination int64, c *counts) {
		p.DestinationIds = append(p.DestinationIds, destination)
		for i, column := range []*[]int64{&p.Ok, &p.RateLimited, &p.Refused, &p.ServerError, &p.Timeout, &p.Network, &p.Other} {
			*column = append(*column, c.answers[i])
		}
		for i, column := range []*[]int64{&p.Delivered, &p.Retried, &p.DeadLettered, &p.Expired, &p.Superseded, &p.Cancelled} {
			*column = append(*column, c.ends[i])
		}
		p.Arrived = append(p.Arrived, c.arrived)
		p.TookUs = append(p.TookUs, c.took)
		p.SlowestUs = append(p.SlowestUs, c.slowest)
		p.WaitUs = append(p.WaitUs, c.waited)
		p.LongestWaitUs = append(p.LongestWaitUs, c.longestWait)
	}
	for _, destination := range slices.Sorted(maps.Keys(sums)) {
		row(destination, sums[destination])
		all.merge(sums[destination])
	}
	row(0, all)
	batch.Queue(dbsqlc.TallyAdd, p.DestinationIds, p.Ok, p.RateLimited, p.Refused, p.ServerError, p.Timeout, p.Network, p.Other,
		p.TookUs, p.SlowestUs, p.WaitUs, p.LongestWaitUs, p.Delivered, p.Retried, p.DeadLettered, p.Expired, p.Superseded, p.Cancelled, p.Arrived)
}

// queueSamples adds the statement for the lanes; those that do not learn are left out there.
func queueSamples(batch *pgx.Batch, sums map[int64]*counts) {
	lanes := map[int64]*counts{}
	for _, c := range sums {
		if c.lane == 0 {
			continue
		}
		if lanes[c.lane] == nil {
			lanes[c.lane] = &counts{}
		}
		lanes[c.lane].merge(c)
	}
	if len(lanes) == 0 {
		return
	}
	var p dbsqlc.LaneSampleAddParams
	for _, lane := range slices.Sorted(maps.Keys(lanes)) {
		c := lanes[lane]
		p.LaneIds = append(p.LaneIds, lane)
		p.Requests = append(p.Requests, c.requests())
		p.Answers = append(p.Answers, c.answered())
		p.RateLimited = append(p.RateLimited, c.answers[answerRateLimited])
		p.Failed = append(p.Failed, c.answers[answerServerError]+c.answers[answerTimeout]+c.answers[answerNetwork])
		p.TookUs = append(p.TookUs, c.took)
	}
	batch.Queue(dbsqlc.LaneSampleAdd, p.LaneIds, p.Requests, p.Answers, p.RateLimited, p.Failed, p.TookUs)
}
