package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/web/ui"
)

// maxCount is how far the panel counts: "10,000+" is enough to act on.
const maxCount = 10_000

type overviewModel struct {
	Frame     ui.Frame
	Count     dbsqlc.OverviewCountRow
	Now       time.Time     // the database's
	Late      time.Duration // how long the oldest delivery has been due
	Concerns  []concern     // the worst, at most attentionShown
	More      int           // concerns beyond those
	Well      string        // where there are none: that all is well, and how one can tell
	Machine   machine
	Mended    int32 // in the last 24 hours
	Delivered int64 // over the stretch
	BaseURL   string
	Time      overTimeModel
}

// overTimeModel is the part of the overview that looks back.
type overTimeModel struct {
	Back   lookback
	Now    time.Time
	Charts []ui.Chart
	Worst  []dbsqlc.TallyListWorstRow
	Recent []deliveryRow
}

// worstShown is how many destinations are listed by what they answered.
const worstShown = 15

func (s *Server) overviewPage(c echo.Context) error {
	back := lookbackOf(c.QueryParam("range"))
	if isFragment(c) {
		return s.overviewFragment(c, back)
	}
	var m overviewModel
	var history overTimeModel
	var delivered int64
	reads, ctx := errgroup.WithContext(c.Request().Context())
	reads.Go(func() (err error) {
		m, err = s.overviewNow(ctx)
		return err
	})
	reads.Go(func() (err error) {
		history, delivered, err = s.overTime(ctx, back, time.Now())
		return err
	})
	if err := reads.Wait(); err != nil {
		return err
	}
	m.Frame, m.BaseURL = s.frame(c, "overview", "Overview"), baseURL(c)
	m.Time, m.Delivered = history, delivered
	return render(c, http.StatusOK, overviewView(m))
}

// overviewFragment is one of the page's two regions: how things are, or how they went.
func (s *Server) overviewFragment(c echo.Context, back lookback) error {
	ctx := c.Request().Context()
	if c.QueryParam("part") == "time" {
		t, _, err := s.overTime(ctx, back, time.Now())
		if err != nil {
			return err
		}
		return render(c, http.StatusOK, overTimeRegion(t))
	}
	m, err := s.overviewNow(ctx)
	if err != nil {
		return err
	}
	t, err := s.tallySeries(ctx, 0, back, m.Now)
	if err != nil {
		return err
	}
	m.Frame, m.BaseURL = s.frame(c, "overview", "Overview"), baseURL(c)
	m.Time.Back, m.Delivered = back, t.delivered()
	return render(c, http.StatusOK, overviewRegion(m))
}

// overviewNow is how things stand.
func (s *Server) overviewNow(ctx context.Context) (m overviewModel, err error) {
	if m.Count, err = s.queries.OverviewCount(ctx, s.Pool, maxCount+1); err != nil {
		return m, fmt.Errorf("count deliveries: %w", err)
	}
	m.Now = m.Count.Now
	oldest, err := s.queries.OverviewOldestDue(ctx, s.Pool)
	if err != nil {
		return m, fmt.Errorf("find oldest delivery: %w", err)
	}
	if late := m.Now.Sub(oldest); late >= time.Second {
		m.Late = late
	}
	if m.Mended, err = s.queries.MendCount(ctx, s.Pool, maxCount+1); err != nil {
		return m, fmt.Errorf("count mends: %w", err)
	}
	m.Machine = machine{Workers: m.Count.Workers, Discoverers: m.Count.Discoverers, Interval: s.discoveryInterval(), Refused: m.Count.OutboxRefused}
	if m.Machine.Run, m.Machine.RunLate, err = s.latestRun(ctx, m.Now); err != nil {
		return m, err
	}
	if m.Machine.Processes, err = s.queries.ProcessList(ctx, s.Pool); err != nil {
		return m, fmt.Errorf("list processes: %w", err)
	}
	ready, err := s.queries.AttentionReady(ctx, s.Pool)
	if err != nil {
		return m, fmt.Errorf("find what is ready: %w", err)
	}
	m.Machine.ReadySince = ready.ReadySince
	if m.Concerns, err = s.concerns(ctx, m.Machine, m.Now); err != nil {
		return m, err
	}
	if len(m.Concerns) == 0 {
		m.Well = wellWords(m.Machine, ready.DeliveredAt, m.Late, m.Now)
	}
	m.More = max(0, len(m.Concerns)-attentionShown)
	m.Concerns = m.Concerns[:len(m.Concerns)-m.More]
	return m, nil
}

// overTime is how things went, and how many were delivered.
func (s *Server) overTime(ctx context.Context, back lookback, now time.Time) (overTimeModel, int64, error) {
	m := overTimeModel{Back: back, Now: now}
	t, err := s.tallySeries(ctx, 0, back, now)
	if err != nil {
		return m, 0, err
	}
	m.Charts = []ui.Chart{t.outcomeChart("outcomes"), t.answerChart("answers"), t.waitChart("waits"), t.latencyChart("latency")}
	m.Worst, err = s.queries.TallyListWorst(ctx, s.Pool, dbsqlc.TallyListWorstParams{StepS: jobs.TallyStep(back.Length), Since: t.bins[0], Max: worstShown})
	if err != nil {
		return m, 0, fmt.Errorf("list answers by destination: %w", err)
	}
	if m.Recent, err = s.recentDeliveries(ctx, 0, 8); err != nil {
		return m, 0, err
	}
	return m, t.delivered(), nil
}

// latestRun is the last discovery run, and whether the next one is overdue.
func (s *Server) latestRun(ctx context.Context, now time.Time) (*runRow, bool, error) {
	run, err := s.queries.DiscoveryRunLatest(ctx, s.Pool)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("get discovery run: %w", err)
	}
	return &run, now.Sub(run.FinishedAt) > 3*s.discoveryInterval(), nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func plural(n int32, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return ui.Count(n, maxCount) + " " + many
}

func baseURL(c echo.Context) string { return c.Scheme() + "://" + c.Request().Host }

// firstEvent is a command that hands in an event, for somebody who has none yet.
func firstEvent(base string) string {
	return "curl -X POST " + base + apiPrefix + "/events \\\n" +
		"  -H 'Authorization: Bearer YOUR-TOKEN' -H 'Content-Type: application/json' \\\n" +
		"  -d '{\"type\": \"shipment.updated\", \"subject\": \"shp_1\", \"version\": 1, \"payload\": {\"status\": \"in_transit\"}}'"
}
