package jobs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"weir/db/dbsqlc"
)

// Bounds of one tick of the inbox, so that it does not hold up the rest of the sweep.
const (
	inboxPage = 2000
	inboxTime = 500 * time.Millisecond
)

// maxTypedGroups is how many groups of one destination may be by type of event: producers that make up types must not make up groups. What
// comes beyond it is grouped without its type.
const maxTypedGroups = 200

// inbox keeps the groups of dead letters after the ledger, a step of the sweep: by it alone deliveries come in and leave by themselves.
// Nothing of it is on the way of a delivery but the trigger that notes an id.
type inbox struct {
	pool    *pgxpool.Pool
	queries *dbsqlc.Queries
	log     *slog.Logger
}

// step takes in what has changed, as far as the time goes, and ends snoozes whose time has come.
func (b *inbox) step(ctx context.Context) error {
	for until := time.Now().Add(inboxTime); time.Now().Before(until); {
		n := 0
		err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) (err error) {
			n, err = b.follow(ctx, tx)
			return err
		})
		if err != nil {
			return fmt.Errorf("follow the ledger: %w", err)
		}
		if n == 0 {
			break
		}
	}
	n, err := b.queries.DeadLetterGroupWake(ctx, b.pool)
	if err == nil && n > 0 {
		b.log.InfoContext(ctx, "dead letters woke", "groups", n)
	}
	return err
}

// prune drops counts that no chart shows any more.
func (b *inbox) prune(ctx context.Context) error {
	return b.queries.DeadLetterTallyDeleteOld(ctx, b.pool)
}

// letterKey is what makes deliveries one group.
type letterKey struct {
	destination int64
	state       string
	status      int32
	class       string
	typ         string
}

// aboutPayload tells whether a status speaks of what was sent rather than of the receiver: then each type of event is a problem of its own.
func aboutPayload(status int32) bool {
	switch status {
	case 401, 403, 404, 405, 407, 408, 410, 421, 425, 426, 429, 431:
		return false
	}
	return status >= 400 && status < 500
}

func keyOf(f dbsqlc.DeadLetterListFactsRow) letterKey {
	k := letterKey{f.DestinationID, f.State, f.Status, f.ErrorClass, ""}
	if f.State == StateDeadLettered && aboutPayload(f.Status) {
		k.typ = f.Type
	}
	return k
}

func isBadEnd(state string) bool { return state == StateDeadLettered || state == StateExpired }

// follow takes one page of changes in, and returns how many deliveries that was.
func (b *inbox) follow(ctx context.Context, tx pgx.Tx) (int, error) {
	ids, err := b.queries.DeadLetterChangeTake(ctx, tx, inboxPage)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	facts, err := b.queries.DeadLetterListFacts(ctx, tx, ids)
	if err != nil {
		return 0, fmt.Errorf("read ledger: %w", err)
	}
	slices.SortFunc(facts, func(x, y dbsqlc.DeadLetterListFactsRow) int {
		return cmp.Or(x.SettledAt.Compare(y.SettledAt), cmp.Compare(x.DeliveryID, y.DeliveryID))
	})
	groupOf, err := b.groupsFor(ctx, tx, facts)
	if err != nil {
		return 0, err
	}
	// Two looks at what they were in: the first says what to lock, the second holds.
	was, err := b.queries.DeadLetterListByDelivery(ctx, tx, ids)
	if err != nil {
		return 0, fmt.Errorf("read inbox: %w", err)
	}
	lock := slices.Collect(maps.Values(groupOf))
	for _, item := range was {
		lock = append(lock, item.GroupID)
	}
	groups, err := b.queries.DeadLetterGroupLock(ctx, tx, lock)
	if err != nil {
		return 0, fmt.Errorf("lock groups: %w", err)
	}
	if was, err = b.queries.DeadLetterListByDelivery(ctx, tx, ids); err != nil {
		return 0, fmt.Errorf("read inbox: %w", err)
	}
	changes := newInboxChanges(groups, was)
	for _, f := range facts {
		changes.add(f, groupOf)
	}
	return len(ids), changes.write(ctx, tx, b.queries)
}

