package web

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weir/db/dbsqlc"
	"weir/jobs"
)

// What is done to groups of dead letters, from the panel and the API alike, each with its entry in the audit log. Groups' own histories are
// written by the engine.

// auditedLetters finds a group and makes the object of its entries.
func (s *Server) auditedLetters(ctx context.Context, id int64) (auditObject, error) {
	g, err := s.getLetters(ctx, id, time.Now())
	return auditObject{"dead_letters", g.ID, clip(g.Title, 100) + " at " + g.DestinationName}, err
}

func (s *Server) resolveLetters(ctx context.Context, id, through int64, reason, actor string) (int, error) {
	object, err := s.auditedLetters(ctx, id)
	if err != nil {
		return 0, err
	}
	return s.Engine.ResolveLetters(ctx, id, through, reason, actor, s.auditing(auditEntry{action: "dead_letters.resolve", object: object, note: reason}))
}

func (s *Server) resolveChosenLetters(ctx context.Context, id int64, deliveries []int64, reason, actor string) (int, error) {
	object, err := s.auditedLetters(ctx, id)
	if err != nil {
		return 0, err
	}
	names := make([]string, len(deliveries))
	for i, delivery := range deliveries {
		names[i] = formatID(idDelivery, delivery)
	}
	return s.Engine.ResolveChosenLetters(ctx, id, deliveries, reason, actor, s.auditing(auditEntry{
		action: "dead_letters.resolve_some", object: object, after: facts{"deliveries": names}, note: reason,
	}))
}

func (s *Server) takeBackResolution(ctx context.Context, id int64, actor string) (int, error) {
	object, err := s.auditedLetters(ctx, id)
	if err != nil {
		return 0, err
	}
	return s.Engine.TakeBackResolution(ctx, id, actor, s.auditing(auditEntry{action: "dead_letters.take_back", object: object}))
}

func (s *Server) snoozeLetters(ctx context.Context, id int64, until time.Time, actor string) error {
	object, err := s.auditedLetters(ctx, id)
	if err != nil {
		return err
	}
	entry := auditEntry{action: "dead_letters.wake", object: object}
	if !until.IsZero() {
		entry.action, entry.after = "dead_letters.snooze", facts{"until": until.UTC().Truncate(time.Second)}
	}
	return s.Engine.SnoozeLetters(ctx, id, until, actor, s.auditing(entry))
}

func (s *Server) noteLetters(ctx context.Context, id int64, text, actor string) error {
	object, err := s.auditedLetters(ctx, id)
	if err != nil {
		return err
	}
	return s.Engine.NoteLetters(ctx, id, text, actor, s.auditing(auditEntry{action: "dead_letters.note", object: object}))
}

// assignLetters gives a group to somebody who may act; 0: to nobody.
func (s *Server) assignLetters(ctx context.Context, id, person int64, actor string) (string, error) {
	object, err := s.auditedLetters(ctx, id)
	if err != nil {
		return "", err
	}
	name := ""
	if person != 0 {
		found, err := s.findActing(ctx, func(p dbsqlc.OperatorListActingRow) bool { return p.ID == person })
		if err != nil {
			return "", err
		}
		name = found.Name
	}
	return name, s.Engine.AssignLetters(ctx, id, person, name, actor, s.auditing(auditEntry{action: "dead_letters.assign", object: object, after: facts{"assignee": name}}))
}

// findActing finds the one among those who may act; nobody like that is a *jobs.InvalidError.
func (s *Server) findActing(ctx context.Context, is func(dbsqlc.OperatorListActingRow) bool) (dbsqlc.OperatorListActingRow, error) {
	people, err := s.queries.OperatorListActing(ctx, s.Pool, maxActing)
	if err != nil {
		return dbsqlc.OperatorListActingRow{}, fmt.Errorf("list people: %w", err)
	}
	i := slices.IndexFunc(people, is)
	if i < 0 {
		return dbsqlc.OperatorListActingRow{}, invalid("assignee", "want somebody who can sign in and is an operator or an administrator")
	}
	return people[i], nil
}

// maxActing is how many people a choice of them shows.
const maxActing = 500

// replayLetters starts a run over what is open of a group, or over chosen deliveries of it; one that is none of it is an
// *jobs.InvalidError.
func (s *Server) replayLetters(ctx context.Context, id int64, deliveries []int64, share float64, reason, actor string) (ReplayView, bool, error) {
	if _, err := s.auditedLetters(ctx, id); err != nil {
		return ReplayView{}, false, err
	}
	run := jobs.ReplayRun{Filter: jobs.ReplayFilter{Letters: id, Deliveries: slices.Clone(deliveries)}, Share: share, Reason: reason, Actor: actor}
	run.Also = s.auditReplayRun(run)
	started, existing, err := s.Engine.StartReplay(ctx, run)
	if err != nil {
		return ReplayView{}, false, err
	}
	view, err := s.getReplay(ctx, started)
	return view, existing, err
}
