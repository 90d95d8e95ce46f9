package web

import (
	"context"
	"fmt"
	"time"

	"weir/db/dbsqlc"
	"weir/jobs"
)

// ReplayDetail is a run on record, and what it waits for.
type ReplayDetail struct {
	ReplayView
	WaitingFor string          `json:"waiting_for" doc:"One sentence: what it waits for, or how it ended."`
	Failures   []ReplayFailure `json:"failures" doc:"Why deliveries failed again or were refused, most frequent first, of the first 10,000."`
	Items      []ReplayItem    `json:"items" doc:"The first 100; the rest: /replays/{id}/items."`
}

type (
	replayDetailOutput struct{ Body ReplayDetail }
	replayRunOutput    struct{ Body ReplayView }
)

// ReplayFailure is one reason.
type ReplayFailure struct {
	Kind    string `json:"kind" enum:"refused,dead_lettered,expired,superseded,cancelled,removed"`
	Status  int32  `json:"status,omitempty"`
	Class   string `json:"class,omitempty"`
	Reason  string `json:"reason" doc:"Of one of them."`
	Count   int32  `json:"count"`
	Example string `json:"example" doc:"One of the deliveries."`
}

type replayPath struct {
	ID string `path:"id" maxLength:"40"`
}

func (s *Server) apiGetReplay(ctx context.Context, in *replayPath) (*replayDetailOutput, error) {
	id, err := parseID(idReplay, in.ID)
	if err != nil {
		return nil, err
	}
	detail, err := s.replayDetail(ctx, id, time.Now())
	if err != nil {
		return nil, err
	}
	items, err := s.listReplayItems(ctx, id, 0, false, 100)
	if err != nil {
		return nil, err
	}
	detail.Items = items.Items
	return &replayDetailOutput{detail.ReplayDetail}, nil
}

// replayStanding is a run with its destinations.
type replayStanding struct {
	ReplayDetail
	parts []replayPart
}

func (s *Server) replayDetail(ctx context.Context, id int64, now time.Time) (d replayStanding, err error) {
	if d.ReplayView, err = s.getReplay(ctx, id); err != nil {
		return d, err
	}
	if d.parts, err = s.queries.ReplayDestinationList(ctx, s.Pool, id, maxReplayParts); err != nil {
		return d, fmt.Errorf("list replay destinations: %w", err)
	}
	d.WaitingFor = replaySentence(d.ReplayView, d.parts, now)
	rows, err := s.queries.ReplayOutcomeList(ctx, s.Pool, dbsqlc.ReplayOutcomeListParams{ReplayID: id, Depth: maxCount, Max: 20})
	if err != nil {
		return d, fmt.Errorf("list replay outcomes: %w", err)
	}
	d.Failures = make([]ReplayFailure, len(rows))
	for i, row := range rows {
		d.Failures[i] = ReplayFailure{Kind: row.Kind, Status: row.Status, Class: row.Class, Reason: row.Why, Count: row.N, Example: formatID(idDelivery, row.Example)}
		if row.Kind == "refused" {
			d.Failures[i].Class = ""
		}
	}
	return d, nil
}

func (s *Server) apiListReplays(ctx context.Context, in *PageInput) (*pageOutput[ReplayView], error) {
	before, err := parseCursor(in.Cursor, firstPage)
	if err != nil {
		return nil, err
	}
	page, err := s.listReplays(ctx, before, in.Limit)
	return &pageOutput[ReplayView]{page}, err
}

type listReplayItemsInput struct {
	PageInput
	ID  string `path:"id" maxLength:"40"`
	Bad bool   `query:"bad" doc:"Only those refused, or ended otherwise than delivered."`
}

func (s *Server) apiListReplayItems(ctx context.Context, in *listReplayItemsInput) (*pageOutput[ReplayItem], error) {
	id, err := parseID(idReplay, in.ID)
	if err != nil {
		return nil, err
	}
	after, err := parseCursor(in.Cursor, 0)
	if err != nil {
		return nil, err
	}
	if _, err := s.getReplay(ctx, id); err != nil {
		return nil, err
	}
	page, err := s.listReplayItems(ctx, id, after, in.Bad, in.Limit)
	return &pageOutput[ReplayItem]{page}, err
}

func (s *Server) apiChangeReplay(ctx context.Context, text, name string, change func(context.Context, int64, string, ...jobs.Also) error) (*replayRunOutput, error) {
	id, err := parseID(idReplay, text)
	if err != nil {
		return nil, err
	}
	if err := s.changeReplay(ctx, id, name, "token "+callerName(ctx), change); err != nil {
		return nil, err
	}
	view, err := s.getReplay(ctx, id)
	return &replayRunOutput{view}, err
}
