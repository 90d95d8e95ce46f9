package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db"
)

// healthz: the process is up and its database answers.
func (s *Server) healthz(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), time.Second)
	defer cancel()
	if err := s.Pool.Ping(ctx); err != nil {
		s.Log.WarnContext(c.Request().Context(), "health check", "error", err)
		return c.JSON(http.StatusServiceUnavailable, map[string]string{"status": "the database does not answer"})
	}
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

// readyz: the schema is this program's, or newer.
func (s *Server) readyz(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), time.Second)
	defer cancel()
	files, err := db.Migrations.ReadDir("migrations")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	number, _, _ := strings.Cut(files[len(files)-1].Name(), "_")
	want, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return fmt.Errorf("read the last migration's number: %w", err)
	}
	var applied bool
	// goose's own table, which no query file knows.
	const query = "SELECT coalesce(max(version_id), 0) >= $1::bigint FROM schema_migration WHERE is_applied"
	if err := s.Pool.QueryRow(ctx, query, want).Scan(&applied); err != nil || !applied {
		return c.JSON(http.StatusServiceUnavailable, map[string]string{"status": "migrations are missing: run weir migrate"})
	}
	if s.Engine == nil {
		return c.JSON(http.StatusServiceUnavailable, map[string]string{"status": "the engine has not started"})
	}
	return c.JSON(http.StatusOK, map[string]string{"status": "ready"})
}
