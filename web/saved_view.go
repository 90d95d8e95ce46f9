package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/jobs"
)

// maxViews is how many views a list shows.
const maxViews = 100

// listViews are the saved views of who is signed in, and those that are shared.
func (s *Server) listViews(c echo.Context) ([]dbsqlc.SavedViewListRow, error) {
	who, _ := c.Get(operatorKey).(operator)
	views, err := s.queries.SavedViewList(c.Request().Context(), s.Pool, who.ID)
	if err != nil {
		return nil, fmt.Errorf("list saved views: %w", err)
	}
	return views, nil
}

// viewSave keeps a filter of the deliveries under a name. The query is read and written anew, so that a view holds nothing but a filter.
func (s *Server) viewSave(c echo.Context) error {
	if err := parseForm(c); err != nil {
		return err
	}
	who, _ := c.Get(operatorKey).(operator)
	values, err := url.ParseQuery(c.FormValue("query"))
	if err != nil {
		return newProblem(http.StatusBadRequest, "This is not a filter that can be read.")
	}
	m := deliveryListModel{Query: deliveryQuery{
		State: values.Get("state"), Destination: values.Get("destination"), Lane: values.Get("lane"), Event: values.Get("event"),
		Subject: values.Get("subject"), Type: values.Get("type"), Tenant: values.Get("tenant"), Status: values.Get("status"),
		ErrorClass: values.Get("error_class"), Since: values.Get("since"), From: values.Get("from"), Until: values.Get("until"),
	}}
	_, _ = m.Query.parse(time.Now())
	here, raw := m.Query.address("/deliveries"), m.savedQuery()
	name := strings.TrimSpace(c.FormValue("name"))
	switch {
	case name == "" || utf8.RuneCountInString(name) > 60 || checkText("name", name) != nil:
		return s.refused(c, here, "The view was not saved: give it a name of at most 60 characters.")
	case raw == "":
		return s.refused(c, here, "The view was not saved: nothing is filtered.")
	case len(raw) > 2000:
		return s.refused(c, here, "The view was not saved: its filter is longer than 2,000 characters.")
	}
	views, err := s.listViews(c)
	if err != nil {
		return err
	}
	if len(views) >= maxViews {
		return s.refused(c, here, fmt.Sprintf("The view was not saved: there are %d already. Remove one first.", maxViews))
	}
	err = s.queries.SavedViewInsert(c.Request().Context(), s.Pool, dbsqlc.SavedViewInsertParams{
		OperatorID: who.ID, Shared: c.FormValue("shared") != "", Name: name, Query: raw,
	})
	if err != nil {
		return fmt.Errorf("save view: %w", err)
	}
	return s.done(c, here, "The view is saved.")
}

func (s *Server) viewDelete(c echo.Context) error {
	who, _ := c.Get(operatorKey).(operator)
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil {
		return &jobs.NotFoundError{What: "view", ID: printableID(c.Param("id"))}
	}
	if _, err := s.queries.SavedViewDelete(c.Request().Context(), s.Pool, id, who.ID); err != nil {
		return err
	}
	return s.done(c, "/deliveries", "The view is removed.")
}
