// Package web is what people and API callers see: the JSON API and the admin panel, flat, by noun.
package web

import (
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"

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
}

// Server is the HTTP face of Weir. Make it with New.
type Server struct {
	Options
	queries *dbsqlc.Queries
	echo    *echo.Echo
}

// New builds the server: middleware in order, then every route.
func New(o Options) (*Server, error) {
	s := &Server{Options: o, queries: dbsqlc.New(), echo: echo.New()}
	return s, nil
}

// Handler serves everything.
func (s *Server) Handler() http.Handler { return s.echo }
