package web

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"weir/jobs"
	"weir/web/ui"
)

type tokenModel struct {
	Frame   ui.Frame
	Tokens  []Token
	More    bool
	Name    string
	Scopes  map[string]bool
	Days    string // until it expires; empty: never
	Errors  map[string]string
	Made    string // the new token's text, shown once
	MadeFor string
	BaseURL string
}

const maxTokens = 200

func (s *Server) tokenPage(c echo.Context) error {
	return s.showTokens(c, http.StatusOK, tokenModel{Scopes: map[string]bool{ScopePublish: true}})
}

func (s *Server) showTokens(c echo.Context, status int, m tokenModel) error {
	m.Frame, m.BaseURL = s.frame(c, "administration", "API tokens"), baseURL(c)
	var err error
	if m.Tokens, err = s.listTokens(c.Request().Context(), 0, maxTokens); err != nil {
		return err
	}
	m.More = len(m.Tokens) == maxTokens
	return render(c, status, tokenView(m))
}

// tokenCreate answers with the page itself: the text is shown here and never again, so it must not wait in a session for a redirect.
func (s *Server) tokenCreate(c echo.Context) error {
	if err := parseForm(c); err != nil {
		return err
	}
	m := tokenModel{Name: c.FormValue("name"), Days: c.FormValue("days"), Scopes: map[string]bool{}, Errors: map[string]string{}}
	wanted := c.Request().PostForm["scopes"]
	for _, scope := range wanted {
		m.Scopes[scope] = true
	}
	var expires *time.Time
	if m.Days != "" {
		days, err := strconv.ParseUint(m.Days, 10, 16)
		if err != nil {
			return invalid("days", "want a number of days, or nothing for never")
		}
		expires = orNil(time.Now().Add(time.Duration(days) * 24 * time.Hour).UTC())
	}
	made, token, err := createToken(c.Request().Context(), s.Pool, m.Name, wanted, expires)
	var invalid *jobs.InvalidError
	if errors.As(err, &invalid) {
		field, _, _ := strings.Cut(invalid.Field, "[")
		m.Errors[field] = invalid.Problem
		return s.showTokens(c, http.StatusUnprocessableEntity, m)
	}
	if err != nil {
		return err
	}
	return s.showTokens(c, http.StatusOK, tokenModel{Made: made, MadeFor: token.Name, Scopes: map[string]bool{ScopePublish: true}})
}

func (s *Server) tokenRevoke(c echo.Context) error {
	id, err := parseID(idToken, c.Param("id"))
	if err != nil {
		return err
	}
	if err := s.revokeToken(c.Request().Context(), id); err != nil {
		return err
	}
	return s.done(c, "/tokens", "The token is revoked: it is refused from now on.")
}

// parseForm reads a form's fields, with an error for what is not one.
func parseForm(c echo.Context) error {
	err := c.Request().ParseForm()
	var known *Problem
	var fromEcho *echo.HTTPError
	var tooLarge *http.MaxBytesError
	if err == nil || errors.As(err, &known) || errors.As(err, &fromEcho) || errors.As(err, &tooLarge) {
		return err
	}
	return newProblem(http.StatusBadRequest, "This is not a form that can be read.")
}
