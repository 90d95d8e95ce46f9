package web

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"weir/web/ui"
)

// fragmentHeader asks for the live region of a page alone; live.js sends it.
const fragmentHeader = "Weir-Fragment"

func isFragment(c echo.Context) bool { return c.Request().Header.Get(fragmentHeader) != "" }

// render writes a component into a buffer first, so that one that fails cannot leave half a page.
func render(c echo.Context, status int, component templ.Component) error {
	var page bytes.Buffer
	if err := component.Render(c.Request().Context(), &page); err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", fragmentHeader)
	return c.HTMLBlob(status, page.Bytes())
}

// renderLive answers a page, or only its live region where that is asked for.
func renderLive(c echo.Context, page, region templ.Component) error {
	if isFragment(c) {
		return render(c, http.StatusOK, region)
	}
	return render(c, http.StatusOK, page)
}

// frame is what surrounds the page: who is signed in, and what the last request left to be said.
func (s *Server) frame(c echo.Context, section, title string) ui.Frame {
	f := ui.Frame{Title: title, Section: section, Version: s.Version, Now: time.Now()}
	if who, ok := c.Get(operatorKey).(operator); ok {
		f.Operator, f.Role = who.Name, who.Role
		if !isFragment(c) {
			f.Marks = map[string]string{"dead-letters": s.openLetters(c)}
		}
	}
	if ctx := c.Request().Context(); s.hasSession(ctx) && !isFragment(c) {
		f.Notice, f.Warning = s.sessions.PopString(ctx, sessionNotice), s.sessions.PopString(ctx, sessionWarning)
	}
	return f
}

// actor names who is signed in, for the record.
func actor(c echo.Context) string {
	who, _ := c.Get(operatorKey).(operator)
	return "operator " + who.Name
}

// done says what was done and leads to a page.
func (s *Server) done(c echo.Context, path, notice string) error {
	s.sessions.Put(c.Request().Context(), sessionNotice, notice)
	return c.Redirect(http.StatusSeeOther, path)
}

// refused says why nothing was done and leads to a page.
func (s *Server) refused(c echo.Context, path, warning string) error {
	s.sessions.Put(c.Request().Context(), sessionWarning, warning)
	return c.Redirect(http.StatusSeeOther, path)
}

// hasSession tells whether the request went through withSession; scs panics where it did not.
func (s *Server) hasSession(ctx context.Context) bool { return ctx.Value(sessionLoaded{}) != nil }

type sessionLoaded struct{}
