package web

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"weir/db/dbsqlc"
)

const (
	feedEvery   = time.Second
	feedTimeout = 5 * time.Second // of one look
	// maxWatchers bounds the open streams of a process, maxSessionWatchers those of one session: the pages that it has in view.
	maxWatchers, maxSessionWatchers = 500, 8
	// fragmentsPerSecond is how many regions all browsers of a process may ask for again, together: beyond ten of them, each waits longer.
	fragmentsPerSecond = 10
)

var (
	errFeedFull   = errors.New("as many pages as this process keeps current are open already")
	errFeedClosed = errors.New("the process is stopping")
)

// Why a stream ends, in words that live.js knows.
const (
	endSignedOut = "signed-out"
	endStopping  = "stopping"
)

// feed tells browsers which regions of their pages have changed. It asks the database once a second, for all of them together, and only
// while somebody watches. It says that something changed, not what: each browser asks for its region as it did before, with its rights.
type feed struct {
	pool    *pgxpool.Pool
	queries *dbsqlc.Queries
	log     *slog.Logger

	mu       sync.Mutex
	watchers map[*watcher]struct{}
	stop     context.CancelFunc // of the loop; nil: nobody watches
	closed   bool
}

// watcher is one open page. Its fields are the feed's, under its lock; what wake and ended say is for the stream.
type watcher struct {
	session string // as the table knows it
	wants   []want // one for each region
	marks   []int64
	known   bool          // marks are of an earlier look; before the first, everything counts as changed
	changed []bool        // since the stream last took it
	wake    chan struct{} // something is in changed; a place for one
	ended   chan string   // why the stream has to end; a place for one
}

func newFeed(pool *pgxpool.Pool, queries *dbsqlc.Queries, log *slog.Logger) *feed {
	return &feed{pool: pool, queries: queries, log: log, watchers: map[*watcher]struct{}{}}
}

// join begins to watch; leave ends it. The error is errFeedFull or errFeedClosed.
func (f *feed) join(session string, wants []want) (*watcher, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errFeedClosed
	}
	own := 0
	for w := range f.watchers {
		if w.session == session {
			own++
		}
	}
	if len(f.watchers) >= maxWatchers || own >= maxSessionWatchers {
		return nil, errFeedFull
	}
	w := &watcher{
		session: session, wants: wants, marks: make([]int64, len(wants)), changed: make([]bool, len(wants)),
		wake: make(chan struct{}, 1), ended: make(chan string, 1),
	}
	f.watchers[w] = struct{}{}
	if f.stop == nil {
		ctx, cancel := context.WithCancel(context.Background()) // it outlives the request that starts it, and ends with the last one
		f.stop = cancel
		go f.run(ctx)
	}
	return w, nil
}

func (f *feed) leave(w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watchers, w)
	if len(f.watchers) == 0 && f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// close ends every stream, and refuses new ones.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for w := range f.watchers {
		w.end(endStopping)
	}
}

// take returns which regions have changed since the last time, and how long a browser should leave a region alone after asking for it.
func (f *feed) take(w *watcher) (regions []int, pace time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, is := range w.changed {
		if is {
			regions = append(regions, i)
		}
		w.changed[i] = false
	}
	return regions, max(feedEvery, time.Duration(len(f.watchers))*time.Second/fragmentsPerSecond)
}

func (f *feed) run(ctx context.Context) {
	ticker := time.NewTicker(feedEvery)
	defer ticker.Stop()
	failed := false
	for {
		err := f.look(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failed {
			f.log.WarnContext(ctx, "look for changes that pages should show", "error", err)
		}
		failed = err != nil
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// look asks once, and wakes the streams whose regions have changed.
func (f *feed) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	watchers, ask := f.asked()
	rows, err := f.queries.LiveLook(ctx, f.pool, ask)
	if err != nil {
		return err
	}
	marks := make(map[string]int64, len(rows))
	for _, row := range rows {
		marks[row.Kind+" "+row.Key] = row.Mark
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range watchers {
		if _, holds := marks["session "+w.session]; !holds {
			w.end(endSignedOut)
			continue
		}
		w.compare(marks)
	}
	return nil
}

// asked is who watches now, and what for.
func (f *feed) asked() ([]*watcher, dbsqlc.LiveLookParams) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ask dbsqlc.LiveLookParams
	watchers := make([]*watcher, 0, len(f.watchers))
	for w := range f.watchers {
		watchers = append(watchers, w)
		ask.Sessions = append(ask.Sessions, w.session)
		for _, want := range w.wants {
			want.addTo(&ask)
		}
	}
	for _, ids := range []*[]int64{&ask.Deliveries, &ask.Destinations, &ask.Replays} {
		slices.Sort(*ids)
		*ids = slices.Compact(*ids)
	}
	return watchers, ask
}

// compare is called under the feed's lock.
func (w *watcher) compare(marks map[string]int64) {
	woken := false
	for i, want := range w.wants {
		mark := want.mark(marks)
		if !w.known || mark != w.marks[i] {
			w.marks[i], w.changed[i], woken = mark, true, true
		}
	}
	w.known = true
	if woken {
		select {
		case w.wake <- struct{}{}:
		default: // it has not taken the last one yet, and takes this with it
		}
	}
}

func (w *watcher) end(why string) {
	select {
	case w.ended <- why:
	default: // it ends already
	}
}