// groupsFor finds the group of each bad end, or makes it.
func (b *inbox) groupsFor(ctx context.Context, tx pgx.Tx, facts []dbsqlc.DeadLetterListFactsRow) (map[letterKey]int64, error) {
	since := map[letterKey]time.Time{}
	for _, f := range facts {
		if k := keyOf(f); f.There && isBadEnd(f.State) && (since[k].IsZero() || f.SettledAt.Before(since[k])) {
			since[k] = f.SettledAt
		}
	}
	found, err := b.findGroups(ctx, tx, since)
	if err != nil || len(found) == len(since) {
		return found, err
	}
	// instead: keys that are one too many, and the key that takes them in.
	instead, err := b.capTypes(ctx, tx, since, found)
	if err != nil {
		return nil, err
	}
	wanted := map[letterKey]time.Time{}
	for k, at := range since {
		to := k
		if other, ok := instead[k]; ok {
			to = other
		}
		if wanted[to].IsZero() || at.Before(wanted[to]) {
			wanted[to] = at
		}
	}
	var p dbsqlc.DeadLetterGroupEnsureParams
	for k, at := range wanted {
		p.DestinationIds, p.States, p.Statuses = append(p.DestinationIds, k.destination), append(p.States, k.state), append(p.Statuses, k.status)
		p.ErrorClasses, p.Types, p.Ats = append(p.ErrorClasses, k.class), append(p.Types, k.typ), append(p.Ats, at)
	}
	if err := b.queries.DeadLetterGroupEnsure(ctx, tx, p); err != nil {
		return nil, fmt.Errorf("make groups: %w", err)
	}
	if found, err = b.findGroups(ctx, tx, wanted); err != nil {
		return nil, err
	}
	for k, other := range instead {
		found[k] = found[other]
	}
	return found, nil
}

func (b *inbox) findGroups(ctx context.Context, tx pgx.Tx, keys map[letterKey]time.Time) (map[letterKey]int64, error) {
	var p dbsqlc.DeadLetterGroupListByKeyParams
	for k := range keys {
		p.DestinationIds, p.States, p.Statuses = append(p.DestinationIds, k.destination), append(p.States, k.state), append(p.Statuses, k.status)
		p.ErrorClasses, p.Types = append(p.ErrorClasses, k.class), append(p.Types, k.typ)
	}
	rows, err := b.queries.DeadLetterGroupListByKey(ctx, tx, p)
	if err != nil {
		return nil, fmt.Errorf("find groups: %w", err)
	}
	found := make(map[letterKey]int64, len(rows))
	for _, row := range rows {
		found[letterKey{row.DestinationID, row.State, row.Status, row.ErrorClass, row.Type}] = row.ID
	}
	return found, nil
}

// capTypes says which of the keys that have no group yet get the one without a type.
func (b *inbox) capTypes(ctx context.Context, tx pgx.Tx, keys map[letterKey]time.Time, found map[letterKey]int64) (map[letterKey]letterKey, error) {
	var destinations []int64
	for k := range keys {
		if _, ok := found[k]; !ok && k.typ != "" {
			destinations = append(destinations, k.destination)
		}
	}
	if len(destinations) == 0 {
		return nil, nil
	}
	rows, err := b.queries.DeadLetterGroupCountTyped(ctx, tx, destinations)
	if err != nil {
		return nil, fmt.Errorf("count groups: %w", err)
	}
	typed, instead := map[int64]int{}, map[letterKey]letterKey{}
	for _, row := range rows {
		typed[row.DestinationID] = int(row.N)
	}
	for k := range keys {
		if _, ok := found[k]; ok || k.typ == "" {
			continue
		}
		if typed[k.destination]++; typed[k.destination] > maxTypedGroups {
			other := k
			other.typ = ""
			instead[k] = other
		}
	}
	return instead, nil
}
