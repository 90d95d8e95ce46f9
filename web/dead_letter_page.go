package web

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

const (
	letterPageSize  = 50
	historyPageSize = 25
	// maxOpenLetters is how far the navigation counts.
	maxOpenLetters = 99
)

type letterListModel struct {
	Frame        ui.Frame
	Now          time.Time
	Show         string
	Destination  string
	Assignee     string // "me", "none", or empty
	Destinations []ui.Option
	Rows         []LetterGroup
	Self         string
	First, Older string
}

func (m letterListModel) address(show string, more ...string) string {
	if show == lettersOpen {
		show = ""
	}
	return query("/dead-letters", append([]string{"show", show, "destination", m.Destination, "assignee", m.Assignee}, more...)...)
}

// letterListPage never refuses an address with an error page: what it does not know in it, it leaves out.
func (s *Server) letterListPage(c echo.Context) error {
	ctx := c.Request().Context()
	m := letterListModel{Frame: s.frame(c, "dead-letters", "Dead letters"), Show: c.QueryParam("show")}
	m.Now = m.Frame.Now
	f := letterFilter{limit: letterPageSize, cursor: c.QueryParam("cursor")}
	switch m.Show {
	case lettersSnoozed, lettersResolved, lettersAll:
	default:
		m.Show = lettersOpen
	}
	f.show = m.Show
	if id, err := parseID(idDestination, c.QueryParam("destination")); err == nil {
		m.Destination, f.destination = formatID(idDestination, id), id
	}
	switch m.Assignee = c.QueryParam("assignee"); m.Assignee {
	case "me":
		f.assignee = new(operatorOf(c).ID)
	case "none":
		f.assignee = new(int64(0))
	default:
		m.Assignee = ""
	}
	if _, _, err := parseLetterCursor(f.cursor); err != nil {
		f.cursor = ""
	}
	page, err := s.listLetters(ctx, f, m.Now)
	if err != nil {
		return err
	}
	m.Rows, m.Self = page.Items, m.address(m.Show, "cursor", f.cursor)
	if f.cursor != "" {
		m.First = m.address(m.Show)
	}
	if page.NextCursor != nil {
		m.Older = m.address(m.Show, "cursor", *page.NextCursor)
	}
	if isFragment(c) {
		return renderLive(c, nil, letterListRegion(m))
	}
	names, err := s.queries.OverviewListDestinationName(ctx, s.Pool, 500)
	if err != nil {
		return fmt.Errorf("list destinations: %w", err)
	}
	m.Destinations = destinationOptions(names, m.Destination)
	return renderLive(c, letterListView(m), letterListRegion(m))
}

type letterGroupModel struct {
	Frame     ui.Frame
	Now       time.Time
	G         LetterGroup
	Through   int64 // the newest that the page knows of
	All       bool
	Rows      []Letter
	History   []dbsqlc.DeadLetterHistory
	Earlier   string // the history's next page
	People    []ui.Option
	Self      int64 // who looks
	First     string
	Older     string
	Operating bool
}

func (m letterGroupModel) path(more ...string) string { return query("/dead-letters/"+m.G.ID, more...) }

func (s *Server) letterGroupPage(c echo.Context) error {
	ctx := c.Request().Context()
	id, err := parseID(idLetters, c.Param("id"))
	if err != nil {
		return err
	}
	m := letterGroupModel{Frame: s.frame(c, "dead-letters", "Dead letters"), All: c.QueryParam("all") != "", Self: operatorOf(c).ID}
	m.Now, m.Operating = m.Frame.Now, m.Frame.Can(ui.Operator)
	if m.G, err = s.getLetters(ctx, id, m.Now); err != nil {
		return err
	}
	m.Frame.Title = m.G.Title
	if isFragment(c) {
		return renderLive(c, nil, letterGroupRegion(m))
	}
	if m.Through, err = s.queries.DeadLetterLastSeq(ctx, s.Pool, id); err != nil {
		return fmt.Errorf("read group of dead letters: %w", err)
	}
	all, cursor := "", c.QueryParam("cursor")
	if m.All {
		all = "1"
	}
	if _, err := parseCursor(cursor, firstPage); err != nil {
		cursor = ""
	}
	page, err := s.listGroup(ctx, id, m.All, cursor, letterPageSize)
	if err != nil {
		return err
	}
	if m.Rows = page.Items; cursor != "" {
		m.First = m.path("all", all)
	}
	if page.NextCursor != nil {
		m.Older = m.path("all", all, "cursor", *page.NextCursor)
	}
	if err := s.fillLetterHistory(c, &m); err != nil {
		return err
	}
	return renderLive(c, letterGroupView(m), letterGroupRegion(m))
}

