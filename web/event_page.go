package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/web/ui"
)

const (
	eventPageSize = 50
	maxUnowed     = 200
	maxPrefix     = 200 // events that a search for a beginning shows
)

// eventRow is a line of a list of events. By says what of it was searched for, where something was.
type eventRow struct {
	Event
	By string
}

type eventListModel struct {
	Frame      ui.Frame
	Now        time.Time
	Search     string
	Query      eventQuery
	Rows       []eventRow
	Subject    string // the subject that the search names, if there is one
	Keys       []SearchKey
	Labels     []ui.Option
	Problem    string
	Note       string
	SearchedTo *time.Time
	Self       string
	Newer      string
	Older      string
	BaseURL    string
}

func (m *eventListModel) filtered() bool { return m.Search != "" || m.Query != eventQuery{} }

func (m *eventListModel) more() bool {
	q := m.Query
	q.Type, q.Since = "", ""
	return q != eventQuery{}
}

// eventListPage lists events by a filter, or finds them by a word: an id, a subject, or a value of a search key.
func (s *Server) eventListPage(c echo.Context) error {
	ctx := c.Request().Context()
	m := eventListModel{Frame: s.frame(c, "events", "Events"), Search: strings.TrimSpace(c.QueryParam("q")), BaseURL: baseURL(c), Query: eventQuery{
		Type: c.QueryParam("type"), Subject: c.QueryParam("subject"), Tenant: c.QueryParam("tenant"), Since: c.QueryParam("since"),
		From: c.QueryParam("from"), Until: c.QueryParam("until"), Key: c.QueryParam("key"), Value: c.QueryParam("value"),
	}}
	m.Now = m.Frame.Now
	if _, err := parseID(idDelivery, m.Search); err == nil {
		return c.Redirect(http.StatusSeeOther, "/deliveries/"+m.Search)
	}
	var err error
	if m.Keys, err = s.listSearchKeys(ctx); err != nil {
		return err
	}
	m.Labels = labelOptions(m.Keys, m.Query.Key)
	if m.Search != "" {
		if checkText("q", m.Search) != nil || len(m.Search) > 400 {
			m.Problem, m.Search = "What was searched for is not something that there can be.", ""
		} else {
			err = s.searchEvents(ctx, &m)
		}
	}
	if m.Search == "" {
		err = s.listEventPage(c, &m)
	}
	if err != nil {
		return err
	}
	return renderLive(c, eventListView(m), eventListRegion(m))
}

func (s *Server) listEventPage(c echo.Context, m *eventListModel) error {
	filter, problems := m.Query.parse(m.Now)
	if len(problems) > 0 {
		m.Problem = problemWords(problems)
	}
	cursor := c.QueryParam("cursor")
	if _, err := parsePlace(cursor, false); err != nil {
		m.Problem, cursor = "The place in the list is not known, so this is its beginning.", ""
	}
	filter.Cursor, filter.Limit = cursor, eventPageSize
	page, err := s.listEvents(c.Request().Context(), filter)
	if err != nil {
		return err
	}
	for _, event := range page.Items {
		m.Rows = append(m.Rows, eventRow{Event: event})
	}
	m.SearchedTo = page.SearchedTo
	m.Self, m.Newer, m.Older = pages(cursor, c.QueryParam("back"), page.NextCursor, func(more ...string) string { return m.Query.address("/events", more...) })
	return nil
}

// searchEvents finds what a word can mean, the surest first. A star at its end stands for any ending, of values of search keys.
func (s *Server) searchEvents(ctx context.Context, m *eventListModel) error {
	m.Self = query("/events", "q", m.Search)
	seen := map[int64]bool{}
	add := func(by string, events ...Event) {
		for _, event := range events {
			if !seen[event.RowID] {
				seen[event.RowID] = true
				m.Rows = append(m.Rows, eventRow{event, by})
			}
		}
	}
	event, err := s.findEvent(ctx, m.Search)
	if err == nil {
		add("event id", event)
	} else if !isNotFound(err) {
		return err
	}
	if len(m.Search) <= 255 {
		page, err := s.listEvents(ctx, eventFilter{Subject: m.Search, Limit: eventPageSize})
		if err != nil {
			return err
		}
		if len(page.Items) > 0 {
			m.Subject = m.Search
		}
		add("subject", page.Items...)
	}
	return s.searchKeys(ctx, m, add)
}

func (s *Server) searchKeys(ctx context.Context, m *eventListModel, add func(string, ...Event)) error {
	begins, isPrefix := strings.CutSuffix(m.Search, "*")
	if isPrefix && begins != "" {
		labels, err := s.labels(ctx, eventFilter{Value: begins})
		if err != nil {
			return err
		}
		low := jobs.CutKey(begins)
		// In the byte order of the index, everything that begins with low is below low with the greatest character after it.
		ids, err := s.queries.EventKeyListEventIDByPrefix(ctx, s.Pool, dbsqlc.EventKeyListEventIDByPrefixParams{
			Labels: labels, Low: low, High: low + "\U0010FFFF", Max: maxPrefix + 1,
		})
		if err != nil {
			return fmt.Errorf("search for a beginning: %w", err)
		}
		if len(ids) > maxPrefix {
			ids = ids[:maxPrefix]
			m.Note = fmt.Sprintf("More than %d values begin like that; these are some of them. Write more of it.", maxPrefix)
		}
		events, err := s.viewEvents(ctx, ids)
		if err != nil {
			return err
		}
		add("value in the payload", events...)
	}
	page, err := s.listEvents(ctx, eventFilter{Value: jobs.CutKey(m.Search), Limit: eventPageSize})
	if err != nil {
		return err
	}
	add("value in the payload", page.Items...)
	if page.NextCursor != nil {
		m.Older = query("/events", "value", m.Search, "cursor", *page.NextCursor)
	}
	return nil
}

