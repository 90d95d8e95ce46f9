package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/web/ui"
)

const peoplePageSize = 100

type peopleModel struct {
	Frame  ui.Frame
	Self   int64 // who looks
	People []dbsqlc.OperatorListRow
	Open   []dbsqlc.InvitationListOpenRow
	Next   string
	First  string

	Note, Role, Hours string // the form, as it was sent
	Errors            map[string]string
	Made              string // a link, shown once
	MadeFor           string
	MadeUntil         time.Time
}

func newPeopleModel() peopleModel {
	return peopleModel{Role: ui.Operator.String(), Hours: "24", Errors: map[string]string{}}
}

func (s *Server) peoplePage(c echo.Context) error {
	return s.showPeople(c, http.StatusOK, newPeopleModel())
}

func (s *Server) showPeople(c echo.Context, status int, m peopleModel) error {
	ctx := c.Request().Context()
	m.Frame, m.Self = s.frame(c, "administration", "People"), operatorOf(c).ID
	after := c.QueryParam("after")
	if checkText("after", after) != nil || len(after) > 1000 {
		after = ""
	}
	gone := c.QueryParam("gone") == "1"
	var err error
	m.People, err = s.queries.OperatorList(ctx, s.Pool, dbsqlc.OperatorListParams{AfterDeactivated: gone, AfterName: after, Max: peoplePageSize + 1})
	if err != nil {
		return fmt.Errorf("list people: %w", err)
	}
	if after != "" {
		m.First = "/people"
	}
	if len(m.People) > peoplePageSize {
		m.People = m.People[:peoplePageSize]
		last := m.People[peoplePageSize-1]
		flag := ""
		if last.DeactivatedAt != nil {
			flag = "1"
		}
		m.Next = query("/people", "after", last.Name, "gone", flag)
	}
	if m.Open, err = s.queries.InvitationListOpen(ctx, s.Pool, maxOpenLinks); err != nil {
		return fmt.Errorf("list invitations: %w", err)
	}
	return render(c, status, peopleView(m))
}

// peopleInvite answers with the page itself: the link is shown here and never again, so it must not wait in a session for a redirect.
func (s *Server) peopleInvite(c echo.Context) error {
	m := newPeopleModel()
	m.Note, m.Role, m.Hours = strings.TrimSpace(c.FormValue("note")), c.FormValue("role"), c.FormValue("hours")
	ctx := c.Request().Context()
	hours, err := strconv.Atoi(m.Hours)
	if err != nil {
		hours = 0
	}
	path, until, err := Invite(ctx, s.Pool, m.Role, m.Note, hours)
	var wrong *jobs.InvalidError
	if errors.As(err, &wrong) {
		m.Errors[wrong.Field] = capital(wrong.Problem)
		return s.showPeople(c, http.StatusUnprocessableEntity, m)
	}
	if err != nil {
		return err
	}
	made := newPeopleModel()
	made.Made, made.MadeUntil, made.MadeFor = baseURL(c)+path, until, m.Role
	if m.Note != "" {
		made.MadeFor = m.Note + ", as " + m.Role
	}
	return s.showPeople(c, http.StatusOK, made)
}

func (s *Server) personPasswordLink(c echo.Context) error {
	id, err := parseID(idPerson, c.Param("id"))
	if err != nil {
		return err
	}
	name, link, err := s.passwordLink(c.Request().Context(), id)
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, "/people", refusal)
	}
	if err != nil {
		return err
	}
	m := newPeopleModel()
	m.Made, m.MadeUntil, m.MadeFor = baseURL(c)+link.Path, link.ExpiresAt, name+", to choose a new password"
	return s.showPeople(c, http.StatusOK, m)
}

func (s *Server) personRole(c echo.Context) error {
	return s.personAction(c, func(id int64) (string, error) {
		role, ok := ui.ParseRole(c.FormValue("role"))
		if !ok {
			return "", invalid("role", "want viewer, operator or administrator")
		}
		name, err := s.setRole(c.Request().Context(), id, role)
		return "“" + name + "” is " + role.String() + " from now on.", err
	})
}

func (s *Server) personDeactivate(c echo.Context) error {
	return s.personAction(c, func(id int64) (string, error) {
		name, err := s.setActive(c.Request().Context(), id, false)
		return "“" + name + "” is signed out everywhere, and cannot sign in.", err
	})
}

func (s *Server) personReactivate(c echo.Context) error {
	return s.personAction(c, func(id int64) (string, error) {
		name, err := s.setActive(c.Request().Context(), id, true)
		return "“" + name + "” can sign in again, with the password and the role they had.", err
	})
}

func (s *Server) personAction(c echo.Context, act func(id int64) (string, error)) error {
	id, err := parseID(idPerson, c.Param("id"))
	if err != nil {
		return err
	}
	notice, err := act(id)
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, "/people", refusal)
	}
	if err != nil {
		return err
	}
	return s.done(c, "/people", notice)
}

func (s *Server) invitationRevoke(c echo.Context) error {
	id, err := parseID(idInvitation, c.Param("id"))
	if err != nil {
		return err
	}
	err = s.revokeInvitation(c.Request().Context(), id)
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, "/people", refusal)
	}
	if err != nil {
		return err
	}
	return s.done(c, "/people", "The link is withdrawn: it does not work any more.")
}

// operatorOf is who is signed in; every route but the open ones has somebody.
func operatorOf(c echo.Context) operator {
	o, _ := c.Get(operatorKey).(operator)
	return o
}
