package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/jobs/webhook"
	"weir/web/ui"
)

// deliveryRow is a line of a list of deliveries.
type deliveryRow = Delivery

const deliveryPageSize = 50

type deliveryListModel struct {
	Frame        ui.Frame
	Now          time.Time
	Rows         []deliveryRow
	Query        deliveryQuery
	Count        string
	Views        []dbsqlc.SavedViewListRow
	Problem      string // what is wrong with the filter
	Destinations []ui.Option
	Lanes        []ui.Option
	SearchedTo   *time.Time
	Self         string
	Newer        string
	Older        string
	BaseURL      string
}

func (m *deliveryListModel) filtered() bool { return m.Query != deliveryQuery{} }

// more says whether one of the less common filters is in use.
func (m *deliveryListModel) more() bool {
	q := m.Query
	q.State, q.Destination, q.Event, q.Subject, q.Since = "", "", "", "", ""
	return q != deliveryQuery{}
}

// savedQuery is what a saved view keeps: the filter without a place in the list.
func (m *deliveryListModel) savedQuery() string {
	_, raw, _ := strings.Cut(m.Query.address("/deliveries"), "?")
	return raw
}

// readDeliveryQuery reads a filter from an address.
func readDeliveryQuery(c echo.Context) deliveryQuery {
	return deliveryQuery{
		State: c.QueryParam("state"), Destination: c.QueryParam("destination"), Lane: c.QueryParam("lane"), Event: c.QueryParam("event"),
		Subject: c.QueryParam("subject"), Type: c.QueryParam("type"), Tenant: c.QueryParam("tenant"), Status: c.QueryParam("status"),
		ErrorClass: c.QueryParam("error_class"), Since: c.QueryParam("since"), From: c.QueryParam("from"), Until: c.QueryParam("until"),
	}
}

// trailOf are the cursors of the pages before, without the first page's: the way back to what is newer. Only the nearest are kept.
func trailOf(back string) []string {
	const longest = 30
	if back == "" || len(back) > 100*longest {
		return nil
	}
	trail := strings.Split(back, ".")
	return trail[max(0, len(trail)-longest):]
}

// pages are the addresses of the pages around one in a list; address makes them of a cursor and the trail that led to it.
func pages(cursor, back string, next *string, address func(more ...string) string) (self, newer, older string) {
	at := func(cursor string, trail []string) string {
		return address("cursor", cursor, "back", strings.Join(trail, "."))
	}
	trail := trailOf(back)
	self = at(cursor, trail)
	if last := len(trail) - 1; cursor != "" && last >= 0 {
		newer = at(trail[last], trail[:last])
	} else if cursor != "" {
		newer = at("", nil)
	}
	if next != nil {
		if cursor != "" {
			trail = append(trail, cursor)
		}
		older = at(*next, trail)
	}
	return self, newer, older
}

// deliveryListPage never refuses a filter with an error page: what is wrong with it is said beside the form, over the list without it.
func (s *Server) deliveryListPage(c echo.Context) error {
	ctx := c.Request().Context()
	m := deliveryListModel{Frame: s.frame(c, "deliveries", "Deliveries"), Query: readDeliveryQuery(c), BaseURL: baseURL(c)}
	m.Now = m.Frame.Now
	filter, problems := m.Query.parse(m.Now)
	m.Problem = problemWords(problems)
	cursor := c.QueryParam("cursor")
	if _, err := parsePlace(cursor, filter.pair()); err != nil {
		m.Problem, cursor = "The place in the list is not known, so this is its beginning.", ""
	}
	filter.Cursor, filter.Limit = cursor, deliveryPageSize
	page, err := s.listDeliveries(ctx, filter)
	if err != nil {
		return err
	}
	m.Rows, m.SearchedTo = page.Items, page.SearchedTo
	m.Self, m.Newer, m.Older = pages(cursor, c.QueryParam("back"), page.NextCursor, func(more ...string) string { return m.Query.address("/deliveries", more...) })
	if isFragment(c) {
		return renderLive(c, nil, deliveryListRegion(m))
	}
	if err := s.fillDeliveryList(c, &m, filter); err != nil {
		return err
	}
	return renderLive(c, deliveryListView(m), deliveryListRegion(m))
}