func labelOptions(keys []SearchKey, current string) []ui.Option {
	options, seen := []ui.Option{{Value: "", Label: "Any key"}}, map[string]bool{}
	for _, key := range keys {
		if !seen[key.Label] {
			seen[key.Label] = true
			options = append(options, ui.Option{Value: key.Label, Label: key.Label})
		}
	}
	return withCurrent(options, current)
}

type eventModel struct {
	Frame      ui.Frame
	Now        time.Time
	E          EventDetail
	Payload    payloadModel
	Keys       []dbsqlc.EventKeyListRow
	Unowed     []unowed
	MoreUnowed bool
}

// unowed is a destination to which an event is not owed, and why.
type unowed struct{ ID, Name, Why string }

func (s *Server) eventPage(c echo.Context) error {
	ctx := c.Request().Context()
	m := eventModel{}
	var err error
	if m.E, err = s.getEvent(ctx, objectParam(c)); err != nil {
		return err
	}
	m.Frame = s.frame(c, "events", "Event "+clip(m.E.ID, 80))
	m.Now = m.Frame.Now
	rows, err := s.queries.EventListUnowed(ctx, s.Pool, m.E.RowID, maxUnowed+1)
	if err != nil {
		return fmt.Errorf("list other destinations: %w", err)
	}
	if m.MoreUnowed = len(rows) > maxUnowed; m.MoreUnowed {
		rows = rows[:maxUnowed]
	}
	for _, row := range rows {
		m.Unowed = append(m.Unowed, unowed{formatID(idDestination, row.ID), row.Name, whyUnowed(row, m.E.Event)})
	}
	if isFragment(c) {
		return render(c, http.StatusOK, eventRegion(m))
	}
	if m.Keys, err = s.queries.EventKeyList(ctx, s.Pool, m.E.RowID); err != nil {
		return fmt.Errorf("list values to search by: %w", err)
	}
	if m.Payload, err = s.readPayload(c, m.Frame, m.E.Event, eventPath(m.E.ID)); err != nil {
		return err
	}
	return render(c, http.StatusOK, eventView(m))
}

// whyUnowed compares an event with a destination as it is now: what it subscribed to when the event came is not kept.
func whyUnowed(row dbsqlc.EventListUnowedRow, e Event) string {
	if row.Tenant != nil && *row.Tenant != e.Tenant {
		return "it takes only events of the tenant " + clip(*row.Tenant, 60)
	}
	if len(row.Types) == 0 {
		return "it subscribes to nothing"
	}
	var others []string
	for i, types := range row.Types {
		if !typesMatch(types, e.Type) {
			others = append(others, types)
			continue
		}
		if i < len(row.Tenants) && row.Tenants[i] != "" && row.Tenants[i] != e.Tenant {
			return "it subscribes to this type only for the tenant " + clip(row.Tenants[i], 60)
		}
		if row.CreatedAt.After(e.CreatedAt) {
			return "it was made after the event came"
		}
		return "it subscribes to this type now, and did not, or filtered the event out, when the event came"
	}
	return "it subscribes only to " + clip(strings.Join(others, ", "), 120)
}

func typesMatch(types, eventType string) bool {
	for pattern := range strings.SplitSeq(types, ", ") {
		if pattern == "*" || pattern == eventType || (strings.HasSuffix(pattern, ".*") && strings.HasPrefix(eventType, pattern[:len(pattern)-1])) {
			return true
		}
	}
	return false
}

// settledWords say how far an event is.
func (m eventModel) settledWords() string {
	switch open := 0; {
	case m.E.FanningOut:
		return "Its fan-out goes on: more deliveries are being made."
	case m.E.Settled && len(m.E.Deliveries) == 0:
		return "It is owed to nobody: no destination had subscribed to it when it came."
	case m.E.Settled:
		return "Every delivery has ended."
	default:
		for _, d := range m.E.Deliveries {
			if d.SettledAt == nil {
				open++
			}
		}
		if open == 1 && !m.E.MoreDeliveries {
			return "1 delivery has not ended."
		}
		if !m.E.MoreDeliveries {
			return fmt.Sprintf("%d deliveries have not ended.", max(open, 1))
		}
		return fmt.Sprintf("%d deliveries or more have not ended.", max(open, 1))
	}
}

func (m eventModel) every() string {
	if m.E.Settled {
		return "15s"
	}
	return "2s"
}
