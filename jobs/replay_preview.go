package jobs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/db/dbsqlc"
)

// A preview counts for at most this long, in stretches of this many: a short one first, which shows how long the next may be.
const (
	PreviewTime       = 3 * time.Second
	minPreviewStretch = 2_000
	maxPreviewStretch = 20_000
)

// PreviewReplay counts what StartReplay would select now, and changes nothing. It stops at the end of the stretch that would take it over
// the time it has (PreviewTime at most), and then says that it is not complete.
func (e *Engine) PreviewReplay(ctx context.Context, run ReplayRun, within time.Duration) (ReplayPreview, error) {
	run.Actor = cmp.Or(run.Actor, "preview")
	if err := run.normalize(); err != nil {
		return ReplayPreview{}, err
	}
	p := ReplayPreview{States: map[string]int{}, Refused: map[string]int{}, Waiting: map[string]int{}}
	if err := run.Filter.checkChosen(ctx, e.queries, e.pool); err != nil {
		return ReplayPreview{}, err
	}
	by, err := e.queries.ReplayClock(ctx, e.pool)
	if err != nil {
		return p, fmt.Errorf("read clock: %w", err)
	}
	reader := replayReader{queries: e.queries, filter: run.Filter, by: by}
	counts := map[int64]int{}
	at, until, stretch := replayCursor{}, time.Now().Add(min(within, PreviewTime)), minPreviewStretch
	for !at.done && p.Selected < MaxReplayItems {
		begun := time.Now()
		var rows []dbsqlc.DeliveryListSelectedRow
		if rows, at, err = reader.next(ctx, e.pool, at, int32(stretch)); err != nil {
			return p, err
		}
		p.add(rows, counts)
		fits := float64(time.Until(until)) / float64(max(time.Since(begun), time.Microsecond)) * float64(stretch)
		if stretch = int(min(maxPreviewStretch, 4*float64(stretch), fits)); stretch < minPreviewStretch/2 {
			break
		}
	}
	p.Complete = at.done
	return p, e.previewDestinations(ctx, &p, counts, run.Share)
}

func (p *ReplayPreview) add(rows []dbsqlc.DeliveryListSelectedRow, counts map[int64]int) {
	for _, row := range rows {
		p.Selected++
		p.States[row.State]++
		counts[row.DestinationID]++
		if p.Oldest.IsZero() || row.CreatedAt.Before(p.Oldest) {
			p.Oldest = row.CreatedAt
		}
		if row.CreatedAt.After(p.Newest) {
			p.Newest = row.CreatedAt
		}
	}
}

// previewDestinations says where it would go: what is refused, what would wait, how long the rest takes.
func (e *Engine) previewDestinations(ctx context.Context, p *ReplayPreview, counts map[int64]int, share float64) error {
	rows, err := e.queries.DestinationListForReplay(ctx, e.pool, slices.Collect(maps.Keys(counts)))
	if err != nil {
		return fmt.Errorf("load destinations: %w", err)
	}
	lanes := map[int64]float64{}
	for _, row := range rows {
		n := counts[row.ID]
		p.Destinations = append(p.Destinations, ReplayPreviewDestination{ID: row.ID, Name: row.Name, State: row.State, Count: n})
		switch row.State {
		case "deleted":
			p.Refused["its destination was deleted"] += n
		case "paused", "disabled":
			p.Waiting["its destination is "+row.State] += n
		default:
			if row.Rate > 0 {
				lanes[row.LaneID] += float64(n) / (row.Rate * share)
			} else {
				lanes[row.LaneID] += float64(n) / max(1, share*float64(row.WindowSize))
			}
		}
	}
	slices.SortFunc(p.Destinations, func(a, b ReplayPreviewDestination) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.ID, b.ID))
	})
	for _, seconds := range lanes {
		p.Takes = max(p.Takes, time.Duration(min(seconds, 1e9)*float64(time.Second)))
	}
	return nil
}

// Sendable is how many of those counted would be sent, at once or when their destinations are resumed.
func (p *ReplayPreview) Sendable() int {
	n := p.Selected
	for _, refused := range p.Refused {
		n -= refused
	}
	return n
}
