package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

const minPassword = 12

// InviteFirstAdministrator makes a one-time link for the first administrator and returns its path; "" where there is an operator already.
// The link works once and for a day; only its hash is kept.
func (s *Server) InviteFirstAdministrator(ctx context.Context) (string, error) {
	exists, err := s.queries.OperatorExists(ctx, s.Pool)
	if err != nil || exists {
		return "", err
	}
	token := make([]byte, 32)
	_, _ = rand.Read(token) // never fails
	hash := sha256.Sum256(token)
	if err := s.queries.InvitationInsert(ctx, s.Pool, hash[:]); err != nil {
		return "", fmt.Errorf("insert invitation: %w", err)
	}
	return "/welcome?token=" + base64.RawURLEncoding.EncodeToString(token), nil
}

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

type welcomeModel struct {
	Frame       ui.Frame
	Token, Name string
	Errors      map[string]string
	Problem     string // why the link does not work; there is no form then
	HasOperator bool
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
	switch {
	case !utf8.ValidString(password) || len(password) > 1000:
		m.Errors["password"] = "Want at most 1000 characters of text."
	case utf8.RuneCountInString(password) < minPassword:
		m.Errors["password"] = fmt.Sprintf("Want at least %d characters.", minPassword)
	}
	if len(m.Errors) > 0 {
		return render(c, http.StatusUnprocessableEntity, welcomeView(m))
	}
	hash, err := s.hashPassword(ctx, password)
	if err != nil {
		return err
	}
	id, err := s.useInvitation(ctx, m.Token, m.Name, hash)
	if errors.Is(err, errInvitationUsed) {
		if err := s.checkInvitation(ctx, &m); err != nil {
			return err
		}
		return render(c, http.StatusGone, welcomeView(m))
	}
	if err != nil {
		return err
	}
	if err := s.signIn(ctx, operator{id, m.Name, ui.Administrator}); err != nil {
		return err
	}
	return s.done(c, "/", "Welcome, "+m.Name+". You are signed in.")
}

var errInvitationUsed = errors.New("invitation is used")

// useInvitation spends the link and makes the operator, both or neither.
func (s *Server) useInvitation(ctx context.Context, token, name, passwordHash string) (int64, error) {
	hash, ok := invitationHash(token)
	if !ok {
		return 0, errInvitationUsed
	}
	var id int64
	err := pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		used, err := s.queries.InvitationUse(ctx, tx, hash)
		if err != nil {
			return fmt.Errorf("use invitation: %w", err)
		}
		if used == 0 {
			return errInvitationUsed
		}
		id, err = s.queries.OperatorInsert(ctx, tx, dbsqlc.OperatorInsertParams{Name: name, PasswordHash: passwordHash, Role: ui.Administrator.String()})
		var unique *pgconn.PgError
		if errors.As(err, &unique) && unique.Code == pgerrcode.UniqueViolation {
			return errInvitationUsed // somebody came first, by another link
		}
		if err != nil {
			return fmt.Errorf("insert operator: %w", err)
		}
		made := operator{id, name, ui.Administrator}
		return s.audit(made.asWho(ctx), tx, auditEntry{action: "person.create", object: made.object(), after: facts{"role": made.Role.String()}})
	})
	return id, err
}

// checkInvitation says in m what is wrong with its link, if anything is.
func (s *Server) checkInvitation(ctx context.Context, m *welcomeModel) error {
	var err error
	if m.HasOperator, err = s.queries.OperatorExists(ctx, s.Pool); err != nil {
		return err
	}
	m.Problem = "This link is not complete, or not one of this installation."
	hash, ok := invitationHash(m.Token)
	if !ok {
		return nil
	}
	found, err := s.queries.InvitationGet(ctx, s.Pool, hash)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	case found.Used:
		m.Problem = "This link has been used. It works only once."
	case found.Expired:
		m.Problem = "This link has expired. It works for 24 hours."
	case m.HasOperator:
		m.Problem = "There is an administrator already, so this link does nothing any more."
	default:
		m.Problem = ""
	}
	return nil
}

func invitationHash(token string) ([]byte, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) != 32 {
		return nil, false
	}
	hash := sha256.Sum256(raw)
	return hash[:], true
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