func (s *Server) fillLetterHistory(c echo.Context, m *letterGroupModel) (err error) {
	ctx := c.Request().Context()
	m.History, err = s.queries.DeadLetterHistoryList(ctx, s.Pool, dbsqlc.DeadLetterHistoryListParams{
		GroupID: m.G.RowID, Before: beforeParam(c, "history"), Max: historyPageSize + 1,
	})
	if err != nil {
		return fmt.Errorf("load history: %w", err)
	}
	if len(m.History) > historyPageSize {
		m.History = m.History[:historyPageSize]
		m.Earlier = m.path("history", strconv.FormatInt(m.History[historyPageSize-1].ID, 10)) + "#history"
	}
	if !m.Operating {
		return nil
	}
	people, err := s.queries.OperatorListActing(ctx, s.Pool, maxActing)
	if err != nil {
		return fmt.Errorf("list people: %w", err)
	}
	m.People = []ui.Option{{Value: "", Label: "Nobody"}}
	for _, p := range people {
		m.People = append(m.People, ui.Option{Value: formatID(idPerson, p.ID), Label: clip(ui.Plain(p.Name), 60)})
	}
	return nil
}

// letterAction does something to a group and leads back to it, with what was done or why not.
func (s *Server) letterAction(c echo.Context, act func(id int64) (notice string, err error)) error {
	id, err := parseID(idLetters, c.Param("id"))
	if err != nil {
		return err
	}
	here := "/dead-letters/" + formatID(idLetters, id)
	notice, err := act(id)
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, here, refusal)
	}
	if err != nil {
		return err
	}
	return s.done(c, here, notice)
}

func (s *Server) letterAssign(c echo.Context) error {
	return s.letterAction(c, func(id int64) (string, error) {
		person := int64(0)
		if text := c.FormValue("assignee"); text != "" {
			var err error
			if person, err = parseIDField(idPerson, "assignee", text); err != nil {
				return "", err
			}
		}
		name, err := s.assignLetters(c.Request().Context(), id, person, actor(c))
		if person == 0 {
			return "Nobody has it now.", err
		}
		return "“" + name + "” has it now.", err
	})
}

func (s *Server) letterNote(c echo.Context) error {
	return s.letterAction(c, func(id int64) (string, error) {
		return "Noted.", s.noteLetters(c.Request().Context(), id, c.FormValue("note"), actor(c))
	})
}

func (s *Server) letterSnooze(c echo.Context) error {
	return s.letterAction(c, func(id int64) (string, error) {
		length, err := time.ParseDuration(c.FormValue("for"))
		if err != nil || length <= 0 {
			return "", invalid("for", "want a length of time, such as 4h")
		}
		until := time.Now().Add(length)
		return "Snoozed until " + until.UTC().Format("2006-01-02 15:04") + " UTC; it comes back earlier if it grows much.",
			s.snoozeLetters(c.Request().Context(), id, until, actor(c))
	})
}

func (s *Server) letterWake(c echo.Context) error {
	return s.letterAction(c, func(id int64) (string, error) {
		return "It is open again.", s.snoozeLetters(c.Request().Context(), id, time.Time{}, actor(c))
	})
}

// letterResolve resolves what is chosen, or, where the form says so, all that its reader has seen.
func (s *Server) letterResolve(c echo.Context) error {
	return s.letterAction(c, func(id int64) (string, error) {
		form, err := c.FormParams()
		if err != nil {
			return "", invalid("form", "cannot be read")
		}
		ctx, n := c.Request().Context(), 0
		if form.Get("all") != "" {
			n, err = s.resolveLetters(ctx, id, seenThrough(form), form.Get("why"), actor(c))
		} else {
			var chosen []int64
			if chosen, err = parseDeliveries(form["delivery"]); err == nil {
				n, err = s.resolveChosenLetters(ctx, id, chosen, form.Get("why"), actor(c))
			}
		}
		return "Resolved " + countWords(n, "delivery", "deliveries") + ". They stay under “Resolved”, with your reason.", err
	})
}

// seenThrough is the newest delivery that the form's page knew of; 0: no matter.
func seenThrough(form url.Values) int64 {
	n, err := strconv.ParseInt(form.Get("through"), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func (s *Server) letterTakeBack(c echo.Context) error {
	return s.letterAction(c, func(id int64) (string, error) {
		n, err := s.takeBackResolution(c.Request().Context(), id, actor(c))
		return "Taken back: " + countWords(n, "delivery is", "deliveries are") + " open again.", err
	})
}

// snoozeOptions are the lengths that a form offers.
func snoozeOptions() []ui.Option {
	return []ui.Option{
		{Value: "1h", Label: "1 hour"}, {Value: "4h", Label: "4 hours"}, {Value: "12h", Label: "12 hours"}, {Value: "24h", Label: "1 day"},
		{Value: "72h", Label: "3 days"}, {Value: "168h", Label: "1 week"}, {Value: "720h", Label: "30 days"},
	}
}

// openLetters is the number beside the navigation's entry; empty where nothing is open. The page does without it where it cannot be read.
func (s *Server) openLetters(c echo.Context) string {
	n, err := s.queries.DeadLetterGroupCountOpen(c.Request().Context(), s.Pool, maxOpenLetters+1)
	if err != nil {
		s.Log.WarnContext(c.Request().Context(), "count open dead letters", "error", err)
	}
	if n == 0 {
		return ""
	}
	return ui.Count(n, maxOpenLetters)
}
