package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
)

// MaxSnooze is the longest that a group of dead letters can be put off.
const MaxSnooze = 30 * 24 * time.Hour

// MaxLettersChosen bounds what can be chosen one by one.
const MaxLettersChosen = 200

// onLetters locks a group, changes it and writes its history, in one transaction. An unknown group is a *NotFoundError.
func (e *Engine) onLetters(ctx context.Context, id int64, also []Also, change func(tx pgx.Tx, g dbsqlc.DeadLetterGroup) (letterEntry, error)) error {
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		groups, err := e.queries.DeadLetterGroupLock(ctx, tx, []int64{id})
		if err != nil {
			return fmt.Errorf("lock group of dead letters: %w", err)
		}
		if len(groups) == 0 {
			return &NotFoundError{"group of dead letters", fmt.Sprintf("dlg_%d", id)}
		}
		entry, err := change(tx, groups[0])
		if err != nil {
			return err
		}
		if err := e.addLetterEntry(ctx, tx, id, entry); err != nil {
			return err
		}
		return do(ctx, tx, also)
	})
}

// letterEntry is a new line of a group's history.
type letterEntry struct {
	kind, actor, note string
	count             int32
}

func (e *Engine) addLetterEntry(ctx context.Context, tx pgx.Tx, id int64, entry letterEntry) error {
	err := e.queries.DeadLetterHistoryAdd(ctx, tx, dbsqlc.DeadLetterHistoryAddParams{
		GroupIds: []int64{id}, Kinds: []string{entry.kind}, Actors: []string{entry.actor}, Notes: []string{entry.note}, Counts: []int32{entry.count},
		ReplayIds: []int64{0}, Keys: []string{""},
	})
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// AssignLetters gives a group to an operator, whose name the history keeps, or, with id 0, to nobody. The caller has made sure that there is
// such an operator. A group that is theirs already is a *ConflictError.
func (e *Engine) AssignLetters(ctx context.Context, group, operatorID int64, name, actor string, also ...Also) error {
	return e.onLetters(ctx, group, also, func(tx pgx.Tx, g dbsqlc.DeadLetterGroup) (letterEntry, error) {
		if jobOf(g.AssigneeID) == operatorID {
			return letterEntry{}, &ConflictError{"dead letters", "that is who has it already"}
		}
		if err := e.queries.DeadLetterGroupSetAssignee(ctx, tx, orNull(operatorID), group); err != nil {
			return letterEntry{}, fmt.Errorf("assign: %w", err)
		}
		if operatorID == 0 {
			return letterEntry{kind: LetterUnassigned, actor: actor}, nil
		}
		return letterEntry{kind: LetterAssigned, actor: actor, note: name}, nil
	})
}

// NoteLetters adds what somebody has found out, of up to 2,000 bytes on several lines.
func (e *Engine) NoteLetters(ctx context.Context, group int64, text, actor string, also ...Also) error {
	if text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")); text == "" {
		return &InvalidError{"note", "is empty; say what you have found out"}
	}
	if err := checkText("note", strings.ReplaceAll(text, "\n", " "), 2000); err != nil {
		return err
	}
	return e.onLetters(ctx, group, also, func(pgx.Tx, dbsqlc.DeadLetterGroup) (letterEntry, error) {
		return letterEntry{kind: LetterNote, actor: actor, note: text}, nil
	})
}

// SnoozeLetters puts a group off until a time, at most MaxSnooze away; a zero time ends it now. It comes back by itself then, or as soon as
// it has grown to twice what it is (by ten at least). A group in which nothing is open is a *ConflictError.
func (e *Engine) SnoozeLetters(ctx context.Context, group int64, until time.Time, actor string, also ...Also) error {
	left := time.Until(until)
	if !until.IsZero() && (left <= 0 || left > MaxSnooze+time.Minute) {
		return &InvalidError{"until", "want a time from now to 30 days from now"}
	}
	return e.onLetters(ctx, group, also, func(tx pgx.Tx, g dbsqlc.DeadLetterGroup) (letterEntry, error) {
		entry := letterEntry{LetterSnoozed, actor, until.UTC().Format(time.RFC3339), g.Open}
		to := &until
		switch {
		case g.Open == 0:
			return entry, &ConflictError{"dead letters", "nothing of it is open"}
		case until.IsZero() && g.SnoozedUntil == nil:
			return entry, &ConflictError{"dead letters", "it is not snoozed"}
		case until.IsZero():
			to, entry = nil, letterEntry{LetterWoke, actor, "by hand", g.Open}
		}
		if err := e.queries.DeadLetterGroupSetSnooze(ctx, tx, to, group); err != nil {
			return entry, fmt.Errorf("snooze: %w", err)
		}
		return entry, nil
	})
}

func checkResolution(reason string) (string, error) {
	reason = strings.TrimSpace(reason)
	if reason == "" {
		return "", &InvalidError{"reason", "is missing: say why nothing more has to be done"}
	}
	return reason, checkText("reason", reason, 500)
}

