package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"weir/db/dbsqlc"
)

func (s *Server) mountLetters(api huma.API) {
	list := operation(http.MethodGet, "/dead-letters", "list-dead-letters", ScopeRead, "List what was dead-lettered or expired, by reason and destination")
	list.Description = "Deliveries that ended badly and that nobody has resolved, in groups; those in which something came in last first. They come in about a second after they ended."
	register(s, api, list, s.apiListLetters)
	register(s, api, operation(http.MethodGet, "/dead-letters/{id}", "get-dead-letters", ScopeRead, "Get a group of dead letters"), s.apiGetLetters)
	register(s, api, operation(http.MethodGet, "/dead-letters/{id}/deliveries", "list-dead-letter-deliveries", ScopeRead, "List a group's deliveries"), s.apiListGroup)
	register(s, api, operation(http.MethodGet, "/dead-letters/{id}/history", "list-dead-letter-history", ScopeRead, "List what happened to a group, newest first"), s.apiLetterHistory)
	resolve := operation(http.MethodPost, "/dead-letters/{id}/resolve", "resolve-dead-letters", ScopeOperate, "Resolve what is open of a group, with a reason")
	replay := operation(http.MethodPost, "/dead-letters/{id}/replay", "replay-dead-letters", ScopeOperate, "Send what is open of a group again")
	resolve.Errors, replay.Errors = append(resolve.Errors, http.StatusConflict), append(replay.Errors, http.StatusConflict)
	registerBody[resolveBody](s, api, resolve, s.apiResolveLetters)
	registerBody[letterReplayBody](s, api, replay, s.apiReplayLetters)
	s.mountLetterActions(api)
}

type listLettersInput struct {
	PageInput
	Show        string `query:"show" enum:"open,snoozed,resolved,all" default:"open"`
	Destination string `query:"destination" maxLength:"40"`
}

func (s *Server) apiListLetters(ctx context.Context, in *listLettersInput) (*pageOutput[LetterGroup], error) {
	f := letterFilter{show: in.Show, cursor: in.Cursor, limit: in.Limit}
	if in.Destination != "" {
		id, err := parseIDField(idDestination, "destination", in.Destination)
		if err != nil {
			return nil, err
		}
		f.destination = id
	}
	page, err := s.listLetters(ctx, f, time.Now())
	return &pageOutput[LetterGroup]{page}, err
}

// LetterPath names a group of dead letters.
type LetterPath struct {
	ID string `path:"id" maxLength:"40"`
}

type letterOutput struct{ Body LetterGroup }

func (s *Server) apiGetLetters(ctx context.Context, in *LetterPath) (*letterOutput, error) {
	id, err := parseID(idLetters, in.ID)
	if err != nil {
		return nil, err
	}
	g, err := s.getLetters(ctx, id, time.Now())
	return &letterOutput{g}, err
}

type listGroupInput struct {
	PageInput
	LetterPath
	All bool `query:"all" doc:"Also those that have left: delivered by a replay, resolved, superseded, cancelled."`
}

func (s *Server) apiListGroup(ctx context.Context, in *listGroupInput) (*pageOutput[Letter], error) {
	id, err := parseID(idLetters, in.ID)
	if err != nil {
		return nil, err
	}
	page, err := s.listGroup(ctx, id, in.All, in.Cursor, in.Limit)
	return &pageOutput[Letter]{page}, err
}

// LetterEntry is one thing that happened to a group.
type LetterEntry struct {
	At     time.Time `json:"at"`
	LastAt time.Time `json:"last_at" doc:"When it was last added to."`
	Kind   string    `json:"kind"`
	Actor  string    `json:"actor" doc:"Empty: it happened by itself."`
	Note   string    `json:"note"`
	Count  int32     `json:"count" doc:"Deliveries."`
	Replay *string   `json:"replay"`
}

type letterHistoryInput struct {
	PageInput
	LetterPath
}

