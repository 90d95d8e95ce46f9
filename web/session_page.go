package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

type personRowModel = dbsqlc.OperatorListRow

const maxSessions = 200

// session is one that can be used now.
type sessionLine struct {
	dbsqlc.SessionListLiveRow
	Current bool // the one that asks
}

func (s *Server) listSessions(ctx context.Context, owner int64) ([]sessionLine, error) {
	rows, err := s.queries.SessionListLive(ctx, s.Pool, orNil(owner), maxSessions)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	lines, here := make([]sessionLine, len(rows)), s.sessionHash(ctx)
	for i, row := range rows {
		lines[i] = sessionLine{row, row.TokenHash == here}
	}
	return lines, nil
}

// device says what a user agent names, in a few words; the whole of it is shown beside it.
func device(agent string) string {
	browser, system := "", ""
	for _, b := range [][2]string{{"Firefox/", "Firefox"}, {"Edg/", "Edge"}, {"OPR/", "Opera"}, {"HeadlessChrome/", "headless Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"}} {
		if strings.Contains(agent, b[0]) {
			browser = b[1]
			break
		}
	}
	for _, o := range [][2]string{{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"}} {
		if strings.Contains(agent, o[0]) {
			system = " on " + o[1]
			break
		}
	}
	if browser == "" {
		return "unknown program" + system
	}
	return browser + system
}

type accountModel struct {
	Frame    ui.Frame
	Role     ui.Role
	Sessions []sessionLine
	Errors   map[string]string
}

func (s *Server) accountPage(c echo.Context) error {
	return s.showAccount(c, http.StatusOK, accountModel{})
}

func (s *Server) showAccount(c echo.Context, status int, m accountModel) error {
	o := operatorOf(c)
	m.Frame, m.Role = s.frame(c, "account", "Your account"), o.Role
	var err error
	if m.Sessions, err = s.listSessions(c.Request().Context(), o.ID); err != nil {
		return err
	}
	return render(c, status, accountView(m))
}

func (s *Server) accountPassword(c echo.Context) error {
	ctx, o := c.Request().Context(), operatorOf(c)
	old, password := c.FormValue("old"), c.FormValue("password")
	m := accountModel{Errors: map[string]string{}}
	if p := validPassword(password); p != "" {
		m.Errors["password"] = p
		return s.showAccount(c, http.StatusUnprocessableEntity, m)
	}
	hash, err := s.hashPassword(ctx, password)
	if err != nil {
		return err
	}
	ok := false
	if len(old) <= 1000 {
		if ok, err = s.changePassword(ctx, o, old, hash); err != nil {
			return err
		}
	}
	if !ok {
		m.Errors["old"] = "This is not your password. After ten wrong tries in a row the account is locked for some minutes."
		return s.showAccount(c, http.StatusUnprocessableEntity, m)
	}
	// A new token: whoever has the one that the old password opened has nothing.
	if err := s.sessions.RenewToken(ctx); err != nil {
		return fmt.Errorf("renew session: %w", err)
	}
	return s.done(c, "/account", "Your password is changed, and your other sessions have ended.")
}

func (s *Server) accountSessionRevoke(c echo.Context) error {
	id, err := parseID(idSession, c.Param("id"))
	if err != nil {
		return err
	}
	if _, err := s.revokeSession(c.Request().Context(), id, operatorOf(c).ID); err != nil {
		return err
	}
	return s.done(c, "/account", "The session has ended.")
}

func (s *Server) accountSessionRevokeOthers(c echo.Context) error {
	n, err := s.revokeOtherSessions(c.Request().Context(), operatorOf(c))
	if err != nil {
		return err
	}
	return s.done(c, "/account", plural(int32(n), "other session", "other sessions")+" ended.")
}

type sessionsModel struct {
	Frame    ui.Frame
	Person   string // whose, where it is one person's page
	Sessions []sessionLine
	More     bool
	Now      time.Time
}

func (s *Server) sessionsPage(c echo.Context) error {
	m := sessionsModel{Frame: s.frame(c, "administration", "Sessions")}
	m.Now = m.Frame.Now
	owner := int64(0)
	if text := c.QueryParam("person"); text != "" {
		id, err := parseID(idPerson, text)
		if err != nil {
			return err
		}
		owner, m.Person = id, text
	}
	var err error
	if m.Sessions, err = s.listSessions(c.Request().Context(), owner); err != nil {
		return err
	}
	m.More = len(m.Sessions) == maxSessions
	return render(c, http.StatusOK, sessionsView(m))
}

func (s *Server) sessionRevoke(c echo.Context) error {
	id, err := parseID(idSession, c.Param("id"))
	if err != nil {
		return err
	}
	name, err := s.revokeSession(c.Request().Context(), id, 0)
	if err != nil {
		return err
	}
	return s.done(c, "/sessions", "A session of “"+name+"” has ended.")
}
