package web

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

// Setting is one setting of the process that answers, as the settings page shows it. A secret's value is never in it: Value then says only
// whether there is one.
type Setting struct {
	Name  string // of the environment variable
	Value string
	Set   bool // by somebody; false: the default holds
	Doc   string
}

type keyLine struct {
	ID      string
	First   bool // seals what is new
	Known   bool // in this process's ring
	Secrets int32
	Headers int32
}

type versionLine struct{ Name, Version string }

type settingsModel struct {
	Frame     ui.Frame
	Now       time.Time
	Versions  []versionLine
	Bytes     int64
	Skew      time.Duration // of this process's clock against the database's
	Processes []dbsqlc.ProcessListRow
	Keys      []keyLine
	KeySource string
	Settings  []Setting
}

func (s *Server) settingsPage(c echo.Context) error {
	ctx := c.Request().Context()
	m := settingsModel{Frame: s.frame(c, "administration", "Settings"), KeySource: s.KeySource, Settings: s.Settings}
	m.Now = m.Frame.Now
	before := time.Now()
	server, err := s.queries.SettingGetServer(ctx, s.Pool)
	if err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	m.Bytes, m.Skew = server.Bytes, clockSkew(before, time.Now(), server.Now)
	m.Versions = append([]versionLine{{"Weir", s.apiVersion()}, {"Postgres", server.Version}}, builtWith()...)
	if m.Processes, err = s.queries.ProcessList(ctx, s.Pool); err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	sealed, err := s.queries.SettingCountSealed(ctx, s.Pool)
	if err != nil {
		return fmt.Errorf("count sealed values: %w", err)
	}
	m.Keys = keyLines(s.Keyring.IDs(), sealed)
	return render(c, http.StatusOK, settingsView(m))
}

// clockSkew is how far the host's clock is from the database's, at least; 0 within what the answer took.
func clockSkew(asked, answered, database time.Time) time.Duration {
	switch {
	case database.Before(asked):
		return asked.Sub(database)
	case database.After(answered):
		return database.Sub(answered)
	}
	return 0
}

func keyLines(ring []string, sealed []dbsqlc.SettingCountSealedRow) []keyLine {
	lines := make([]keyLine, 0, len(ring)+1)
	for i, id := range ring {
		lines = append(lines, keyLine{ID: id, First: i == 0, Known: true})
	}
	for _, row := range sealed {
		i := slices.IndexFunc(lines, func(l keyLine) bool { return l.ID == row.KeyID })
		if i < 0 {
			lines, i = append(lines, keyLine{ID: row.KeyID}), len(lines)
		}
		if row.Kind == "secret" {
			lines[i].Secrets += row.Sealed
		} else {
			lines[i].Headers += row.Sealed
		}
	}
	return lines
}

// builtWith are the versions of what the program is made of.
func builtWith() []versionLine {
	lines := []versionLine{{"Go", strings.TrimPrefix(runtime.Version(), "go")}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return lines
	}
	for _, dep := range info.Deps {
		if dep.Path == "github.com/riverqueue/river" {
			lines = append(lines, versionLine{"River", dep.Version})
		}
	}
	return lines
}

func (m settingsModel) alive() int32 {
	n := int32(0)
	for _, p := range m.Processes {
		if p.Alive {
			n++
		}
	}
	return n
}

// missing are the roles that no process alive has: what is meant to be done by them is not done.
func (m settingsModel) missing() []string {
	var roles []string
	for _, role := range []string{"web", "work", "discover"} {
		if !slices.ContainsFunc(m.Processes, func(p dbsqlc.ProcessListRow) bool { return p.Alive && slices.Contains(p.Roles, role) }) {
			roles = append(roles, role)
		}
	}
	return roles
}

func processState(p dbsqlc.ProcessListRow) string {
	switch {
	case p.Alive:
		return "alive"
	case p.StoppedAt != nil:
		return "stopped"
	default:
		return "lost"
	}
}
