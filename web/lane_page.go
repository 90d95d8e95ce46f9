package web

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

// paceShown is how many changes of its lane's pace a destination's page lists.
const paceShown = 20

// paceModel is what a destination's page tells of its lane's pace.
type paceModel struct {
	Changes    []dbsqlc.LaneChange // the last ones, newest first
	Suggestion *dbsqlc.LaneChange  // not decided about
}

func (s *Server) paceOf(ctx context.Context, d Destination) (m paceModel, err error) {
	m.Changes, err = s.queries.LaneChangeList(ctx, s.Pool, dbsqlc.LaneChangeListParams{LaneID: d.Lane.RowID, Before: math.MaxInt64, Max: paceShown})
	if err != nil {
		return m, fmt.Errorf("list changes of a lane: %w", err)
	}
	if d.Lane.Learning == learningOff {
		return m, nil
	}
	suggestion, err := s.queries.LaneGetSuggestion(ctx, s.Pool, d.Lane.RowID)
	if errors.Is(err, pgx.ErrNoRows) {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("load suggestion: %w", err)
	}
	m.Suggestion = &suggestion
	return m, nil
}

// last is the newest change of a kind among those shown, or nil.
func (m paceModel) last(kinds ...string) *dbsqlc.LaneChange {
	for i, change := range m.Changes {
		for _, kind := range kinds {
			if change.Kind == kind {
				return &m.Changes[i]
			}
		}
	}
	return nil
}

// changeWords are the kinds of changes as the page calls them.
func changeWords(kind string) string {
	switch kind {
	case "learned":
		return "pace changed"
	case "suggested":
		return "suggestion"
	case "slow":
		return "receiver slow"
	case "recovered":
		return "receiver recovered"
	case "policy":
		return "limit changed"
	}
	return kind
}

// mayAdopt says whether the page offers to adopt the suggestion.
func (m destinationModel) mayAdopt() bool {
	return m.Pace.Suggestion != nil && m.Pace.Suggestion.RateAfter != nil && m.Frame.Can(ui.Administrator)
}

func (s *Server) destinationAdopt(c echo.Context) error {
	return s.destinationAction(c, "Adopted. It is the pace from the next request on; the rate that was set stays the most it can become.", func(ctx context.Context, d Destination) error {
		return s.adoptRate(ctx, d.Lane.RowID)
	})
}
