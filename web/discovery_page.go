package web

import (
	"fmt"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

type runRow = dbsqlc.DiscoveryRun

type discoveryModel struct {
	Frame    ui.Frame
	Now      time.Time
	Interval time.Duration
	Latest   *runRow
	Late     bool
	Runs     []runRow
	Refused  []dbsqlc.OutboxListRefusedRow
	Self     string // this page's address, for its live region

	RunsNewer, RunsOlder, RefusedNewer, RefusedOlder string
}

const discoveryPageSize = 30

func (s *Server) discoveryPage(c echo.Context) error {
	ctx := c.Request().Context()
	m := discoveryModel{Frame: s.frame(c, "discovery", "Discovery"), Interval: s.discoveryInterval()}
	runs, refused := beforeParam(c, "runs"), beforeParam(c, "refused")
	var err error
	m.Now = m.Frame.Now
	if m.Latest, m.Late, err = s.latestRun(ctx, m.Now); err != nil {
		return err
	}
	if m.Runs, err = s.queries.DiscoveryRunList(ctx, s.Pool, runs, discoveryPageSize+1); err != nil {
		return fmt.Errorf("list discovery runs: %w", err)
	}
	if m.Refused, err = s.queries.OutboxListRefused(ctx, s.Pool, refused, discoveryPageSize+1); err != nil {
		return fmt.Errorf("list refused rows: %w", err)
	}
	m.Self = query("/discovery", "runs", param(runs), "refused", param(refused))
	if runs != firstPage {
		m.RunsNewer = query("/discovery", "refused", param(refused))
	}
	if refused != firstPage {
		m.RefusedNewer = query("/discovery", "runs", param(runs)) + "#refused"
	}
	if len(m.Runs) > discoveryPageSize {
		m.Runs = m.Runs[:discoveryPageSize]
		m.RunsOlder = query("/discovery", "runs", param(m.Runs[discoveryPageSize-1].ID), "refused", param(refused))
	}
	if len(m.Refused) > discoveryPageSize {
		m.Refused = m.Refused[:discoveryPageSize]
		m.RefusedOlder = query("/discovery", "runs", param(runs), "refused", param(m.Refused[discoveryPageSize-1].ID)) + "#refused"
	}
	return renderLive(c, discoveryView(m), discoveryRegion(m))
}

// beforeParam reads where a page of a list begins; what is no such place is the list's beginning.
func beforeParam(c echo.Context, name string) int64 {
	id, err := strconv.ParseUint(c.QueryParam(name), 10, 63)
	if err != nil || id == 0 {
		return firstPage
	}
	return int64(id)
}

// param writes what beforeParam reads.
func param(before int64) string {
	if before == firstPage {
		return ""
	}
	return strconv.FormatInt(before, 10)
}
