package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
	"weir/jobs"
)

// Lane is the budget of one receiver's account, and how it stands.
type Lane struct {
	ID          string     `json:"id" example:"lane_1"`
	Name        string     `json:"name"`
	Rate        *float64   `json:"rate" doc:"Requests per second; null: not limited."`
	Burst       int64      `json:"burst"`
	MaxInFlight *int64     `json:"max_in_flight" doc:"null: not limited."`
	InFlight    int        `json:"in_flight" doc:"Requests under way; counted only where the lane is limited."`
	Waiting     int        `json:"waiting" doc:"Deliveries that wait for their turn."`
	HeldUntil   *time.Time `json:"held_until" doc:"Nothing leaves before this: the receiver asked for it."`
	HeldReason  string     `json:"held_reason"`
	Learning    string     `json:"learning" enum:"off,suggest,on" doc:"What the receiver's answers do to the pace: nothing, a suggestion, or a change below the rate."`
	LearnedRate *float64   `json:"learned_rate" doc:"The pace learned or adopted; null: the rate."`
	Effective   *float64   `json:"effective_rate" doc:"Requests per second that may leave now: the lower of rate and learned_rate. null: not limited."`
	SlowSince   *time.Time `json:"slow_since" doc:"Its receiver has been slow since; its deliveries are worked apart, so that they hold up no others. null: it is not."`
	Warnings    []string   `json:"warnings"`

	RowID int64 `json:"-"`
}

func laneOf(row dbsqlc.Lane) Lane {
	b := budgetOf(row)
	lane := Lane{
		ID: formatID(idLane, row.ID), RowID: row.ID, Name: row.Name, Rate: b.rate, Burst: b.burst, MaxInFlight: b.maxInFlight, InFlight: int(row.InFlight),
		Waiting: int(row.Parked + max(0, row.Open-row.InFlight)), Warnings: budgetWarnings(b.rate, b.burst),
		Learning: row.Learning, LearnedRate: row.LearnedRate, Effective: cmp.Or(row.LearnedRate, row.Rate), SlowSince: row.SlowSince,
	}
	if until := time.UnixMicro(row.HeldUs).UTC(); until.After(time.Now()) {
		lane.HeldUntil, lane.HeldReason = &until, row.HeldReason
	}
	return lane
}

func (s *Server) mountLanes(api huma.API) {
	register(s, api, operation(http.MethodGet, "/lanes", "list-lanes", ScopeRead, "List lanes"), s.apiListLanes)
	register(s, api, operation(http.MethodGet, "/lanes/{id}", "get-lane", ScopeRead, "Get a lane"), s.apiGetLane)
	register(s, api, operation(http.MethodGet, "/lanes/{id}/changes", "list-lane-changes", ScopeRead, "List what changed a lane's pace, newest first"), s.apiListLaneChanges)
	register(s, api, operation(http.MethodPost, "/lanes/{id}/adopt", "adopt-lane-rate", ScopeAdmin, "Adopt the pace that was suggested last"), s.apiAdoptLane)
	registerBody[LaneInput](s, api, operation(http.MethodPost, "/lanes/{id}/forecast", "forecast-lane", ScopeRead,
		"Say what a budget would have done to the last 24 hours; nothing is changed"), s.apiForecastLane)
	registerBody[LaneInput](s, api, operation(http.MethodPatch, "/lanes/{id}", "update-lane", ScopeAdmin, "Change a lane's budget"), s.apiUpdateLane)
}

func (s *Server) apiListLanes(ctx context.Context, in *PageInput) (*pageOutput[Lane], error) {
	limit := clampLimit(in.Limit)
	after, err := parseCursor(in.Cursor, 0)
	if err != nil {
		return nil, err
	}
	rows, err := s.queries.LaneList(ctx, s.Pool, after, int32(limit+1))
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	page := Page[Lane]{Items: []Lane{}}
	if len(rows) > limit {
		rows = rows[:limit]
		page.NextCursor = orNil(formatCursor(rows[limit-1].ID))
	}
	for _, row := range rows {
		page.Items = append(page.Items, laneOf(row))
	}
	return &pageOutput[Lane]{page}, nil
}