// fillDeliveryList adds what stands around the live part of the page.
func (s *Server) fillDeliveryList(c echo.Context, m *deliveryListModel, filter deliveryFilter) error {
	ctx := c.Request().Context()
	if len(m.Rows) > 0 && m.SearchedTo == nil { // else the list has taken its time already, and says how far it looked
		count, err := s.countDeliveries(ctx, filter)
		if err != nil {
			return err
		}
		m.Count = count.words()
	}
	names, err := s.queries.OverviewListDestinationName(ctx, s.Pool, 500)
	if err != nil {
		return fmt.Errorf("list destinations: %w", err)
	}
	m.Destinations = destinationOptions(names, m.Query.Destination)
	lanes, err := s.queries.LaneListName(ctx, s.Pool, 500)
	if err != nil {
		return fmt.Errorf("list lanes: %w", err)
	}
	m.Lanes = []ui.Option{{Value: "", Label: "Any"}}
	for _, row := range lanes {
		m.Lanes = append(m.Lanes, ui.Option{Value: formatID(idLane, row.ID), Label: clip(ui.Plain(row.Name), 60)})
	}
	m.Lanes = withCurrent(m.Lanes, m.Query.Lane)
	m.Views, err = s.listViews(c)
	return err
}

// words say how many there are, and how that is known.
func (n deliveryCount) words() string {
	switch number := ui.Number(n.N); {
	case n.Estimate:
		return "About " + number + " deliveries."
	case n.Since != nil:
		return "At least " + number + ": counted back to " + n.Since.UTC().Format("2006-01-02 15:04:05") + "."
	case n.More:
		return number + " deliveries or more."
	case n.N == 1:
		return "1 delivery."
	default:
		return number + " deliveries."
	}
}

func problemWords(problems []jobs.InvalidError) string {
	words := make([]string, len(problems))
	for i, p := range problems {
		words[i] = capital(strings.ReplaceAll(p.Field, "_", " ") + ": " + p.Problem)
	}
	return strings.Join(words, " ")
}

// withCurrent adds the value in use where the choices lack it, so that a form sends back what it shows.
func withCurrent(options []ui.Option, current string) []ui.Option {
	if current != "" && !slices.ContainsFunc(options, func(o ui.Option) bool { return o.Value == current }) {
		options = append(options, ui.Option{Value: current, Label: clip(ui.Plain(current), 60)})
	}
	return options
}

func sinceOptions(current string) []ui.Option {
	return withCurrent([]ui.Option{
		{Value: "", Label: "Any time"}, {Value: "15m", Label: "15 minutes"}, {Value: "1h", Label: "Hour"}, {Value: "24h", Label: "24 hours"}, {Value: "7d", Label: "7 days"},
	}, current)
}

func errorClassOptions(current string) []ui.Option {
	options := []ui.Option{{Value: "", Label: "Any"}}
	for _, class := range []string{
		webhook.ClassStatus4xx, webhook.ClassStatus429, webhook.ClassStatus5xx, webhook.ClassGone, webhook.ClassRedirect, webhook.ClassTimeout,
		webhook.ClassConnectTimeout, webhook.ClassConnectionRefused, webhook.ClassConnectionReset, webhook.ClassUnreachable, webhook.ClassDNS,
		webhook.ClassDNSTemporary, webhook.ClassTLS, webhook.ClassProtocol, webhook.ClassHeaderTooLarge, webhook.ClassInvalidRequest, webhook.ClassShutdown,
	} {
		options = append(options, ui.Option{Value: class, Label: strings.ReplaceAll(class, "_", " ")})
	}
	return withCurrent(options, current)
}

func currentView(is bool) templ.Attributes {
	if is {
		return templ.Attributes{"aria-current": "true"}
	}
	return nil
}

func viewID(id int64) string { return "view-" + strconv.FormatInt(id, 10) }

func viewTitle(v dbsqlc.SavedViewListRow) string {
	switch {
	case !v.Shared:
		return "Only you see it"
	case v.Own:
		return "Shared by you"
	default:
		return "Shared by " + ui.Plain(v.OperatorName)
	}
}

// pairs are the filters that are set, by name.
func (q *deliveryQuery) pairs() [][2]string {
	var set [][2]string
	for _, pair := range [][2]string{
		{"state", q.State}, {"destination", q.Destination}, {"lane", q.Lane}, {"event", q.Event}, {"subject", q.Subject}, {"type", q.Type}, {"tenant", q.Tenant},
		{"status", q.Status}, {"error_class", q.ErrorClass}, {"since", q.Since}, {"from", q.From}, {"until", q.Until},
	} {
		if pair[1] != "" {
			set = append(set, pair)
		}
	}
	return set
}
