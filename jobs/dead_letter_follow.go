package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
)

// Kinds of entries in a group's history.
const (
	LetterOpened       = "opened"        // the first of its kind came in
	LetterReopened     = "reopened"      // one came in after none was open any more
	LetterAssigned     = "assigned"      // note: to whom
	LetterUnassigned   = "unassigned"    //
	LetterNote         = "note"          //
	LetterSnoozed      = "snoozed"       // note: until when
	LetterWoke         = "woke"          // note: why
	LetterResolved     = "resolved"      // all that were open; note: why
	LetterResolvedSome = "resolved_some" // those chosen; note: why
	LetterTakenBack    = "taken_back"    // the last resolution; note: why
	LetterReplay       = "replay"        // count: those of the group that were sent again so far
	LetterDelivered    = "delivered"     // by a replay
	LetterFailed       = "failed"        // in a replay, for the same reason again
	LetterMoved        = "moved"         // failed in a replay for another reason: they are in that group now
	LetterEnded        = "ended"         // superseded or cancelled while sent again
	LetterRemoved      = "removed"       // from the ledger, unresolved
)

// tallyStretch is how finely what comes in is counted, and tallyKept how long.
const (
	letterStretch = 5 * time.Minute
	letterKept    = 25 * time.Hour
)

// letterGrowth is by how much a snoozed group has to grow to come back early: to twice what it had, and by ten at least.
func letterGrowth(snoozedOpen int32) int32 { return snoozedOpen + max(10, snoozedOpen) }

// groupChange is what one page does to one group.
type groupChange struct {
	dbsqlc.DeadLetterGroup
	open, sending, came int32
	first, last         time.Time
	newest              string // reason
}

// historyKey tells entries that add up from one another.
type historyKey struct {
	group  int64
	kind   string
	replay int64
}

// inboxChanges is one page of changes in the making.
type inboxChanges struct {
	groups  map[int64]*groupChange
	items   map[int64]dbsqlc.DeadLetter
	history map[historyKey]int32
	tally   map[int64]map[time.Time]int32
	put     dbsqlc.DeadLetterPutParams
	leave   dbsqlc.DeadLetterLeaveParams
	sent    []int64 // deliveries, and by which replay
	by      []int64
	gone    []int64
	now     time.Time
}

func newInboxChanges(groups []dbsqlc.DeadLetterGroup, items []dbsqlc.DeadLetter) *inboxChanges {
	c := &inboxChanges{
		groups: map[int64]*groupChange{}, items: map[int64]dbsqlc.DeadLetter{}, history: map[historyKey]int32{}, tally: map[int64]map[time.Time]int32{},
		now: time.Now(),
	}
	for _, g := range groups {
		c.groups[g.ID] = &groupChange{DeadLetterGroup: g}
	}
	for _, item := range items {
		c.items[item.DeliveryID] = item
	}
	return c
}

// add follows one delivery.
func (c *inboxChanges) add(f dbsqlc.DeadLetterListFactsRow, groupOf map[letterKey]int64) {
	item, known := c.items[f.DeliveryID]
	var from *groupChange // the group in which it is open
	if known && item.LeftAt == nil && item.Seq > c.groups[item.GroupID].ResolvedThrough {
		from = c.groups[item.GroupID]
	}
	replay := jobOf(item.ReplayID)
	switch {
	case !f.There:
		if known {
			c.gone = append(c.gone, f.DeliveryID)
			c.out(from, replay, LetterRemoved, 0)
		}
	case isBadEnd(f.State):
		c.ended(f, item, known, from, c.groups[groupOf[keyOf(f)]])
	case !known || item.LeftAt != nil:
		// It was delivered by a replay, or is being sent by one, and is none of the inbox.
	case f.State == StatePending || f.State == StateRetrying:
		if replay != f.ReplayID {
			c.sent, c.by = append(c.sent, f.DeliveryID), append(c.by, f.ReplayID)
		}
		if from != nil && replay == 0 && f.ReplayID != 0 {
			from.sending++
			c.history[historyKey{from.ID, LetterReplay, f.ReplayID}]++
		}
	default:
		c.leave.DeliveryIds, c.leave.Ats = append(c.leave.DeliveryIds, f.DeliveryID), append(c.leave.Ats, f.SettledAt)
		c.leave.Whys = append(c.leave.Whys, f.State)
		kind := LetterEnded
		if f.State == StateDelivered {
			kind = LetterDelivered
		}
		if from != nil && replay == 0 && f.ReplayID != 0 { // it went out and came back between two looks
			c.history[historyKey{from.ID, LetterReplay, f.ReplayID}]++
		}
		c.out(from, replay, kind, f.ReplayID)
	}
}

// out takes one delivery from the group in which it was open, if it was.
func (c *inboxChanges) out(from *groupChange, sentBy int64, kind string, replay int64) {
	if from == nil {
		return
	}
	from.open--
	if sentBy != 0 {
		from.sending--
	}
	if kind != "" {
		c.history[historyKey{from.ID, kind, replay}]++
	}
}