// LanePath names a lane.
type LanePath struct {
	ID string `path:"id" maxLength:"40"`
}

type laneOutput struct{ Body Lane }

func (s *Server) apiGetLane(ctx context.Context, in *LanePath) (*laneOutput, error) {
	id, err := parseID(idLane, in.ID)
	if err != nil {
		return nil, err
	}
	row, err := s.queries.LaneGetByID(ctx, s.Pool, id)
	if err != nil {
		return nil, laneError(id, err)
	}
	return &laneOutput{laneOf(row)}, nil
}

type laneUpdateInput struct {
	LanePath
	RawInput
}

func (s *Server) apiUpdateLane(ctx context.Context, in *laneUpdateInput) (*laneOutput, error) {
	id, err := parseID(idLane, in.ID)
	if err != nil {
		return nil, err
	}
	var change LaneInput
	if err := decodeBody(in.RawBody, &change); err != nil {
		return nil, err
	}
	if change.ID != nil {
		return nil, invalid("id", "cannot be changed")
	}
	var row dbsqlc.Lane
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		row, err = s.updateLane(ctx, tx, id, "", change)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &laneOutput{laneOf(row)}, nil
}

// updateLane changes what was given of a budget. What waits goes at the new pace at once, in the same order; what is left of the allowance
// stays the same. A change of the rate or of learning forgets what was learned.
func (s *Server) updateLane(ctx context.Context, tx pgx.Tx, id int64, prefix string, in LaneInput) (dbsqlc.Lane, error) {
	if err := s.queries.LaneLock(ctx, tx, []int64{id}); err != nil {
		return dbsqlc.Lane{}, fmt.Errorf("lock lane: %w", err)
	}
	before, err := s.queries.LaneGetByID(ctx, tx, id)
	if err != nil {
		return dbsqlc.Lane{}, laneError(id, err)
	}
	b, err := setBudget(prefix, in, budgetOf(before))
	if err != nil {
		return dbsqlc.Lane{}, err
	}
	row, err := s.queries.LaneUpdatePolicy(ctx, tx, dbsqlc.LaneUpdatePolicyParams{
		ID: id, Name: b.name, Rate: b.rate, Burst: int32(b.burst), MaxInFlight: int32Of(b.maxInFlight), Learning: b.learning,
	})
	if err != nil {
		return dbsqlc.Lane{}, fmt.Errorf("update lane: %w", err)
	}
	if before.Limited != row.Limited {
		// A lane without limits keeps no accounts: they are made up when it gets some, and dropped when it loses them.
		if _, err := jobs.RecountLanes(ctx, tx, s.queries, []int64{id}); err != nil {
			return dbsqlc.Lane{}, fmt.Errorf("recount lane: %w", err)
		}
	}
	if before.PeriodUs != row.PeriodUs || before.TauUs != row.TauUs {
		if err := jobs.RescaleLane(ctx, tx, s.queries, before); err != nil {
			return dbsqlc.Lane{}, err
		}
	}
	if err := jobs.RecordLanePolicy(ctx, tx, s.queries, before, row, whoOf(ctx).name); err != nil {
		return dbsqlc.Lane{}, err
	}
	was, is := laneFacts(laneOf(before)), laneFacts(laneOf(row))
	if !sameFacts(was, is) {
		object := auditObject{"lane", formatID(idLane, id), row.Name}
		if err := s.audit(ctx, tx, auditEntry{action: "lane.update", object: object, before: was, after: is}); err != nil {
			return dbsqlc.Lane{}, err
		}
	}
	// A wider window takes more at once, not at the next sweep.
	if _, err := s.queries.LanePromote(ctx, tx, []int64{id}); err != nil {
		return dbsqlc.Lane{}, fmt.Errorf("promote: %w", err)
	}
	return s.queries.LaneGetByID(ctx, tx, id)
}

func laneError(id int64, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return &jobs.NotFoundError{What: "lane", ID: formatID(idLane, id)}
	}
	return fmt.Errorf("load lane: %w", err)
}
