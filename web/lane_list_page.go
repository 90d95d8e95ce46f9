package web

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

const lanePageSize = 50

type laneRow struct {
	Lane
	Row     dbsqlc.Lane
	Sharing int32
}

type laneListModel struct {
	Frame              ui.Frame
	Now                time.Time
	Text, Sort         string // what is looked for; "name" or "waiting"
	Rows               []laneRow
	Self, First, Older string // addresses; empty: there is none
}

// address is the list as it is, with other parameters.
func (m laneListModel) address(more ...string) string {
	return query("/lanes", append([]string{"q", m.Text}, more...)...)
}

// laneListPage lists lanes by name, or (?sort=waiting) those first that have most to do. ?after= is the last name or count of the page
// before, ?id= its lane.
func (s *Server) laneListPage(c echo.Context) error {
	m := laneListModel{Frame: s.frame(c, "lanes", "Lanes"), Text: c.QueryParam("q"), Sort: "name", Now: time.Now()}
	if checkText("q", m.Text) != nil || len(m.Text) > 200 {
		m.Text = ""
	}
	if c.QueryParam("sort") == "waiting" {
		m.Sort = "waiting"
	}
	after := c.QueryParam("after")
	if checkText("after", after) != nil || len(after) > 1000 {
		after = ""
	}
	id, err := parseID(idLane, c.QueryParam("id"))
	if err != nil {
		after, id = "", 0
	}
	if err := s.listLanes(c, &m, after, id); err != nil {
		return err
	}
	m.Self = m.address("sort", m.sortKey(), "after", after, "id", c.QueryParam("id"))
	if after != "" {
		m.First = m.address("sort", m.sortKey())
	}
	if len(m.Rows) > lanePageSize {
		m.Rows = m.Rows[:lanePageSize]
		last := m.Rows[lanePageSize-1]
		key := last.Name
		if m.Sort == "waiting" {
			key = strconv.Itoa(last.Waiting)
		}
		m.Older = m.address("sort", m.sortKey(), "after", key, "id", last.ID)
	}
	return renderLive(c, laneListView(m), laneListRegion(m))
}

// sortKey is the parameter; the usual order needs none.
func (m laneListModel) sortKey() string {
	if m.Sort == "name" {
		return ""
	}
	return m.Sort
}

// listLanes loads one row more than a page has.
func (s *Server) listLanes(c echo.Context, m *laneListModel, after string, id int64) error {
	ctx := c.Request().Context()
	if m.Sort == "waiting" {
		waiting, err := strconv.ParseInt(after, 10, 32)
		if err != nil || after == "" {
			waiting, id = math.MaxInt32, 0
		}
		rows, err := s.queries.LanePageListByWaiting(ctx, s.Pool, dbsqlc.LanePageListByWaitingParams{Text: m.Text, Waiting: int32(waiting), After: id, Max: lanePageSize + 1})
		if err != nil {
			return fmt.Errorf("list lanes: %w", err)
		}
		for _, row := range rows {
			m.Rows = append(m.Rows, laneRow{laneOf(row.Lane), row.Lane, row.Sharing})
		}
		return nil
	}
	rows, err := s.queries.LanePageListByName(ctx, s.Pool, dbsqlc.LanePageListByNameParams{Text: m.Text, AfterName: after, After: id, Max: lanePageSize + 1})
	if err != nil {
		return fmt.Errorf("list lanes: %w", err)
	}
	for _, row := range rows {
		m.Rows = append(m.Rows, laneRow{laneOf(row.Lane), row.Lane, row.Sharing})
	}
	return nil
}

// tokensNow is how many requests the lane's pace would let leave at once, and when the next one may where that is none. It is the gate's own
// arithmetic (see the table lane), without the cap in flight and without a hold. ok is false where there is no pace.
func tokensNow(lane dbsqlc.Lane, now time.Time) (n int64, next time.Time, ok bool) {
	if lane.PeriodUs == 0 {
		return 0, time.Time{}, false
	}
	room := now.UnixMicro() + lane.TauUs - max(lane.TatUs, now.UnixMicro())
	if room < 0 {
		return 0, time.UnixMicro(lane.TatUs - lane.TauUs), true
	}
	return room/lane.PeriodUs + 1, time.Time{}, true
}

// laneInFlight is "3 of 4", "3" where there is no cap, and a dash where nothing is counted.
func laneInFlight(l Lane) string {
	switch {
	case l.MaxInFlight != nil:
		return ui.Number(int64(l.InFlight)) + " of " + ui.Number(*l.MaxInFlight)
	case l.Rate != nil:
		return ui.Number(int64(l.InFlight))
	}
	return "not counted"
}