// ResolveLetters ends what is open of a group, with a reason that stays: all that came in up to through (the highest seq that the caller has
// seen), or with 0 all there is. What came in since stays open, and what comes in later opens the group again. The deliveries stay as they
// are, and can be replayed. It returns how many it resolved; none is a *ConflictError.
func (e *Engine) ResolveLetters(ctx context.Context, group, through int64, reason, actor string, also ...Also) (n int, err error) {
	if reason, err = checkResolution(reason); err != nil {
		return 0, err
	}
	err = e.onLetters(ctx, group, also, func(tx pgx.Tx, g dbsqlc.DeadLetterGroup) (letterEntry, error) {
		last, err := e.queries.DeadLetterLastSeq(ctx, tx, group)
		if err != nil {
			return letterEntry{}, fmt.Errorf("read group: %w", err)
		}
		if through > 0 {
			last = min(last, through)
		}
		last = max(last, g.ResolvedThrough)
		left, err := e.queries.DeadLetterCountAfter(ctx, tx, group, last)
		if err != nil {
			return letterEntry{}, fmt.Errorf("count what is left: %w", err)
		}
		if n = int(g.Open - left.Open); n <= 0 {
			return letterEntry{}, &ConflictError{"dead letters", "nothing of that is open any more"}
		}
		err = e.queries.DeadLetterGroupResolve(ctx, tx, dbsqlc.DeadLetterGroupResolveParams{
			Through: last, Open: left.Open, Sending: left.Sending, Actor: actor, Reason: reason, ID: group,
		})
		if err != nil {
			return letterEntry{}, fmt.Errorf("resolve: %w", err)
		}
		return letterEntry{LetterResolved, actor, reason, int32(n)}, nil
	})
	return n, err
}

// ResolveChosenLetters is ResolveLetters for chosen deliveries; those that are not open in the group are passed over.
func (e *Engine) ResolveChosenLetters(ctx context.Context, group int64, deliveries []int64, reason, actor string, also ...Also) (n int, err error) {
	if reason, err = checkResolution(reason); err != nil {
		return 0, err
	}
	if len(deliveries) == 0 || len(deliveries) > MaxLettersChosen {
		return 0, &InvalidError{"deliveries", fmt.Sprintf("choose from 1 to %d", MaxLettersChosen)}
	}
	err = e.onLetters(ctx, group, also, func(tx pgx.Tx, g dbsqlc.DeadLetterGroup) (letterEntry, error) {
		replays, err := e.queries.DeadLetterResolveSome(ctx, tx, dbsqlc.DeadLetterResolveSomeParams{GroupID: group, DeliveryIds: deliveries, After: g.ResolvedThrough})
		if err != nil {
			return letterEntry{}, fmt.Errorf("resolve: %w", err)
		}
		if n = len(replays); n == 0 {
			return letterEntry{}, &ConflictError{"dead letters", "nothing of that is open any more"}
		}
		sending := int32(0)
		for _, replay := range replays {
			if replay != nil {
				sending++
			}
		}
		now := time.Now()
		err = e.queries.DeadLetterGroupAdd(ctx, tx, dbsqlc.DeadLetterGroupAddParams{
			Ids: []int64{group}, Open: []int32{-int32(n)}, Sending: []int32{-sending}, Came: []int32{0}, FirstAt: []time.Time{now}, LastAt: []time.Time{now},
			Reasons: []string{""}, Woke: []bool{false},
		})
		if err != nil {
			return letterEntry{}, fmt.Errorf("count in group: %w", err)
		}
		return letterEntry{LetterResolvedSome, actor, reason, int32(n)}, nil
	})
	return n, err
}

// TakeBackResolution undoes the last ResolveLetters of a group: what it resolved is open again, but for what has left otherwise. A group
// that was not resolved, or has been taken back already, is a *ConflictError.
func (e *Engine) TakeBackResolution(ctx context.Context, group int64, actor string, also ...Also) (n int, err error) {
	err = e.onLetters(ctx, group, also, func(tx pgx.Tx, g dbsqlc.DeadLetterGroup) (letterEntry, error) {
		if g.ResolvedAt == nil {
			return letterEntry{}, &ConflictError{"dead letters", "it has no resolution that could be taken back"}
		}
		open, err := e.queries.DeadLetterCountAfter(ctx, tx, group, g.ResolvedBefore)
		if err != nil {
			return letterEntry{}, fmt.Errorf("count what is open again: %w", err)
		}
		if err := e.queries.DeadLetterGroupTakeBack(ctx, tx, dbsqlc.DeadLetterGroupTakeBackParams{Open: open.Open, Sending: open.Sending, ID: group}); err != nil {
			return letterEntry{}, fmt.Errorf("take resolution back: %w", err)
		}
		n = int(open.Open - g.Open)
		return letterEntry{LetterTakenBack, actor, g.Resolution, int32(n)}, nil
	})
	return n, err
}

// recordLetterReplay puts a run over dead letters into the history of their groups, before anything is sent. What it sends and what comes
// of that is added as it happens.
func (e *Engine) recordLetterReplay(ctx context.Context, tx pgx.Tx, run ReplayRun, id int64) error {
	if group := run.Filter.Letters; group != 0 {
		err := e.queries.DeadLetterHistoryAdd(ctx, tx, dbsqlc.DeadLetterHistoryAddParams{
			GroupIds: []int64{group}, Kinds: []string{LetterReplay}, Actors: []string{run.Actor}, Notes: []string{run.Reason}, Counts: []int32{0},
			ReplayIds: []int64{id}, Keys: []string{fmt.Sprintf("%s:%d", LetterReplay, id)},
		})
		if err != nil {
			return fmt.Errorf("write history: %w", err)
		}
	}
	if len(run.Filter.Deliveries) == 0 {
		return nil
	}
	err := e.queries.DeadLetterHistoryAddReplay(ctx, tx, dbsqlc.DeadLetterHistoryAddReplayParams{
		Actor: run.Actor, Note: run.Reason, ReplayID: id, DeliveryIds: run.Filter.Deliveries,
	})
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}
