package web

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
)

// maxAuditExport is how many entries one file holds.
const maxAuditExport = 100_000

func (s *Server) auditExportCSV(c echo.Context) error {
	w := csv.NewWriter(c.Response())
	header := []string{"id", "at", "actor_kind", "actor", "role", "address", "action", "object_kind", "object_id", "object_name", "before", "after", "note"}
	return s.auditExport(c, "text/csv; charset=utf-8", "csv", func() error { return w.Write(header) }, func(rows []dbsqlc.Audit) error {
		for _, r := range rows {
			line := []string{
				strconv.FormatInt(r.ID, 10), r.At.UTC().Format(time.RFC3339Nano), r.ActorKind, r.Actor, r.Role, r.Address, r.Action, r.ObjectKind, r.ObjectID, r.ObjectName,
				string(r.Before), string(r.After), r.Note,
			}
			for i := range line {
				line[i] = inert(line[i])
			}
			if err := w.Write(line); err != nil {
				return err
			}
		}
		w.Flush()
		return w.Error()
	})
}

// inert keeps a spreadsheet from running what somebody typed as a formula.
func inert(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}

// AuditEntry is one line of the exported audit log.
type AuditEntry struct {
	ID         int64           `json:"id"`
	At         time.Time       `json:"at"`
	ActorKind  string          `json:"actor_kind"`
	Actor      string          `json:"actor"`
	Role       string          `json:"role"`
	Address    string          `json:"address"`
	Action     string          `json:"action"`
	ObjectKind string          `json:"object_kind"`
	ObjectID   string          `json:"object_id"`
	ObjectName string          `json:"object_name"`
	Before     json.RawMessage `json:"before"`
	After      json.RawMessage `json:"after"`
	Note       string          `json:"note"`
}

func (s *Server) auditExportNDJSON(c echo.Context) error {
	enc := json.NewEncoder(c.Response())
	return s.auditExport(c, "application/x-ndjson", "ndjson", func() error { return nil }, func(rows []dbsqlc.Audit) error {
		for _, r := range rows {
			err := enc.Encode(AuditEntry{
				r.ID, r.At.UTC(), r.ActorKind, r.Actor, r.Role, r.Address, r.Action, r.ObjectKind, r.ObjectID, r.ObjectName, r.Before, r.After, r.Note,
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// auditExport streams what the filter matches, newest first, in pages. A filter that cannot be read is an error here: a file must not hold
// other entries than were asked for. One that is broken off by an error ends without its last chunk, so that no reader takes it for whole.
func (s *Server) auditExport(c echo.Context, contentType, ending string, begin func() error, write func([]dbsqlc.Audit) error) error {
	m := auditModel{}
	if m.read(c); m.Problem != "" {
		return newProblem(http.StatusBadRequest, m.Problem)
	}
	ctx := c.Request().Context()
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, contentType)
	h.Set(echo.HeaderContentDisposition, `attachment; filename="weir-audit-`+time.Now().UTC().Format("2006-01-02")+"."+ending+`"`)
	h.Set("Cache-Control", "no-store")
	c.Response().WriteHeader(http.StatusOK)
	if err := begin(); err != nil {
		return nil //nolint:nilerr // whoever asked has gone
	}
	before := int64(firstPage)
	for written := 0; written < maxAuditExport; {
		rows, next, err := s.auditPage(ctx, m.Filter, before, 200)
		if err != nil {
			if ctx.Err() == nil {
				s.Log.ErrorContext(ctx, "audit export", "error", err)
			}
			panic(http.ErrAbortHandler)
		}
		if err := write(rows); err != nil {
			return nil //nolint:nilerr // whoever asked has gone
		}
		c.Response().Flush()
		if next == nil {
			return nil
		}
		if before, err = parseCursor(*next, firstPage); err != nil {
			return err
		}
		written += len(rows)
	}
	return nil
}
