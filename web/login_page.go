package web

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"weir/web/ui"
)

type loginModel struct {
	Frame      ui.Frame
	Name, Next string
	Error      string
	First      bool // nobody can sign in yet
}

func (s *Server) loginPage(c echo.Context) error {
	next := localPath(c.QueryParam("next"), c.Request().Host)
	if _, ok := c.Get(operatorKey).(operator); ok {
		return c.Redirect(http.StatusSeeOther, next)
	}
	exists, err := s.queries.OperatorExists(c.Request().Context(), s.Pool)
	if err != nil {
		return err
	}
	frame := s.frame(c, "", "Sign in")
	return render(c, http.StatusOK, loginView(loginModel{Frame: frame, Next: next, Error: frame.Warning, First: !exists}))
}

func (s *Server) login(c echo.Context) error {
	m := loginModel{Frame: s.frame(c, "", "Sign in"), Name: strings.TrimSpace(c.FormValue("name")), Next: localPath(c.FormValue("next"), c.Request().Host)}
	ctx := c.Request().Context()
	password := c.FormValue("password")
	ok := false
	var who operator
	if validName(m.Name) == "" && len(password) <= 1000 {
		var err error
		if who, ok, err = s.authenticate(ctx, m.Name, password); err != nil {
			return err
		}
	}
	if !ok {
		if err := s.signInFailed(ctx, m.Name); err != nil {
			return err
		}
		m.Error = "The name and the password do not match. After ten wrong tries in a row an account is locked for some minutes."
		return render(c, http.StatusUnprocessableEntity, loginView(m))
	}
	if err := s.signIn(ctx, who); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, m.Next)
}

func (s *Server) logout(c echo.Context) error {
	ctx := c.Request().Context()
	if o, ok := c.Get(operatorKey).(operator); ok {
		if err := s.audit(ctx, s.Pool, auditEntry{action: "sign_out", object: o.object()}); err != nil {
			return err
		}
	}
	if err := s.sessions.Destroy(ctx); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/login")
}

// validName says what is wrong with an operator's name, or nothing.
func validName(name string) string {
	switch {
	case name == "":
		return "Give the name you want to sign in with."
	case !utf8.ValidString(name) || utf8.RuneCountInString(name) > 100 || ui.Plain(name) != name:
		return "Want at most 100 visible characters."
	}
	return ""
}

type errorModel struct {
	Frame         ui.Frame
	Status        int
	Title, Detail string
	RequestID     string
}

// errorPage is what a person sees in place of a page.
func (s *Server) errorPage(c echo.Context, status int, title, detail string) error {
	m := errorModel{Frame: s.frame(c, "", title), Status: status, Title: title, Detail: detail}
	if status >= http.StatusInternalServerError {
		m.RequestID = c.Response().Header().Get(echo.HeaderXRequestID)
	}
	return render(c, status, errorView(m))
}

// query is an address with parameters; empty ones are left out.
func query(path string, pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}
