package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// batchMax bounds one group commit: larger batches gained nothing when measured.
const batchMax = 500

// batchTimeout bounds one flush, the wait for row locks included.
const batchTimeout = 20 * time.Second

// batcher commits what many goroutines hand in as few transactions: group commit. One flusher takes whatever has arrived and commits it;
// what arrives meanwhile is the next batch. Idle, a batch is one item and nobody waits; saturated, batches grow by themselves; in between,
// spacing keeps them from being many and tiny. (More flushers were measured to be slower: smaller batches, more commits.)
type batcher[In, Out any] struct {
	asks  chan ask[In, Out]
	flush func(context.Context, []In) ([]Out, error)
	tries int // of a flush that fails as a whole
	// the least time from the start of one flush to that of the next
	spacing time.Duration
	done    chan struct{}
}

type ask[In, Out any] struct {
	in    In
	reply chan answer[Out]
}

type answer[Out any] struct {
	out Out
	err error
}

// newBatcher starts the flusher. flush answers its items in order; tries is how often it is run when it fails. Stop it with close, once
// nobody calls do any more.
func newBatcher[In, Out any](tries int, spacing time.Duration, flush func(context.Context, []In) ([]Out, error)) *batcher[In, Out] {
	b := &batcher[In, Out]{
		asks: make(chan ask[In, Out], 2*batchMax), flush: flush, tries: tries, spacing: spacing, done: make(chan struct{}),
	}
	go b.run()
	return b
}

// start hands in an item and returns where its answer will arrive. An item handed in is always answered, even when its caller has gone:
// what was committed for it must be known to somebody.
func (b *batcher[In, Out]) start(in In) chan answer[Out] {
	reply := make(chan answer[Out], 1)
	b.asks <- ask[In, Out]{in, reply}
	return reply
}

func (b *batcher[In, Out]) do(in In) (Out, error) {
	a := <-b.start(in)
	return a.out, a.err
}

func (b *batcher[In, Out]) close() {
	close(b.asks)
	<-b.done
}

func (b *batcher[In, Out]) run() {
	defer close(b.done)
	var last time.Time
	for first := range b.asks {
		if wait := b.spacing - time.Since(last); wait > 0 {
			time.Sleep(wait)
		}
		last = time.Now()
		batch := append(make([]ask[In, Out], 0, 16), first)
	drain:
		for len(batch) < batchMax {
			select {
			case next, ok := <-b.asks:
				if !ok {
					break drain
				}
				batch = append(batch, next)
			default:
				break drain
			}
		}
		b.answer(batch)
	}
}

// answer flushes a batch. One that the database refuses as data is halved until the refused item is alone: it must not take the others
// with it.
func (b *batcher[In, Out]) answer(batch []ask[In, Out]) {
	ins := make([]In, len(batch))
	for i, a := range batch {
		ins[i] = a.in
	}
	outs, err := b.flushRetrying(ins)
	if err != nil && len(batch) > 1 && isDataError(err) {
		half := len(batch) / 2
		b.answer(batch[:half])
		b.answer(batch[half:])
		return
	}
	for i, a := range batch {
		if err != nil {
			a.reply <- answer[Out]{err: err}
			continue
		}
		a.reply <- answer[Out]{out: outs[i]}
	}
}

func (b *batcher[In, Out]) flushRetrying(ins []In) (outs []Out, err error) {
	pause := 100 * time.Millisecond
	for try := range b.tries {
		if try > 0 {
			time.Sleep(pause)
			pause = min(4*pause, 5*time.Second)
		}
		ctx, cancel := context.WithTimeout(context.Background(), batchTimeout)
		outs, err = b.flush(ctx, ins)
		cancel()
		if err == nil || isDataError(err) {
			return outs, err
		}
	}
	return outs, err
}

// isDataError says whether Postgres refused what was sent, so that sending it again would be refused again: SQLSTATE classes 21 to 23
// (cardinality, data, integrity). Lost connections, deadlocks and shutdowns are worth another try.
func isDataError(err error) bool {
	var pgError *pgconn.PgError
	if !errors.As(err, &pgError) {
		return false
	}
	switch pgError.Code[:2] {
	case "21", "22", "23":
		return true
	}
	return false
}
