package jobs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// clock estimates the database's clock, the only one that decides when a request may leave. The host's clock is used for durations, never
// as a time of day, so steps and disagreement between hosts do not matter.
//
// Each answer of the database carries its time, and arrives a little later than that: database time minus time of receipt is never more
// than the true difference, and the largest one seen is the best. It decays by a microsecond per answer so that drift is followed. The
// estimate is therefore never ahead of the database: it errs to late.
type clock struct {
	mu     sync.Mutex
	start  time.Time // its monotonic reading is what counts
	offset int64     // microseconds to add to the local count
	known  bool
}

func newClock() *clock { return &clock{start: time.Now()} }

// observe takes one database time (microseconds since the epoch) that has just been received.
func (c *clock) observe(databaseUS int64) {
	candidate := databaseUS - time.Since(c.start).Microseconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || candidate > c.offset-1 {
		c.offset, c.known = candidate, true
		return
	}
	c.offset--
}

// now is the estimate in microseconds since the epoch.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset + time.Since(c.start).Microseconds()
}

// warm takes twenty samples before the first request: an estimate that still improves during the first burst compresses it (measured:
// 2.7 requests too many).
func (c *clock) warm(ctx context.Context, pool *pgxpool.Pool) error {
	for range 20 {
		var now int64
		if err := pool.QueryRow(ctx, "SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint").Scan(&now); err != nil {
			return fmt.Errorf("read the database's clock: %w", err)
		}
		c.observe(now)
	}
	return nil
}
