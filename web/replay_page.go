package web

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"weir/jobs"
	"weir/web/ui"
)

type replayListModel struct {
	Frame ui.Frame
	Now   time.Time
	Rows  []ReplayView
	Self  string
	First string
	Older string
}

func (s *Server) replayListPage(c echo.Context) error {
	cursor := c.QueryParam("cursor")
	before, err := parseCursor(cursor, firstPage)
	if err != nil {
		cursor, before = "", firstPage
	}
	page, err := s.listReplays(c.Request().Context(), before, deliveryPageSize)
	if err != nil {
		return err
	}
	m := replayListModel{Frame: s.frame(c, "replays", "Replays"), Rows: page.Items, Self: query("/replays", "cursor", cursor)}
	m.Now = m.Frame.Now
	if cursor != "" {
		m.First = "/replays"
	}
	if page.NextCursor != nil {
		m.Older = query("/replays", "cursor", *page.NextCursor)
	}
	return renderLive(c, replayListView(m), replayListRegion(m))
}

type replayModel struct {
	Frame ui.Frame
	Now   time.Time
	R     ReplayDetail
	Parts []replayPart
	More  int // destinations that are not shown
}

func (m replayModel) every() string {
	if m.R.FinishedAt != nil {
		return "30s"
	}
	return "2s"
}

func (s *Server) replayPage(c echo.Context) error {
	id, err := parseID(idReplay, c.Param("id"))
	if err != nil {
		return err
	}
	now := time.Now()
	d, err := s.replayDetail(c.Request().Context(), id, now)
	if err != nil {
		return err
	}
	m := replayModel{Frame: s.frame(c, "replays", "Replay "+d.ID), R: d.ReplayDetail, Parts: d.parts[:min(len(d.parts), 25)]}
	m.More = len(d.parts) - len(m.Parts)
	m.Now = m.Frame.Now
	return renderLive(c, replayView(m), replayRegion(m))
}

type replayItemsModel struct {
	Frame ui.Frame
	Now   time.Time
	ID    string
	Bad   bool
	Rows  []ReplayItem
	First string
	Next  string
}

func (s *Server) replayItemsPage(c echo.Context) error {
	ctx := c.Request().Context()
	id, err := parseID(idReplay, c.Param("id"))
	if err != nil {
		return err
	}
	view, err := s.getReplay(ctx, id)
	if err != nil {
		return err
	}
	m := replayItemsModel{Frame: s.frame(c, "replays", "Deliveries of replay "+view.ID), ID: view.ID, Bad: c.QueryParam("bad") != ""}
	m.Now = m.Frame.Now
	here, bad := "/replays/"+view.ID+"/items", ""
	if m.Bad {
		bad = "1"
	}
	cursor := c.QueryParam("cursor")
	after, err := parseCursor(cursor, 0)
	if err != nil {
		after, cursor = 0, ""
	}
	page, err := s.listReplayItems(ctx, id, after, m.Bad, deliveryPageSize)
	if err != nil {
		return err
	}
	m.Rows = page.Items
	if cursor != "" {
		m.First = query(here, "bad", bad)
	}
	if page.NextCursor != nil {
		m.Next = query(here, "bad", bad, "cursor", *page.NextCursor)
	}
	return render(c, http.StatusOK, replayItemsView(m))
}

func (s *Server) replayPause(c echo.Context) error {
	return s.replayAction(c, "pause", "Paused. What was sent already goes on.", s.Engine.PauseReplay)
}

func (s *Server) replayResume(c echo.Context) error {
	return s.replayAction(c, "resume", "Resumed.", s.Engine.ResumeReplay)
}

func (s *Server) replayStop(c echo.Context) error {
	return s.replayAction(c, "stop", "Stopped. What was not sent is as it was.", s.Engine.StopReplay)
}

func (s *Server) replayAction(c echo.Context, name, notice string, change func(context.Context, int64, string, ...jobs.Also) error) error {
	id, err := parseID(idReplay, c.Param("id"))
	if err != nil {
		return err
	}
	here := "/replays/" + formatID(idReplay, id)
	err = s.changeReplay(c.Request().Context(), id, name, actor(c), change)
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, here, refusal)
	}
	if err != nil {
		return err
	}
	return s.done(c, here, notice)
}
