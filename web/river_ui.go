package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"riverqueue.com/riverui"
)

// riverPath is where River UI is.
const riverPath = "/river"

// riverIdle is how long after the last request River UI goes on to count jobs: it counts the whole table every ten seconds.
const riverIdle = 5 * time.Minute

// riverUI is River's own view of the jobs, for administrators. What is done there is asked of River alone; the reconciler brings the ledger
// along. It works in the background only while somebody looks.
type riverUI struct {
	client *river.Client[pgx.Tx]
	log    *slog.Logger

	mu      sync.Mutex
	base    context.Context //nolint:containedctx // the server's life, which outlasts a request
	handler *riverui.Handler
	stop    context.CancelFunc
	idle    *time.Timer
}

func newRiverUI(pool *pgxpool.Pool, log *slog.Logger) (*riverUI, error) {
	// Without queues and workers: it asks, others work.
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("make river client: %w", err)
	}
	return &riverUI{client: client, log: log}, nil
}

// Start lets what works in the background do so until ctx ends. Without it, everything still answers.
func (s *Server) Start(ctx context.Context) {
	s.river.mu.Lock()
	defer s.river.mu.Unlock()
	s.river.base = ctx
}

// serving returns the handler, made and started where nobody has looked for a while.
func (u *riverUI) serving() (http.Handler, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.handler != nil && (u.base == nil || u.base.Err() == nil) {
		if u.idle != nil {
			u.idle.Reset(riverIdle)
		}
		return u.handler, nil
	}
	handler, err := riverui.NewHandler(&riverui.HandlerOpts{
		Endpoints: riverui.NewEndpoints(u.client, nil), Logger: u.log, Prefix: riverPath,
	})
	if err != nil {
		return nil, fmt.Errorf("make river ui: %w", err)
	}
	if u.base != nil && u.base.Err() == nil {
		ctx, cancel := context.WithCancel(u.base)
		if err := handler.Start(ctx); err != nil {
			cancel()
			return nil, fmt.Errorf("start river ui: %w", err)
		}
		idle := time.AfterFunc(riverIdle, u.rest)
		u.stop, u.idle = cancel, idle
		context.AfterFunc(ctx, func() { idle.Stop() })
	}
	u.handler = handler
	return handler, nil
}

// rest stops what works in the background; the next request starts it anew.
func (u *riverUI) rest() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stop()
	u.handler = nil
}

// riverPage hands a request to River UI. What changes something is in the audit log before it is done: River's part has its own
// transaction, and an entry for something that then failed is better than none for something that was done.
func (s *Server) riverPage(c echo.Context) error {
	handler, err := s.river.serving()
	if err != nil {
		return err
	}
	if method := c.Request().Method; method != http.MethodGet && method != http.MethodHead {
		if err := s.auditRiver(c); err != nil {
			return err
		}
	}
	// Its styles are set on elements by script; everything still comes from here.
	c.Response().Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "+
		"font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	handler.ServeHTTP(c.Response(), c.Request())
	return nil
}

// auditRiver records what River UI is asked to do: jobs by their ids, a queue by its name.
func (s *Server) auditRiver(c echo.Context) error {
	r := c.Request()
	body, err := io.ReadAll(r.Body) // the panel's limit holds
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	e, ok := riverEntry(strings.Split(strings.TrimPrefix(r.URL.Path, riverPath+"/api/"), "/"), body)
	if !ok {
		return nil // no such call: River UI says so
	}
	return s.audit(r.Context(), s.Pool, e)
}

func riverEntry(parts []string, body []byte) (auditEntry, bool) {
	switch {
	case len(parts) == 2 && parts[0] == "jobs":
		var asked struct {
			IDs []json.Number `json:"ids"`
		}
		if json.Unmarshal(body, &asked) != nil || len(asked.IDs) == 0 {
			return auditEntry{}, false
		}
		ids := make([]string, 0, 20)
		for _, id := range asked.IDs[:min(len(asked.IDs), cap(ids))] {
			ids = append(ids, clip(id.String(), 20))
		}
		note := fmt.Sprintf("asked of River for %d: %s", len(asked.IDs), strings.Join(ids, ", "))
		if len(asked.IDs) > len(ids) {
			note += ", …"
		}
		return auditEntry{action: "job." + clip(parts[1], 20), object: auditObject{kind: "job", id: ids[0]}, note: note}, true
	case len(parts) >= 2 && parts[0] == "queues":
		verb := "update"
		if len(parts) == 3 {
			verb = clip(parts[2], 20)
		}
		return auditEntry{action: "queue." + verb, object: auditObject{kind: "queue", id: clip(parts[1], 100)}, note: "asked of River"}, true
	}
	return auditEntry{}, false
}
