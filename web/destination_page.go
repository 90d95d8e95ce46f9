package web

import (
	"context"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/web/ui"
)

const (
	notesShown   = 20
	historyShown = 8
)

type destinationModel struct {
	Frame      ui.Frame
	Now        time.Time
	D          Destination
	Live       destinationRow
	Tokens     tokens
	Hour, Day  dbsqlc.TallySumRow // of the last hour, and of the last 24
	Attention  *attention
	Back       lookback
	Charts     []ui.Chart
	Deliveries []deliveryRow
	Pace       paceModel
	Overlap    string
	Notes      []noteView
	History    []auditLineView
}

// self is the page's own address, with how far back its charts look.
func (m destinationModel) self() string { return query(m.path(), "range", m.Back.Key) }

func (m destinationModel) path() string { return "/destinations/" + m.D.ID }

// tokens are what a lane's rate would let through at once now.
type tokens struct {
	Limited bool
	Now     int64
	Most    int64         // after a quiet time: the burst, less the margin that is kept back
	Next    time.Duration // until the next one, where there is none
}

// tokensOf reads the allowance from the theoretical arrival time, as admission does.
func tokensOf(lane dbsqlc.Lane, now time.Time) tokens {
	if lane.PeriodUs == 0 {
		return tokens{}
	}
	t := tokens{Limited: true, Most: lane.TauUs/lane.PeriodUs + 1}
	room := now.UnixMicro() + lane.TauUs - max(lane.TatUs, now.UnixMicro())
	if room < 0 {
		t.Next = time.Duration(-room) * time.Microsecond
		return t
	}
	t.Now = min(room/lane.PeriodUs+1, t.Most)
	return t
}

func (s *Server) destinationPage(c echo.Context) error {
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	m := destinationModel{D: d, Frame: s.frame(c, "destinations", d.Name), Overlap: formatDuration(defaultOverlap), Back: lookbackOf(c.QueryParam("range"))}
	m.Now = m.Frame.Now
	ctx := c.Request().Context()
	for _, fill := range []func(context.Context, *destinationModel) error{s.fillLive, s.fillFigures, s.fillLists} {
		if err := fill(ctx, &m); err != nil {
			return err
		}
	}
	return renderLive(c, destinationView(m), destinationRegion(m))
}

// fillLive reads how the destination and its lane stand now.
func (s *Server) fillLive(ctx context.Context, m *destinationModel) error {
	rows, err := s.queries.OverviewListDestination(ctx, s.Pool, dbsqlc.OverviewListDestinationParams{Max: maxCount + 1, Ids: []int64{m.D.RowID}, Page: 1})
	if err != nil {
		return fmt.Errorf("load destination: %w", err)
	}
	if len(rows) == 0 {
		return &jobs.NotFoundError{What: "destination", ID: m.D.ID}
	}
	m.Live = rows[0]
	if a, ok := attentionOf(m.Live, m.Now); ok {
		m.Attention = &a
	}
	lane, err := s.queries.LaneGetByID(ctx, s.Pool, m.D.Lane.RowID)
	if err != nil {
		return laneError(m.D.Lane.RowID, err)
	}
	m.Tokens = tokensOf(lane, m.Now)
	m.Pace, err = s.paceOf(ctx, m.D)
	return err
}

// fillFigures reads the tally: sums for a glance, and the charts.
func (s *Server) fillFigures(ctx context.Context, m *destinationModel) (err error) {
	for _, sum := range []struct {
		ago  time.Duration
		into *dbsqlc.TallySumRow
	}{{time.Hour, &m.Hour}, {24 * time.Hour, &m.Day}} {
		*sum.into, err = s.queries.TallySum(ctx, s.Pool, dbsqlc.TallySumParams{DestinationID: m.D.RowID, StepS: jobs.TallyStep(sum.ago), Since: m.Now.Add(-sum.ago)})
		if err != nil {
			return fmt.Errorf("sum tally: %w", err)
		}
	}
	series, err := s.tallySeries(ctx, m.D.RowID, m.Back, m.Now)
	if err != nil {
		return err
	}
	m.Charts = []ui.Chart{series.outcomeChart("chart-outcomes"), series.answerChart("chart-answers"), series.latencyChart("chart-latency"), series.waitChart("chart-waits")}
	return nil
}

func (s *Server) fillLists(ctx context.Context, m *destinationModel) (err error) {
	if m.Deliveries, err = s.recentDeliveries(ctx, m.D.RowID, 10); err != nil {
		return err
	}
	if m.Notes, err = s.listNotes(ctx, m.D.RowID, m.Frame); err != nil {
		return err
	}
	m.History, err = s.destinationHistory(ctx, m.D.RowID, historyShown)
	return err
}

// destinationParam loads the destination that the address names.
func (s *Server) destinationParam(c echo.Context) (Destination, error) {
	id, err := parseID(idDestination, c.Param("id"))
	if err != nil {
		return Destination{}, err
	}
	return s.getDestination(c.Request().Context(), id)
}
