package web

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"weir/web/ui"
)

type historyModel struct {
	Frame        ui.Frame
	Now          time.Time
	D            Destination
	Lines        []auditLineView
	Newer, Older string
}

// destinationHistoryPage is what was done to one destination, for everybody who may see it; the whole audit log is an administrator's.
func (s *Server) destinationHistoryPage(c echo.Context) error {
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	m := historyModel{D: d, Frame: s.frame(c, "destinations", "History of "+d.Name)}
	m.Now = m.Frame.Now
	path, cursor := "/destinations/"+d.ID+"/history", c.QueryParam("cursor")
	before, err := parseCursor(cursor, firstPage)
	if err != nil {
		cursor, before = "", firstPage
	}
	rows, next, err := s.auditPage(c.Request().Context(), auditFilter{Object: d.ID}, before, auditPageSize)
	if err != nil {
		return err
	}
	if m.Lines, err = auditLines(rows); err != nil {
		return err
	}
	if cursor != "" {
		m.Newer = path
	}
	if next != nil {
		m.Older = query(path, "cursor", *next)
	}
	return render(c, http.StatusOK, destinationHistoryView(m))
}
