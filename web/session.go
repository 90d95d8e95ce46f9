package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
)

const (
	sessionOperator = "operator" // the id of who is signed in
	sessionNotice   = "notice"   // shown once, on the next page
	sessionWarning  = "warning"
)

// newSessions keeps sessions in the database, under the hash of their token: whoever reads the table cannot use one. A session ends after
// 12 hours without a page, and after 7 days in any case.
func newSessions(pool *pgxpool.Pool, queries *dbsqlc.Queries, secure bool) *scs.SessionManager {
	// Not scs.New: that starts a goroutine for a store in memory, which nothing could end.
	return &scs.SessionManager{
		Store: &sessionStore{pool, queries}, HashTokenInStore: true, Codec: scs.GobCodec{}, IdleTimeout: 12 * time.Hour, Lifetime: 7 * 24 * time.Hour,
		Cookie: scs.SessionCookie{Name: "weir_session", Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode, Persist: true},
	}
}

type sessionStore struct {
	pool    *pgxpool.Pool
	queries *dbsqlc.Queries
}

var _ scs.CtxStore = (*sessionStore)(nil)

func (s *sessionStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	data, err := s.queries.SessionGet(ctx, s.pool, token)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	return data, err == nil, err
}

func (s *sessionStore) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	return s.queries.SessionUpsert(ctx, s.pool, dbsqlc.SessionUpsertParams{TokenHash: token, Data: data, ExpiresAt: expiry})
}

func (s *sessionStore) DeleteCtx(ctx context.Context, token string) error {
	return s.queries.SessionDelete(ctx, s.pool, token)
}

// Find, Commit and Delete are what scs asks for where it has no context, which is nowhere here.
func (s *sessionStore) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

func (s *sessionStore) Commit(token string, data []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, data, expiry)
}

func (s *sessionStore) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }

// withSession loads the session before the handler and saves it when the answer begins. A fragment that refreshes itself saves nothing:
// a page left open is no activity, so it does not keep its session alive.
func (s *Server) withSession(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		token := ""
		if cookie, err := c.Cookie(s.sessions.Cookie.Name); err == nil {
			token = cookie.Value
		}
		ctx, err := s.sessions.Load(c.Request().Context(), token)
		if err != nil {
			return err
		}
		ctx = context.WithValue(ctx, sessionLoaded{}, true)
		c.SetRequest(c.Request().WithContext(ctx))
		if isFragment(c) {
			return next(c)
		}
		c.Response().Before(func() { s.saveSession(ctx, c) })
		return next(c)
	}
}

func (s *Server) saveSession(ctx context.Context, c echo.Context) {
	switch s.sessions.Status(ctx) {
	case scs.Modified:
		// A visitor without anything to remember needs no row.
		if len(s.sessions.Keys(ctx)) == 0 {
			return
		}
		token, expiry, err := s.sessions.Commit(context.WithoutCancel(ctx))
		if err != nil {
			s.Log.ErrorContext(ctx, "session not saved", "error", err)
			return
		}
		s.sessions.WriteSessionCookie(ctx, c.Response(), token, expiry)
	case scs.Destroyed:
		s.sessions.WriteSessionCookie(ctx, c.Response(), "", time.Time{})
	case scs.Unmodified:
	}
}
