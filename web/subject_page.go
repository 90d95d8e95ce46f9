package web

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"weir/jobs"
	"weir/web/ui"
)

// What one page of a subject shows; a version with more has a link to all of it.
const (
	subjectPageSize   = 20
	subjectDeliveries = 400
	subjectAttempts   = 2_000
)

type subjectModel struct {
	Frame    ui.Frame
	Now      time.Time
	Subject  string
	Tenant   string
	Versions []subjectVersion
	Cut      bool // there are more deliveries or attempts than are shown
	Self     string
	Newer    string
	Older    string
}

// subjectVersion is one event of the subject with what became of it, in the order of time.
type subjectVersion struct {
	Event      Event
	Deliveries []Delivery
	Moments    []moment
	Open       bool // shown unfolded
}

// moment is one thing that happened to a version.
type moment struct {
	At       time.Time
	Delivery *Delivery // nil: of the event itself
	Attempt  *Attempt
	Wait     time.Duration
	Why      string
	Words    string // besides an attempt's
	State    string
	Now      bool // it has not ended
}

// subjectPage is everything that happened to a subject, newest version first.
func (s *Server) subjectPage(c echo.Context) error {
	ctx := c.Request().Context()
	subject, tenant := objectParam(c), c.QueryParam("tenant")
	if subject == "" || checkText("subject", subject) != nil || len(subject) > 255 || checkText("tenant", tenant) != nil || len(tenant) > 100 {
		return &jobs.NotFoundError{What: "subject", ID: printableID(subject)}
	}
	m := subjectModel{Frame: s.frame(c, "events", "Subject "+clip(subject, 80)), Subject: subject, Tenant: tenant}
	m.Now = m.Frame.Now
	cursor := c.QueryParam("cursor")
	if _, err := parsePlace(cursor, false); err != nil {
		cursor = ""
	}
	page, err := s.listEvents(ctx, eventFilter{Subject: subject, Tenant: tenant, Cursor: cursor, Limit: subjectPageSize})
	if err != nil {
		return err
	}
	if len(page.Items) == 0 && cursor == "" && page.NextCursor == nil {
		return &jobs.NotFoundError{What: "subject", ID: printableID(subject)}
	}
	id := ""
	if subject == "." || subject == ".." {
		id = subject
	}
	path := objectPath("/subjects/", subject)
	if id != "" {
		path = "/subjects/-"
	}
	m.Self, m.Newer, m.Older = pages(cursor, c.QueryParam("back"), page.NextCursor, func(more ...string) string {
		return query(path, append([]string{"id", id, "tenant", tenant}, more...)...)
	})
	if err := s.fillSubject(c, &m, page.Items); err != nil {
		return err
	}
	return renderLive(c, subjectView(m), subjectRegion(m))
}

func (s *Server) fillSubject(c echo.Context, m *subjectModel, events []Event) error {
	ctx := c.Request().Context()
	rows := make([]int64, len(events))
	for i, e := range events {
		rows[i] = e.RowID
	}
	ids, err := s.queries.DeliveryListIDByEvent(ctx, s.Pool, rows, subjectDeliveries)
	if err != nil {
		return fmt.Errorf("list deliveries of a subject: %w", err)
	}
	deliveries, err := s.viewDeliveries(ctx, ids)
	if err != nil {
		return err
	}
	found, err := s.queries.AttemptListByDeliveries(ctx, s.Pool, ids, subjectAttempts)
	if err != nil {
		return fmt.Errorf("list attempts of a subject: %w", err)
	}
	m.Cut = len(ids) == subjectDeliveries || len(found) == subjectAttempts
	attempts := map[int64][]Attempt{}
	for _, row := range slices.Backward(found) { // oldest first of each
		attempts[row.DeliveryID] = append(attempts[row.DeliveryID], attemptOf(row))
	}
	for i, e := range events {
		v := subjectVersion{Event: e}
		for _, d := range deliveries {
			if d.EventID == e.ID {
				v.Deliveries = append(v.Deliveries, d)
			}
		}
		v.Moments = momentsOf(v, attempts, m.Now)
		v.Open = i == 0 || len(events) <= 3 || v.unwell()
		m.Versions = append(m.Versions, v)
	}
	return nil
}

// momentsOf puts in order what happened to a version: it came, was waited for, was sent, and how each delivery ended.
func momentsOf(v subjectVersion, attempts map[int64][]Attempt, now time.Time) []moment {
	moments := []moment{{At: v.Event.CreatedAt, Words: "It came, and was owed to " + destinationsWords(len(v.Deliveries)) + "."}}
	for i := range v.Deliveries {
		d := &v.Deliveries[i]
		log := attempts[d.RowID]
		for j := range log {
			wait, why := waitBefore(d.CreatedAt, log, j)
			if wait < minWait {
				wait = 0
			}
			moments = append(moments, moment{At: log[j].StartedAt, Delivery: d, Attempt: &log[j], Wait: wait, Why: why})
		}
		last := len(log) - 1
		switch {
		case d.SettledAt == nil:
			moments = append(moments, moment{At: now, Delivery: d, State: d.State, Words: "waiting: " + d.WaitingFor, Now: true})
		case last < 0 || log[last].FinishedAt == nil || d.SettledAt.Sub(*log[last].FinishedAt) > minWait || d.State == "dead_lettered":
			moments = append(moments, moment{At: *d.SettledAt, Delivery: d, State: d.State, Words: d.Reason})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return cmp.Or(a.At.Compare(b.At), 0) })
	return moments
}

// unwell says that somebody may have to look at the version.
func (v subjectVersion) unwell() bool {
	return slices.ContainsFunc(v.Deliveries, func(d Delivery) bool {
		return d.State != "delivered" && d.State != "superseded" && d.State != "cancelled"
	})
}

// summary counts a version's deliveries by state.
func (v subjectVersion) summary() []stateCount {
	var counts []stateCount
	for _, state := range deliveryStates {
		n := 0
		for _, d := range v.Deliveries {
			if d.State == state {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, stateCount{state, strconv.Itoa(n) + " " + ui.StateWord(state)})
		}
	}
	return counts
}

type stateCount struct{ State, Words string }

func (v subjectVersion) title() string {
	if v.Event.Version == nil {
		return "No version"
	}
	return "Version " + strconv.FormatInt(*v.Event.Version, 10)
}

func destinationsWords(n int) string {
	switch n {
	case 0:
		return "nobody"
	case 1:
		return "1 destination"
	default:
		return strconv.Itoa(n) + " destinations"
	}
}

func (m *subjectModel) lede() string {
	of := ""
	if m.Tenant != "" {
		of = " of the tenant " + ui.Plain(m.Tenant)
	}
	return "Everything that happened to this subject" + of + ", newest version first, each in the order of time."
}
