package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

// maxCount is how far the panel counts: "10,000+" is enough to act on.
const maxCount = 10_000

type overviewModel struct {
	Frame     ui.Frame
	Count     dbsqlc.OverviewCountRow
	Now       time.Time     // the database's
	Late      time.Duration // how long the oldest delivery has been due
	Attention []attention
	Run       *runRow
	RunLate   bool
	Interval  time.Duration
	Recent    []deliveryRow
	Mended    int32 // in the last 24 hours
	Back      lookback
	Charts    []ui.Chart
	BaseURL   string
}

// attention is one sentence about a destination that somebody should look at.
type attention struct {
	Tone     string
	ID, Name string
	Sentence string
}

func (s *Server) overviewPage(c echo.Context) error {
	ctx := c.Request().Context()
	m := overviewModel{Frame: s.frame(c, "overview", "Overview"), Interval: s.discoveryInterval(), BaseURL: baseURL(c)}
	var err error
	if m.Count, err = s.queries.OverviewCount(ctx, s.Pool, maxCount+1); err != nil {
		return fmt.Errorf("count deliveries: %w", err)
	}
	m.Now = m.Count.Now
	oldest, err := s.queries.OverviewOldestDue(ctx, s.Pool)
	if err != nil {
		return fmt.Errorf("find oldest delivery: %w", err)
	}
	if late := m.Now.Sub(oldest); late >= time.Second {
		m.Late = late
	}
	if m.Run, m.RunLate, err = s.latestRun(ctx, m.Now); err != nil {
		return err
	}
	rows, err := s.queries.OverviewListDestination(ctx, s.Pool, dbsqlc.OverviewListDestinationParams{Max: maxCount + 1, Page: 200})
	if err != nil {
		return fmt.Errorf("list destinations: %w", err)
	}
	for _, row := range rows {
		if a, ok := attentionOf(row, m.Now); ok {
			m.Attention = append(m.Attention, a)
		}
	}
	slices.SortStableFunc(m.Attention, func(a, b attention) int { return strings.Compare(a.Tone, b.Tone) }) // bad before warn
	if m.Mended, err = s.queries.MendCount(ctx, s.Pool, maxCount+1); err != nil {
		return fmt.Errorf("count mends: %w", err)
	}
	if m.Recent, err = s.recentDeliveries(ctx, 0, 8); err != nil {
		return err
	}
	m.Back = lookbackOf(c.QueryParam("range"))
	t, err := s.tallySeries(ctx, 0, m.Back, m.Now)
	if err != nil {
		return err
	}
	m.Charts = []ui.Chart{t.outcomeChart("outcomes"), t.answerChart("answers"), t.waitChart("waits"), t.latencyChart("latency")}
	return renderLive(c, overviewView(m), overviewRegion(m))
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

// attentionOf says in a sentence what is the matter with a destination, the worst first.
func attentionOf(d dbsqlc.OverviewListDestinationRow, now time.Time) (attention, bool) {
	a := attention{Tone: "bad", ID: formatID(idDestination, d.ID), Name: d.Name}
	waiting := ""
	if d.Waiting > 0 {
		waiting = fmt.Sprintf(", %s", plural(d.Waiting, "delivery waits", "deliveries wait"))
	}
	since := ui.Span(now.Sub(d.StateSince))
	late := time.Duration(0)
	if d.OldestDue.Unix() > 0 {
		late = now.Sub(d.OldestDue)
	}
	switch {
	case d.State == "disabled":
		a.Sentence = "is disabled since " + since + because(d.StateReason) + waiting + "."
	case d.DeadLettered > 0:
		a.Sentence = fmt.Sprintf("has %s, the last outcome was %s.", plural(d.DeadLettered, "dead-lettered delivery", "dead-lettered deliveries"), outcomeWords(d))
	case d.State == "paused":
		a.Tone, a.Sentence = "warn", "is paused since "+since+because(d.StateReason)+waiting+"."
	case d.Held:
		a.Tone, a.Sentence = "warn", "is held for another "+ui.Span(d.HeldUntil.Sub(now))+because(d.HeldReason)+waiting+"."
	case late > 5*time.Minute:
		a.Tone, a.Sentence = "warn", "is behind: its oldest delivery has been due for "+ui.Span(late)+waiting+"."
	case d.LastVerdict != nil && *d.LastVerdict != "delivered":
		a.Tone, a.Sentence = "warn", "did not take the last request: "+outcomeWords(d)+"."
	default:
		return a, false
	}
	return a, true
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// outcomeWords is the last outcome in a few words: "500 (retry)", "timeout (retry)".
func outcomeWords(d dbsqlc.OverviewListDestinationRow) string {
	switch {
	case d.LastVerdict == nil:
		return "none yet"
	case d.LastStatus != nil:
		return fmt.Sprintf("%d (%s)", *d.LastStatus, *d.LastVerdict)
	case d.LastErrorClass != "":
		return fmt.Sprintf("%s (%s)", d.LastErrorClass, *d.LastVerdict)
	}
	return *d.LastVerdict
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
