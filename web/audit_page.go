package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

const auditPageSize = 50

// auditFilter is what can be asked of the log; empty fields ask nothing.
type auditFilter struct {
	Actor, Action, Object string
	Since, Until          *time.Time
}

func (f auditFilter) empty() bool { return f == auditFilter{} }

// auditPage is one page of the log, newest first, at most limit entries.
func (s *Server) auditPage(ctx context.Context, f auditFilter, before int64, limit int) ([]dbsqlc.Audit, *string, error) {
	filtered := f.Actor != "" || f.Action != "" || f.Since != nil || f.Until != nil
	ids, next, err := scanPage(before, limit, filtered, func(before int64, stretch, limit int32) (scanned, error) {
		if f.Object != "" {
			row, err := s.queries.AuditPageByObject(ctx, s.Pool, dbsqlc.AuditPageByObjectParams{
				ObjectID: f.Object, Actor: orNil(f.Actor), Action: orNil(f.Action), Since: f.Since, Until: f.Until, Before: before, Stretch: stretch, Max: limit,
			})
			return scanned(row), err
		}
		row, err := s.queries.AuditPage(ctx, s.Pool, dbsqlc.AuditPageParams{
			Actor: orNil(f.Actor), Action: orNil(f.Action), Since: f.Since, Until: f.Until, Before: before, Stretch: stretch, Max: limit,
		})
		return scanned(row), err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the audit log: %w", err)
	}
	rows, err := s.queries.AuditList(ctx, s.Pool, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("read the audit log: %w", err)
	}
	return rows, next, nil
}

// destinationHistory is what was last done to a destination, for its page.
func (s *Server) destinationHistory(ctx context.Context, id int64, limit int32) ([]auditLineView, error) {
	rows, err := s.queries.AuditListByObject(ctx, s.Pool, formatID(idDestination, id), limit)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return auditLines(rows)
}

func auditLines(rows []dbsqlc.Audit) ([]auditLineView, error) {
	lines := make([]auditLineView, len(rows))
	for i, row := range rows {
		var err error
		if lines[i], err = auditLineOf(row); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

type auditModel struct {
	Frame        ui.Frame
	Now          time.Time
	Lines        []auditLineView
	Filter       auditFilter
	Since, Until string // as they were sent
	Problem      string
	Newer, Older string
	CSV, NDJSON  string
}

func (m *auditModel) address(path, cursor string, trail []string) string {
	return query(path, "actor", m.Filter.Actor, "action", m.Filter.Action, "object", m.Filter.Object, "since", m.Since, "until", m.Until,
		"cursor", cursor, "back", strings.Join(trail, "."))
}

func (m *auditModel) actions() []ui.Option {
	for _, o := range auditGroups {
		if o.Value == m.Filter.Action {
			return auditGroups
		}
	}
	return append([]ui.Option{{Value: m.Filter.Action, Label: m.Filter.Action}}, auditGroups...)
}

func (s *Server) auditListPage(c echo.Context) error {
	m := auditModel{Frame: s.frame(c, "administration", "Audit log")}
	m.Now = m.Frame.Now
	m.read(c)
	cursor := c.QueryParam("cursor")
	before, err := parseCursor(cursor, firstPage)
	if err != nil {
		m.Problem, cursor, before = "The place in the list is not known, so this is its beginning.", "", firstPage
	}
	rows, next, err := s.auditPage(c.Request().Context(), m.Filter, before, auditPageSize)
	if err != nil {
		return err
	}
	if m.Lines, err = auditLines(rows); err != nil {
		return err
	}
	trail := trailOf(c.QueryParam("back"))
	if last := len(trail) - 1; cursor != "" && last >= 0 {
		m.Newer = m.address("/audit", trail[last], trail[:last])
	} else if cursor != "" {
		m.Newer = m.address("/audit", "", nil)
	}
	if next != nil {
		if cursor != "" {
			trail = append(trail, cursor)
		}
		m.Older = m.address("/audit", *next, trail)
	}
	m.CSV, m.NDJSON = m.address("/audit/export.csv", "", nil), m.address("/audit/export.ndjson", "", nil)
	return render(c, http.StatusOK, auditView(m))
}

// read takes what can be read of the filter; the rest is cleared, and said.
func (m *auditModel) read(c echo.Context) {
	problems := []string{}
	for _, field := range []struct {
		name string
		into *string
	}{{"actor", &m.Filter.Actor}, {"action", &m.Filter.Action}, {"object", &m.Filter.Object}} {
		value := strings.TrimSpace(c.QueryParam(field.name))
		if checkText(field.name, value) != nil || len(value) > 400 {
			problems = append(problems, "The "+field.name+" is not one that there can be.")
			continue
		}
		*field.into = value
	}
	for _, field := range []struct {
		name string
		text *string
		into **time.Time
	}{{"since", &m.Since, &m.Filter.Since}, {"until", &m.Until, &m.Filter.Until}} {
		value := strings.TrimSpace(c.QueryParam(field.name))
		if value == "" {
			continue
		}
		at, ok := parseMoment(value)
		if !ok {
			problems = append(problems, "“"+field.name+"” wants a time such as 2026-01-31 14:00.")
			continue
		}
		*field.text, *field.into = at.Format("2006-01-02T15:04"), &at
	}
	m.Problem = strings.Join(problems, " ")
}

// parseMoment reads a time in UTC, as a browser's field or a person writes it.
func parseMoment(text string) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02", time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), at.Year() > 1970 && at.Year() < 10000
		}
	}
	return time.Time{}, false
}