func (s *Server) apiLetterHistory(ctx context.Context, in *letterHistoryInput) (*pageOutput[LetterEntry], error) {
	id, err := parseID(idLetters, in.ID)
	if err != nil {
		return nil, err
	}
	if _, err := s.getLetters(ctx, id, time.Now()); err != nil {
		return nil, err
	}
	before, err := parseCursor(in.Cursor, firstPage)
	if err != nil {
		return nil, err
	}
	limit := clampLimit(in.Limit)
	rows, err := s.queries.DeadLetterHistoryList(ctx, s.Pool, dbsqlc.DeadLetterHistoryListParams{GroupID: id, Before: before, Max: int32(limit + 1)})
	if err != nil {
		return nil, fmt.Errorf("load history: %w", err)
	}
	page := Page[LetterEntry]{Items: []LetterEntry{}}
	if len(rows) > limit {
		rows = rows[:limit]
		page.NextCursor = orNil(formatCursor(rows[limit-1].ID))
	}
	for _, r := range rows {
		e := LetterEntry{At: r.At, LastAt: r.LastAt, Kind: r.Kind, Actor: r.Actor, Note: r.Note, Count: r.Count}
		if r.ReplayID != nil {
			e.Replay = orNil(formatID(idReplay, *r.ReplayID))
		}
		page.Items = append(page.Items, e)
	}
	return &pageOutput[LetterEntry]{page}, nil
}

type resolveBody struct {
	Reason     string   `json:"reason" doc:"Why nothing more has to be done; it stays."`
	Deliveries []string `json:"deliveries,omitempty" doc:"Only these, 200 at most; left out: all that is open."`
}

type resolveOutput struct {
	Body struct {
		Resolved int         `json:"resolved"`
		Group    LetterGroup `json:"group"`
	}
}

func (s *Server) apiResolveLetters(ctx context.Context, in *letterInput) (*resolveOutput, error) {
	id, err := parseID(idLetters, in.ID)
	if err != nil {
		return nil, err
	}
	var body resolveBody
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	chosen, err := parseDeliveries(body.Deliveries)
	if err != nil {
		return nil, err
	}
	out := &resolveOutput{}
	if len(chosen) > 0 {
		out.Body.Resolved, err = s.resolveChosenLetters(ctx, id, chosen, body.Reason, "token "+callerName(ctx))
	} else {
		out.Body.Resolved, err = s.resolveLetters(ctx, id, 0, body.Reason, "token "+callerName(ctx))
	}
	if err != nil {
		return nil, err
	}
	out.Body.Group, err = s.getLetters(ctx, id, time.Now())
	return out, err
}

// parseDeliveries reads ids of deliveries; one that is none is a *jobs.InvalidError.
func parseDeliveries(texts []string) ([]int64, error) {
	var ids []int64
	for _, text := range texts {
		id, err := parseIDField(idDelivery, "deliveries", text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

type letterReplayBody struct {
	Deliveries []string `json:"deliveries,omitempty" doc:"Only these of the group, 200 at most; left out: all that is open."`
	Share      float64  `json:"share,omitempty" doc:"Of each lane, from 0.001 to 1; 0.5 if left out."`
	Reason     string   `json:"reason,omitempty"`
}

type letterReplayOutput struct {
	Body struct {
		Existing bool       `json:"existing" doc:"An earlier request has started it; this one changed nothing."`
		Run      ReplayView `json:"run"`
	}
}

func (s *Server) apiReplayLetters(ctx context.Context, in *letterInput) (*letterReplayOutput, error) {
	id, err := parseID(idLetters, in.ID)
	if err != nil {
		return nil, err
	}
	var body letterReplayBody
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	chosen, err := parseDeliveries(body.Deliveries)
	if err != nil {
		return nil, err
	}
	out := &letterReplayOutput{}
	out.Body.Run, out.Body.Existing, err = s.replayLetters(ctx, id, chosen, body.Share, strings.TrimSpace(body.Reason), "token "+callerName(ctx))
	return out, err
}
