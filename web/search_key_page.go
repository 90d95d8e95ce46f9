package web

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"weir/jobs"
	"weir/web/ui"
)

type searchKeyModel struct {
	Frame             ui.Frame
	Keys              []SearchKey
	Type, Path, Label string
	Errors            map[string]string
}

func (s *Server) searchKeyPage(c echo.Context) error {
	return s.showSearchKeys(c, http.StatusOK, searchKeyModel{})
}

func (s *Server) showSearchKeys(c echo.Context, status int, m searchKeyModel) error {
	m.Frame = s.frame(c, "events", "Search keys")
	var err error
	if m.Keys, err = s.listSearchKeys(c.Request().Context()); err != nil {
		return err
	}
	return render(c, status, searchKeyView(m))
}

func (s *Server) searchKeyCreate(c echo.Context) error {
	if err := parseForm(c); err != nil {
		return err
	}
	m := searchKeyModel{Type: c.FormValue("type"), Path: c.FormValue("path"), Label: c.FormValue("label"), Errors: map[string]string{}}
	key, err := s.createSearchKey(c.Request().Context(), m.Type, m.Path, m.Label)
	var wrong *jobs.InvalidError
	if errors.As(err, &wrong) {
		m.Errors[wrong.Field] = wrong.Problem
		return s.showSearchKeys(c, http.StatusUnprocessableEntity, m)
	}
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, "/search-keys", refusal)
	}
	if err != nil {
		return err
	}
	return s.done(c, "/search-keys", "Events of "+key.Type+" that come from now on are found by “"+key.Label+"”.")
}

func (s *Server) searchKeyDelete(c echo.Context) error {
	id, err := parseID(idSearchKey, c.Param("id"))
	if err != nil {
		return err
	}
	if err := s.deleteSearchKey(c.Request().Context(), id); err != nil {
		return err
	}
	return s.done(c, "/search-keys", "The key is removed. What it found so far stays searchable.")
}
