package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"weir/jobs"
	"weir/web/ui"
)

// findPath is what the command palette asks.
const findPath = "/find"

// findLimit bounds each kind of what is found, findRunes what is looked for.
const (
	findLimit = 6
	findRunes = 400
)

// found is one line of the palette: where it leads, and what it is.
type found struct {
	Kind, Title, Note, Href string
}

// landmark is a page that the palette leads to, for whoever has its role. words are what else it is looked for by.
type landmark struct {
	kind, title, words, href string
	least                    ui.Role
}

var landmarks = []landmark{
	{"page", "Overview", "home start", "/", ui.Viewer},
	{"page", "Destinations", "receivers webhooks endpoints", "/destinations", ui.Viewer},
	{"page", "Lanes", "limits rates budgets pace", "/lanes", ui.Viewer},
	{"page", "Events", "search shipments orders", "/events", ui.Viewer},
	{"page", "Deliveries", "ledger attempts", "/deliveries", ui.Viewer},
	{"page", "Deliveries that are retried", "retrying", "/deliveries?state=retrying", ui.Viewer},
	{"page", "Dead letters", "inbox failed dlq", "/dead-letters", ui.Viewer},
	{"page", "Replays", "resend again", "/replays", ui.Viewer},
	{"page", "Discovery", "sources outbox runs", "/discovery", ui.Viewer},
	{"page", "What was mended", "reconciler repairs mends", "/mends", ui.Viewer},
	{"page", "Search keys", "tracking number payload", "/search-keys", ui.Viewer},
	{"page", "Your account", "password sessions", "/account", ui.Viewer},
	{"page", "People", "colleagues users roles invite", "/people", ui.Administrator},
	{"page", "Sessions", "signed in", "/sessions", ui.Administrator},
	{"page", "API tokens", "keys access", "/tokens", ui.Administrator},
	{"page", "Audit log", "history who did what", "/audit", ui.Administrator},
	{"page", "Settings", "configuration", "/settings", ui.Administrator},
	{"page", "River's jobs", "queue workers", riverPath, ui.Administrator},
	{"action", "Add a destination", "new create receiver webhook", "/destinations/new", ui.Administrator},
	{"action", "Start a replay", "new resend again", "/replays/new", ui.Operator},
	{"action", "Invite a colleague", "new person user add", "/people", ui.Administrator},
	{"action", "Declare a search key", "new tracking number", "/search-keys", ui.Administrator},
}

// findPage answers the palette's question, as options of a list. Without script there is no palette, and each of its ways has a link.
func (s *Server) findPage(c echo.Context) error {
	who, _ := c.Get(operatorKey).(operator)
	q := strings.TrimSpace(c.QueryParam("q"))
	if checkText("q", q) != nil || len(q) > findRunes {
		return render(c, http.StatusOK, findOptions(nil))
	}
	lines := findPlaces(q, who.Role)
	if q != "" {
		objects, err := s.findObjects(c.Request().Context(), q, who.Role)
		if err != nil {
			return err
		}
		lines = append(objects, lines...)
		lines = append(lines, found{"search", "Search events for “" + clip(ui.Plain(q), 60) + "”", "", query("/events", "q", q)})
	}
	return render(c, http.StatusOK, findOptions(lines))
}

// findPlaces are the pages and actions that have every word of q.
func findPlaces(q string, role ui.Role) (lines []found) {
	for _, p := range landmarks {
		if role < p.least {
			continue
		}
		text, all := strings.ToLower(p.title+" "+p.words), true
		for word := range strings.FieldsSeq(strings.ToLower(q)) {
			all = all && strings.Contains(text, word)
		}
		if all {
			lines = append(lines, found{Kind: p.kind, Title: p.title, Href: p.href})
		}
	}
	return lines
}

func (s *Server) findObjects(ctx context.Context, q string, role ui.Role) ([]found, error) {
	if _, err := parseID(idDelivery, q); err == nil {
		return []found{{"delivery", q, "", "/deliveries/" + q}}, nil
	}
	var lines []found
	rows, err := s.queries.DestinationFind(ctx, s.Pool, "%"+likeText.Replace(q)+"%", findLimit)
	if err != nil {
		return nil, fmt.Errorf("find destinations: %w", err)
	}
	for _, row := range rows {
		href := "/destinations/" + formatID(idDestination, row.ID)
		lines = append(lines, found{"destination", clip(ui.Plain(row.Name), 80), row.State, href})
	}
	if len(rows) > 0 && len(rows) <= 2 && role >= ui.Operator {
		for _, row := range rows {
			href, name := "/destinations/"+formatID(idDestination, row.ID), clip(ui.Plain(row.Name), 60)
			if row.State == "active" {
				lines = append(lines, found{"action", "Pause " + name, "", href + "#pause"})
			} else {
				lines = append(lines, found{"action", "Resume " + name, "", href + "#resume"})
			}
		}
	}
	events, err := s.findEvents(ctx, q)
	return append(lines, events...), err
}

// likeText makes text mean itself in a pattern.
var likeText = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// findEvents looks where an index leads: ids, subjects, and values under search keys, each in full.
func (s *Server) findEvents(ctx context.Context, q string) (lines []found, err error) {
	event, err := s.findEvent(ctx, q)
	switch {
	case err == nil:
		lines = append(lines, found{"event", clip(ui.Plain(event.ID), 80), event.Type, eventPath(event.ID)})
	case !isNotFound(err):
		return nil, err
	}
	if len(q) <= 255 {
		page, err := s.listEvents(ctx, eventFilter{Subject: q, Limit: 1})
		if err != nil {
			return nil, err
		}
		for _, e := range page.Items {
			lines = append(lines, found{"subject", clip(ui.Plain(e.Subject), 80), "its timeline", subjectPath(e.Subject, e.Tenant)})
		}
	}
	page, err := s.listEvents(ctx, eventFilter{Value: jobs.CutKey(q), Limit: findLimit})
	if err != nil {
		return nil, err
	}
	for _, e := range page.Items {
		lines = append(lines, found{"event", clip(ui.Plain(e.ID), 80), "has it in the payload", eventPath(e.ID)})
	}
	return lines, nil
}
