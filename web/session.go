package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode"

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
func newSessions(pool *pgxpool.Pool, queries *dbsqlc.Queries) *scs.SessionManager {
	// Not scs.New: that starts a goroutine for a store in memory, which nothing could end.
	return &scs.SessionManager{
		Store: &sessionStore{pool, queries}, HashTokenInStore: true, Codec: scs.GobCodec{}, IdleTimeout: 12 * time.Hour, Lifetime: 7 * 24 * time.Hour,
		Cookie: scs.SessionCookie{Name: "weir_session"}, // setCookie knows the rest
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
	_, values, err := scs.GobCodec{}.Decode(data)
	if err != nil {
		return fmt.Errorf("read session: %w", err)
	}
	id, _ := values[sessionOperator].(int64)
	v, _ := ctx.Value(visitKey{}).(visit)
	return s.queries.SessionUpsert(ctx, s.pool, dbsqlc.SessionUpsertParams{
		TokenHash: token, Data: data, ExpiresAt: expiry, OperatorID: orNil(id), Address: v.address, UserAgent: v.userAgent,
	})
}

func (s *sessionStore) DeleteCtx(ctx context.Context, token string) error {
	return s.queries.SessionRevokeByToken(ctx, s.pool, token)
}

// Find, Commit and Delete are what scs asks for where it has no context, which is nowhere here.
func (s *sessionStore) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

func (s *sessionStore) Commit(token string, data []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, data, expiry)
}

func (s *sessionStore) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }

// withSession loads the session before the handler and saves it when the answer begins. A fragment that refreshes itself saves nothing,
// nor does what tells it to: a page left open is no activity, so it does not keep its session alive.
func (s *Server) withSession(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		token := ""
		if cookie, err := c.Cookie(s.sessions.Cookie.Name); err == nil {
			token = cookie.Value
		}
		ctx, err := s.sessions.Load(withVisit(c), token)
		if err != nil {
			return err
		}
		ctx = context.WithValue(ctx, sessionLoaded{}, true)
		c.SetRequest(c.Request().WithContext(ctx))
		if isFragment(c) || c.Path() == livePath {
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
		s.setCookie(c, token, expiry)
	case scs.Destroyed:
		s.setCookie(c, "", time.Time{})
	case scs.Unmodified:
	}
}

// setCookie gives the browser its token, or takes it away (""). Secure where the setting says so, or the request came over https.
func (s *Server) setCookie(c echo.Context, token string, expiry time.Time) {
	cookie := &http.Cookie{ //nolint:gosec // Secure as said above
		Name: s.sessions.Cookie.Name, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: s.SecureCookies || c.Scheme() == "https",
	}
	if token == "" {
		cookie.Expires, cookie.MaxAge = time.Unix(1, 0), -1
	} else {
		cookie.Expires, cookie.MaxAge = time.Unix(expiry.Unix()+1, 0), int(time.Until(expiry).Seconds()+1)
	}
	c.SetCookie(cookie)
	c.Response().Header().Add("Cache-Control", `no-cache="Set-Cookie"`)
}

// sessionHash is how the table knows the session of this request; "" where it has none yet.
func (s *Server) sessionHash(ctx context.Context) string {
	token := s.sessions.Token(ctx)
	if token == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// visit is from where a session is used.
type visit struct{ address, userAgent string }

type visitKey struct{}

const maxUserAgent = 200

func withVisit(c echo.Context) context.Context {
	agent := strings.ToValidUTF8(c.Request().UserAgent(), "")
	agent = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, agent)
	ctx := withWho(c.Request().Context(), who{kind: actorVisitor, name: "nobody signed in", address: c.RealIP()})
	return context.WithValue(ctx, visitKey{}, visit{coarse(c.RealIP()), clip(agent, maxUserAgent)})
}

// coarse is the network that an address is in: enough to see that a session is used from elsewhere, and not where somebody lives.
func coarse(address string) string {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	addr, bits := addr.Unmap().WithZone(""), 24
	if addr.Is6() {
		bits = 48
	}
	if addr.IsLoopback() {
		return addr.String()
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return ""
	}
	return prefix.String()
}
