package web

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
)

// LaneChange is one change of a lane's pace, or of its receiver's health, and why.
type LaneChange struct {
	At         time.Time `json:"at"`
	Kind       string    `json:"kind" enum:"learned,suggested,slow,recovered,policy" doc:"learned: the pace follows the receiver, or a suggestion was adopted. suggested: it would have. slow, recovered: its answers. policy: somebody changed the rate or whether it learns."`
	RateBefore *float64  `json:"rate_before" doc:"Requests per second."`
	RateAfter  *float64  `json:"rate_after"`
	Actor      string    `json:"actor" doc:"Who did it; empty: it came of itself."`
	Reason     string    `json:"reason" doc:"A sentence, with the numbers that it follows from."`
}

type lanePageInput struct {
	LanePath
	PageInput
}

func (s *Server) apiListLaneChanges(ctx context.Context, in *lanePageInput) (*pageOutput[LaneChange], error) {
	id, err := parseID(idLane, in.ID)
	if err != nil {
		return nil, err
	}
	before, err := parseCursor(in.Cursor, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	if _, err := s.queries.LaneGetByID(ctx, s.Pool, id); err != nil {
		return nil, laneError(id, err)
	}
	limit := clampLimit(in.Limit)
	rows, err := s.queries.LaneChangeList(ctx, s.Pool, dbsqlc.LaneChangeListParams{LaneID: id, Before: before, Max: int32(limit + 1)})
	if err != nil {
		return nil, fmt.Errorf("list changes of a lane: %w", err)
	}
	page := Page[LaneChange]{Items: []LaneChange{}}
	if len(rows) > limit {
		rows = rows[:limit]
		page.NextCursor = orNil(formatCursor(rows[limit-1].ID))
	}
	for _, row := range rows {
		page.Items = append(page.Items, LaneChange{
			At: row.At.UTC(), Kind: row.Kind, RateBefore: row.RateBefore, RateAfter: row.RateAfter, Actor: row.Actor, Reason: row.Reason,
		})
	}
	return &pageOutput[LaneChange]{page}, nil
}

func (s *Server) apiAdoptLane(ctx context.Context, in *LanePath) (*laneOutput, error) {
	id, err := parseID(idLane, in.ID)
	if err != nil {
		return nil, err
	}
	if err := s.adoptRate(ctx, id); err != nil {
		return nil, err
	}
	return s.apiGetLane(ctx, in)
}

// adoptRate gives a lane the pace that was suggested last, with its entry in the audit log.
func (s *Server) adoptRate(ctx context.Context, id int64) error {
	before, err := s.queries.LaneGetByID(ctx, s.Pool, id)
	if err != nil {
		return laneError(id, err)
	}
	return s.Engine.AdoptRate(ctx, id, whoOf(ctx).name, func(ctx context.Context, tx pgx.Tx) error {
		after, err := s.queries.LaneGetByID(ctx, tx, id)
		if err != nil {
			return laneError(id, err)
		}
		return s.audit(ctx, tx, auditEntry{
			action: "lane.adopt", object: auditObject{"lane", formatID(idLane, id), after.Name},
			before: facts{"effective_rate": laneOf(before).Effective}, after: facts{"effective_rate": laneOf(after).Effective},
		})
	})
}