// ended puts a bad end into its group; one that is known already was only sent again and given back unsent.
func (c *inboxChanges) ended(f dbsqlc.DeadLetterListFactsRow, item dbsqlc.DeadLetter, known bool, from, to *groupChange) {
	sentBy := jobOf(item.ReplayID)
	if known && item.EndedAt.Equal(f.SettledAt) {
		if sentBy != 0 {
			c.sent, c.by = append(c.sent, f.DeliveryID), append(c.by, 0)
			if from != nil {
				from.sending--
			}
		}
		return
	}
	if from != nil {
		if sentBy == 0 && f.ReplayID != 0 {
			c.history[historyKey{from.ID, LetterReplay, f.ReplayID}]++
		}
		kind := LetterMoved
		if from == to {
			kind = LetterFailed
		}
		c.out(from, sentBy, kind, f.ReplayID)
	}
	c.put.DeliveryIds, c.put.GroupIds = append(c.put.DeliveryIds, f.DeliveryID), append(c.put.GroupIds, to.ID)
	c.put.EndedAt = append(c.put.EndedAt, f.SettledAt)
	if to.open++; to.came == 0 {
		to.first = f.SettledAt
	}
	to.came++
	to.last, to.newest = f.SettledAt, f.Reason // they come in order
	if at := f.SettledAt.Truncate(letterStretch); c.now.Sub(at) < letterKept {
		if c.tally[to.ID] == nil {
			c.tally[to.ID] = map[time.Time]int32{}
		}
		c.tally[to.ID][at]++
	}
}

// write makes the changes. The caller holds the groups' locks.
func (c *inboxChanges) write(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries) error {
	var history dbsqlc.DeadLetterHistoryAddParams
	note := func(group int64, kind, text, key string, n int32, replay int64) {
		history.GroupIds, history.Kinds, history.Actors = append(history.GroupIds, group), append(history.Kinds, kind), append(history.Actors, "")
		history.Notes, history.Counts = append(history.Notes, text), append(history.Counts, n)
		history.ReplayIds, history.Keys = append(history.ReplayIds, replay), append(history.Keys, key)
	}
	for key, n := range c.history {
		name := key.kind + ":" + strconv.FormatInt(key.replay, 10)
		if key.replay == 0 {
			name = key.kind + ":" + c.now.UTC().Format(time.DateOnly) // by the day
		}
		note(key.group, key.kind, "", name, n, key.replay)
	}
	var add dbsqlc.DeadLetterGroupAddParams
	for _, id := range slices.Sorted(maps.Keys(c.groups)) {
		g := c.groups[id]
		if g.open == 0 && g.sending == 0 && g.came == 0 {
			continue
		}
		open := g.Open + g.open
		woke := g.SnoozedUntil != nil && open >= letterGrowth(g.SnoozedOpen)
		add.Ids, add.Open, add.Sending, add.Came = append(add.Ids, id), append(add.Open, g.open), append(add.Sending, g.sending), append(add.Came, g.came)
		add.FirstAt, add.LastAt = append(add.FirstAt, g.first), append(add.LastAt, g.last)
		add.Reasons, add.Woke = append(add.Reasons, g.newest), append(add.Woke, woke)
		switch {
		case g.Open == 0 && open > 0 && g.Total == 0:
			note(id, LetterOpened, "", "", 0, 0)
		case g.Open == 0 && open > 0:
			note(id, LetterReopened, "", "", 0, 0)
		case woke:
			note(id, LetterWoke, fmt.Sprintf("it grew from %d to %d", g.SnoozedOpen, open), "", open, 0)
		}
	}
	if err := queries.DeadLetterGroupAdd(ctx, tx, add); err != nil {
		return fmt.Errorf("count in groups: %w", err)
	}
	if err := queries.DeadLetterPut(ctx, tx, c.put); err != nil {
		return fmt.Errorf("put into groups: %w", err)
	}
	if err := queries.DeadLetterLeave(ctx, tx, c.leave); err != nil {
		return fmt.Errorf("take out of groups: %w", err)
	}
	if err := queries.DeadLetterSetReplay(ctx, tx, c.sent, c.by); err != nil {
		return fmt.Errorf("mark as sent again: %w", err)
	}
	if err := queries.DeadLetterDelete(ctx, tx, c.gone); err != nil {
		return fmt.Errorf("drop from groups: %w", err)
	}
	if err := queries.DeadLetterHistoryAdd(ctx, tx, history); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	var tally dbsqlc.DeadLetterTallyAddParams
	for group, counts := range c.tally {
		for at, n := range counts {
			tally.GroupIds, tally.Ats, tally.Came = append(tally.GroupIds, group), append(tally.Ats, at), append(tally.Came, n)
		}
	}
	if err := queries.DeadLetterTallyAdd(ctx, tx, tally); err != nil {
		return fmt.Errorf("count what came: %w", err)
	}
	return nil
}
