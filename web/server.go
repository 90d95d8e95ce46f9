// Package web is what people and API callers see: the JSON API and the admin panel, flat, by noun.
package web

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"golang.org/x/time/rate"

	"weir/db"
	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/jobs/webhook"
)

// Options are what the server needs; all are required unless said otherwise.
type Options struct {
	Pool      *pgxpool.Pool
	Engine    *jobs.Engine
	Keyring   *db.Keyring
	Guard     webhook.Guard
	Log       *slog.Logger
	BodyLimit int    // of a payload in bytes; 0: 256 KiB
	Version   string // of the program, for the foot of the page
	// SecureCookies marks the session cookie Secure: true behind TLS.
	SecureCookies bool
	// TrustedProxies may say with X-Forwarded-For and X-Forwarded-Proto for whom they ask, and how; from elsewhere both are ignored.
	TrustedProxies []netip.Prefix
	// AuditDays is how long the audit log is kept, 30 at least; 0: for good.
	AuditDays int
	// Settings and KeySource are for the page of settings: what the process runs with, and where its keys come from. Never a secret.
	Settings  []Setting
	KeySource string
}

// Server is the HTTP face of Weir. Make it with New.
type Server struct {
	Options
	queries  *dbsqlc.Queries
	echo     *echo.Echo
	sessions *scs.SessionManager
	river    *riverUI
	feed     *feed
	tokens   tokenLookup
	hashing  chan struct{} // places for password hashes, each of which takes 19 MiB
	failures *rate.Limiter // of failed sign-ins in the audit log

	// renderErrorPage answers a person with a page where handleError would answer a program with a problem.
	renderErrorPage func(c echo.Context, status int, title, detail string) error
}

// New builds the server: middleware in order, then every route.
func New(o Options) (*Server, error) {
	if o.BodyLimit == 0 {
		o.BodyLimit = jobs.MaxPayload
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{Options: o, queries: dbsqlc.New(), echo: echo.New(), hashing: make(chan struct{}, 2), failures: rate.NewLimiter(1, 100)}
	s.sessions = newSessions(o.Pool, s.queries)
	s.tokens.read = func(ctx context.Context, hashes [][]byte) ([]dbsqlc.APITokenListByHashRow, error) {
		return s.queries.APITokenListByHash(ctx, s.Pool, hashes)
	}
	s.renderErrorPage = s.errorPage
	s.feed = newFeed(o.Pool, s.queries, o.Log)
	var err error
	if s.river, err = newRiverUI(o.Pool, o.Log); err != nil {
		return nil, err
	}

	e := s.echo
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.handleError
	// A header that anybody can write must not choose whom the limits count: it takes a proxy that is trusted.
	trusted := trustOptions(o.TrustedProxies)
	e.IPExtractor, e.SchemeExtractor = echo.ExtractIPFromXFFHeader(trusted...), echo.ExtractSchemeFromHeaders(trusted...)
	e.Use(
		middleware.RequestIDWithConfig(middleware.RequestIDConfig{TargetHeader: echo.HeaderXRequestID}),
		s.logRequest(),
		middleware.RecoverWithConfig(middleware.RecoverConfig{DisableStackAll: true, LogErrorFunc: s.logPanic}),
		secureHeaders,
	)
	s.mountAPI(e)
	s.mountPanel(e)
	return s, nil
}

// Handler serves everything.
func (s *Server) Handler() http.Handler { return s.echo }

// CloseStreams ends what a graceful shutdown would wait for in vain: the streams of open pages, which come back by themselves.
func (s *Server) CloseStreams() { s.feed.close() }

// discoveryInterval is how often discovery is meant to run, so that a page can say when it does not.
func (s *Server) discoveryInterval() time.Duration {
	if s.Engine == nil || s.Engine.DiscoveryInterval == 0 {
		return 10 * time.Second
	}
	return s.Engine.DiscoveryInterval
}

// Maintain removes what has run out: sessions and old invitations. Call it now and then; an hour is often enough.
func (s *Server) Maintain(ctx context.Context) error {
	if err := s.queries.SessionDeleteExpired(ctx, s.Pool); err != nil {
		return err
	}
	if err := s.queries.InvitationDeleteExpired(ctx, s.Pool); err != nil {
		return err
	}
	return s.pruneAudit(ctx)
}

// pruneAudit removes entries that are too old, in pages, at most a hundred of them at a time.
func (s *Server) pruneAudit(ctx context.Context) error {
	if s.AuditDays == 0 {
		return nil
	}
	const page = 10_000
	for range 100 {
		gone, err := s.queries.AuditPrune(ctx, s.Pool, int32(s.AuditDays), page)
		if err != nil {
			return fmt.Errorf("prune the audit log: %w", err)
		}
		if gone < page {
			return nil
		}
	}
	return nil
}

func trustOptions(networks []netip.Prefix) []echo.TrustOption {
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, n := range networks {
		options = append(options, echo.TrustIPRange(&net.IPNet{IP: n.Addr().AsSlice(), Mask: net.CIDRMask(n.Bits(), n.Addr().BitLen())}))
	}
	return options
}

// secureHeaders allow a page what ours need and nothing else: no inline script or style, no other origin, no frame.
func secureHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
			"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		return next(c)
	}
}

// logRequest writes one line per request, without query string and body: both carry other people's data, and a link's token.
func (s *Server) logRequest() echo.MiddlewareFunc {
	return middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
		HandleError: true, LogStatus: true, LogMethod: true, LogRoutePath: true, LogLatency: true, LogRequestID: true, LogRemoteIP: true,
		LogValuesFunc: func(c echo.Context, v middleware.RequestLoggerValues) error {
			level := slog.LevelInfo
			switch {
			case v.Status >= 500:
				level = slog.LevelError
			case v.RoutePath == "/api/v1/events" && v.Status < 400: // the hot path: thousands a second
				level = slog.LevelDebug
			case c.Request().Header.Get(fragmentHeader) != "" || v.RoutePath == livePath || v.RoutePath == "/static/*" || v.RoutePath == "/healthz" || v.RoutePath == "/readyz":
				level = slog.LevelDebug
			}
			s.Log.LogAttrs(c.Request().Context(), level, "request",
				slog.String("method", v.Method), slog.String("route", v.RoutePath), slog.Int("status", v.Status),
				slog.Duration("took", v.Latency), slog.String("request_id", v.RequestID), slog.String("remote", v.RemoteIP))
			return nil
		},
	})
}

// logPanic writes one line with the stack of the handler, and returns an answer that names the line. The panic's text is dropped: it could
// quote a payload, which its type and the stack cannot.
func (s *Server) logPanic(c echo.Context, err error, stack []byte) error {
	id := newErrorID()
	s.Log.LogAttrs(c.Request().Context(), slog.LevelError, "panic in a handler", slog.String("error_id", id), slog.String("route", c.Path()),
		slog.String("request_id", c.Response().Header().Get(echo.HeaderXRequestID)), slog.String("type", fmt.Sprintf("%T", err)),
		slog.String("stack", string(stack)))
	return ourFault(id)
}
