package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

// sharersShown is how many destinations of a lane are listed.
const sharersShown = 100

type laneModel struct {
	Frame   ui.Frame
	Now     time.Time
	L       laneRow
	Sharers []dbsqlc.LanePageListDestinationRow
	Pace    paceModel
	Line    string // what limits it, where that is worth telling
	Time    laneTimeModel
}

type laneTimeModel struct {
	Path   string
	Back   lookback
	Charts []ui.Chart
}

func (s *Server) lanePage(c echo.Context) error {
	ctx := c.Request().Context()
	id, err := parseID(idLane, c.Param("id"))
	if err != nil {
		return err
	}
	row, err := s.queries.LaneGetByID(ctx, s.Pool, id)
	if err != nil {
		return laneError(id, err)
	}
	m := laneModel{Frame: s.frame(c, "lanes", row.Name), Now: time.Now(), L: laneRow{Lane: laneOf(row), Row: row}}
	m.Time = laneTimeModel{Path: "/lanes/" + m.L.ID, Back: lookbackOf(c.QueryParam("range"))}
	if isFragment(c) && c.QueryParam("part") == "time" {
		if err := s.laneTime(ctx, &m); err != nil {
			return err
		}
		return render(c, http.StatusOK, laneTimeRegion(m.Time))
	}
	if err := s.laneNow(ctx, &m); err != nil {
		return err
	}
	if isFragment(c) {
		return render(c, http.StatusOK, laneRegion(m))
	}
	if err := s.laneTime(ctx, &m); err != nil {
		return err
	}
	return render(c, http.StatusOK, laneView(m))
}

// laneNow is how the lane stands.
func (s *Server) laneNow(ctx context.Context, m *laneModel) (err error) {
	if m.Sharers, err = s.queries.LanePageListDestination(ctx, s.Pool, m.L.RowID, sharersShown+1); err != nil {
		return fmt.Errorf("list destinations of a lane: %w", err)
	}
	m.L.Sharing = int32(len(m.Sharers))
	m.Sharers = m.Sharers[:min(len(m.Sharers), sharersShown)]
	m.Pace.Changes, err = s.queries.LaneChangeList(ctx, s.Pool, dbsqlc.LaneChangeListParams{LaneID: m.L.RowID, Before: math.MaxInt64, Max: paceShown})
	if err != nil {
		return fmt.Errorf("list changes of a lane: %w", err)
	}
	suggestion, err := s.queries.LaneGetSuggestion(ctx, s.Pool, m.L.RowID)
	switch {
	case err == nil && m.L.Learning != learningOff:
		m.Pace.Suggestion = &suggestion
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("load suggestion: %w", err)
	}
	since := m.Now.Add(-attentionMinutes).Truncate(time.Minute)
	rows, err := s.queries.LanePageListTally(ctx, s.Pool, dbsqlc.LanePageListTallyParams{LaneID: m.L.RowID, BinS: 3600, StepS: 60, Since: since})
	if err != nil {
		return fmt.Errorf("list tally of a lane: %w", err)
	}
	m.Line = m.line(rows, m.Now.Sub(since))
	return nil
}

// line says what limits the lane, if anything does, from what came in the last minutes (over).
func (m *laneModel) line(rows []dbsqlc.LanePageListTallyRow, over time.Duration) string {
	if m.L.HeldUntil != nil {
		return ""
	}
	l := line{Waiting: int64(m.L.Waiting)}
	if m.L.Effective != nil {
		l.Allowed = *m.L.Effective
	}
	if m.L.MaxInFlight != nil {
		l.AtOnce = *m.L.MaxInFlight
	}
	var arrived, took, requests int64
	for _, row := range rows {
		arrived, took, requests = arrived+row.Arrived, took+row.TookUs, requests+row.Requests
	}
	l.Arriving = float64(arrived) / over.Seconds()
	if requests > 0 {
		l.Took = time.Duration(took/requests) * time.Microsecond
	}
	c, _ := l.concern()
	return c.Sentence
}

// laneTime is what the lane was used for.
func (s *Server) laneTime(ctx context.Context, m *laneModel) error {
	back := m.Time.Back
	t := series{lookback: back, now: m.Now, bins: ui.BinsBetween(m.Now.Add(-back.Length), m.Now, back.Bin)}
	rows, err := s.queries.LanePageListTally(ctx, s.Pool, dbsqlc.LanePageListTallyParams{
		LaneID: m.L.RowID, BinS: int32(back.Bin / time.Second), StepS: back.Step, Since: t.bins[0],
	})
	if err != nil {
		return fmt.Errorf("list tally of a lane: %w", err)
	}
	for _, row := range rows {
		t.rows = append(t.rows, tallyRow(row))
	}
	use := t.useChart("use")
	if m.L.Effective != nil {
		use.Mark, use.MarkFor = *m.L.Effective, "allowed now"
	}
	m.Time.Charts = []ui.Chart{use, t.waitChart("waits"), t.latencyChart("latency"), t.arrivalChart("arrivals")}
	return nil
}

// useChart is answerChart per second, to hold against a limit. A bin that is not over is divided by what is over of it.
func (t series) useChart(id string) ui.Chart {
	c := t.answerChart(id)
	c.Unit, c.Title = ui.Rates, "Requests a second, by answer"
	for _, s := range c.Series {
		for i := range s.Values {
			s.Values[i] /= min(t.Bin, max(time.Second, t.now.Sub(t.bins[i]))).Seconds()
		}
	}
	return c
}

// arrivalChart shows what came to be owed.
func (t series) arrivalChart(id string) ui.Chart {
	c := t.chart(id, "New deliveries")
	c.Series = []ui.Series{t.count("new", ui.HueAccent, func(r tallyRow) int64 { return r.Arrived })}
	return c
}
