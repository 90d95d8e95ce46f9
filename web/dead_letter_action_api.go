package web

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"weir/db/dbsqlc"
)

// mountLetterActions adds what somebody leaves on a group for others: who has it, what is known, until when it is put off.
func (s *Server) mountLetterActions(api huma.API) {
	act := func(name, id, summary string) huma.Operation {
		op := operation(http.MethodPost, "/dead-letters/{id}/"+name, id, ScopeOperate, summary)
		op.Errors = append(op.Errors, http.StatusConflict)
		return op
	}
	registerBody[letterAssignBody](s, api, act("assign", "assign-dead-letters", "Give a group to somebody, or to nobody"), s.apiAssignLetters)
	registerBody[letterNoteBody](s, api, act("note", "note-dead-letters", "Note what is known about a group"), s.apiNoteLetters)
	registerBody[letterSnoozeBody](s, api, act("snooze", "snooze-dead-letters", "Put a group off until a time"), s.apiSnoozeLetters)
	register(s, api, act("wake", "wake-dead-letters", "End a group's snooze"), s.apiWakeLetters)
	register(s, api, act("take-back", "take-back-dead-letters", "Undo the last resolution of all of a group"), s.apiTakeBackLetters)
}

// actOnLetters does something to a group and answers with it as it is then.
func (s *Server) actOnLetters(ctx context.Context, text string, act func(id int64, actor string) error) (*letterOutput, error) {
	id, err := parseID(idLetters, text)
	if err != nil {
		return nil, err
	}
	if err := act(id, "token "+callerName(ctx)); err != nil {
		return nil, err
	}
	g, err := s.getLetters(ctx, id, time.Now())
	return &letterOutput{g}, err
}

type letterInput struct {
	LetterPath
	RawInput
}

type letterAssignBody struct {
	Assignee Optional[string] `json:"assignee" doc:"The name of an operator or an administrator who can sign in; null: nobody."`
}

func (s *Server) apiAssignLetters(ctx context.Context, in *letterInput) (*letterOutput, error) {
	return s.actOnLetters(ctx, in.ID, func(id int64, actor string) error {
		var body letterAssignBody
		if err := decodeBody(in.RawBody, &body); err != nil {
			return err
		}
		person := int64(0)
		switch {
		case !body.Assignee.Set:
			return invalid("assignee", "is missing; want somebody's name, or null for nobody")
		case body.Assignee.Value != nil:
			found, err := s.findActing(ctx, func(p dbsqlc.OperatorListActingRow) bool { return p.Name == *body.Assignee.Value })
			if err != nil {
				return err
			}
			person = found.ID
		}
		_, err := s.assignLetters(ctx, id, person, actor)
		return err
	})
}

type letterNoteBody struct {
	Note string `json:"note" doc:"For everybody who looks at the group; up to 2,000 bytes, on several lines."`
}

func (s *Server) apiNoteLetters(ctx context.Context, in *letterInput) (*letterOutput, error) {
	return s.actOnLetters(ctx, in.ID, func(id int64, actor string) error {
		var body letterNoteBody
		if err := decodeBody(in.RawBody, &body); err != nil {
			return err
		}
		return s.noteLetters(ctx, id, body.Note, actor)
	})
}

type letterSnoozeBody struct {
	Until string `json:"until" format:"date-time" doc:"At most 30 days from now. It comes back earlier when it has grown to twice what it is, by ten at least."`
}

func (s *Server) apiSnoozeLetters(ctx context.Context, in *letterInput) (*letterOutput, error) {
	return s.actOnLetters(ctx, in.ID, func(id int64, actor string) error {
		var body letterSnoozeBody
		if err := decodeBody(in.RawBody, &body); err != nil {
			return err
		}
		until, err := time.Parse(time.RFC3339, body.Until)
		if err != nil || until.IsZero() { // a zero time would end the snooze
			return invalid("until", "want a time such as 2026-11-30T14:00:00Z")
		}
		return s.snoozeLetters(ctx, id, until, actor)
	})
}

func (s *Server) apiWakeLetters(ctx context.Context, in *LetterPath) (*letterOutput, error) {
	return s.actOnLetters(ctx, in.ID, func(id int64, actor string) error {
		return s.snoozeLetters(ctx, id, time.Time{}, actor)
	})
}

type takeBackOutput struct {
	Body struct {
		Reopened int         `json:"reopened" doc:"How many are open again."`
		Group    LetterGroup `json:"group"`
	}
}

func (s *Server) apiTakeBackLetters(ctx context.Context, in *LetterPath) (*takeBackOutput, error) {
	out := &takeBackOutput{}
	g, err := s.actOnLetters(ctx, in.ID, func(id int64, actor string) (err error) {
		out.Body.Reopened, err = s.takeBackResolution(ctx, id, actor)
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Body.Group = g.Body
	return out, nil
}
