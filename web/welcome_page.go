package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"weir/web/ui"
)

const minPassword = 12

type welcomeModel struct {
	Frame       ui.Frame
	Token, Name string
	Errors      map[string]string
	Problem     string // why the link does not work; there is no form then
	HasOperator bool
	First       bool // the link makes the first administrator
	Role        ui.Role
	By          string // who made the link
	NewPassword bool   // the link changes the password of Name
}

func (s *Server) welcomePage(c echo.Context) error {
	m := welcomeModel{Frame: s.frame(c, "", "Welcome"), Token: c.QueryParam("token")}
	if err := s.checkInvitation(c.Request().Context(), &m); err != nil {
		return err
	}
	status := http.StatusOK
	if m.Problem != "" {
		status = http.StatusGone
	}
	// The token is in the address: it must not travel on.
	c.Response().Header().Set("Referrer-Policy", "no-referrer")
	return render(c, status, welcomeView(m))
}

func (s *Server) welcome(c echo.Context) error {
	m := welcomeModel{
		Frame: s.frame(c, "", "Welcome"), Token: c.FormValue("token"), Name: strings.TrimSpace(c.FormValue("name")), Errors: map[string]string{},
	}
	ctx := c.Request().Context()
	if err := s.checkInvitation(ctx, &m); err != nil {
		return err
	}
	if m.Problem != "" {
		return render(c, http.StatusGone, welcomeView(m))
	}
	password := c.FormValue("password")
	if p := validName(m.Name); p != "" {
		m.Errors["name"] = p
	}
	if p := validPassword(password); p != "" {
		m.Errors["password"] = p
	}
	if len(m.Errors) > 0 {
		return render(c, http.StatusUnprocessableEntity, welcomeView(m))
	}
	hash, err := s.hashPassword(ctx, password)
	if err != nil {
		return err
	}
	made, err := s.useInvitation(ctx, m.Token, m.Name, hash)
	switch {
	case errors.Is(err, errNameTaken):
		m.Errors["name"] = "Somebody has this name already. Take another one."
		return render(c, http.StatusUnprocessableEntity, welcomeView(m))
	case errors.Is(err, errInvitationUsed):
		if err := s.checkInvitation(ctx, &m); err != nil {
			return err
		}
		return render(c, http.StatusGone, welcomeView(m))
	case err != nil:
		return err
	}
	if err := s.signIn(ctx, made); err != nil {
		return err
	}
	return s.done(c, "/", "Welcome, "+made.Name+". You are signed in.")
}

// validPassword says what is wrong with a new password, or nothing.
func validPassword(password string) string {
	switch {
	case !utf8.ValidString(password) || len(password) > 1000:
		return "Want at most 1000 characters of text."
	case utf8.RuneCountInString(password) < minPassword:
		return fmt.Sprintf("Want at least %d characters.", minPassword)
	}
	return ""
}
