package web

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

type destinationRow = dbsqlc.OverviewListDestinationRow

const destinationPageSize = 50

// destinationFilter is what the list was asked for; all of it is in its address. Empty fields ask nothing.
type destinationFilter struct{ Search, State, Health, Sort string }

var destinationStates = []ui.Option{
	{Value: "", Label: "Any"}, {Value: "active", Label: "Active"}, {Value: "paused", Label: "Paused"}, {Value: "disabled", Label: "Disabled"}, {Value: "draining", Label: "Draining"},
}

var destinationHealths = []ui.Option{
	{Value: "", Label: "Any"}, {Value: "failing", Label: "Failing: below 90 %"}, {Value: "unsteady", Label: "Unsteady: below 99 %"}, {Value: "well", Label: "Well"},
	{Value: "quiet", Label: "Quiet: no requests"}, {Value: "held", Label: "Held by the receiver"}, {Value: "waiting", Label: "Deliveries wait"},
}

var destinationSorts = []ui.Option{
	{Value: "", Label: "Name"}, {Value: "worst", Label: "Worst success first"}, {Value: "waiting", Label: "Most waiting first"}, {Value: "newest", Label: "Newest first"},
}

// readDestinationFilter takes what there is; what cannot be is left out, as if it had not been asked.
func readDestinationFilter(c echo.Context) destinationFilter {
	f := destinationFilter{Search: strings.TrimSpace(c.QueryParam("q"))}
	if checkText("q", f.Search) != nil || len(f.Search) > 200 {
		f.Search = ""
	}
	for _, choice := range []struct {
		name    string
		options []ui.Option
		into    *string
	}{{"state", destinationStates, &f.State}, {"health", destinationHealths, &f.Health}, {"sort", destinationSorts, &f.Sort}} {
		value := c.QueryParam(choice.name)
		if slices.ContainsFunc(choice.options, func(o ui.Option) bool { return o.Value == value }) {
			*choice.into = value
		}
	}
	return f
}

func (f destinationFilter) path(after string) string {
	return query("/destinations", "q", f.Search, "state", f.State, "health", f.Health, "sort", f.Sort, "after", after)
}

// narrows says whether some destinations may be left out.
func (f destinationFilter) narrows() bool { return f.Search != "" || f.State != "" || f.Health != "" }

// destinationPlace is where a page of the list begins: after this one.
type destinationPlace struct {
	Rank float64
	Name string
	ID   int64
}

var destinationListStart = destinationPlace{Rank: math.Inf(-1)}

func (p destinationPlace) cursor() string {
	raw, _ := json.Marshal(p) // of a row, so its rank is a number
	return base64.RawURLEncoding.EncodeToString(raw)
}

// parseDestinationPlace gives the start for what is no cursor.
func parseDestinationPlace(text string) (destinationPlace, bool) {
	var p destinationPlace
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || text == "" || len(raw) > 2000 || json.Unmarshal(raw, &p) != nil || checkText("after", p.Name) != nil {
		return destinationListStart, false
	}
	return p, true
}

// health is how the requests of the present hour and the one before went.
type health struct{ Requests, OK int64 }

func (h health) state() string {
	switch {
	case h.Requests == 0:
		return "quiet"
	case float64(h.OK) < 0.9*float64(h.Requests):
		return "failing"
	case float64(h.OK) < 0.99*float64(h.Requests):
		return "unsteady"
	}
	return "well"
}

// share is cut, not rounded: 100 % is all of them.
func (h health) share() string {
	return number(math.Floor(float64(h.OK)/float64(h.Requests)*1000)/10) + " %"
}

// badge is the state of Badge whose colour and icon say the same.
func (h health) badge() string {
	return map[string]string{"quiet": "stopped", "failing": "failed", "unsteady": "retrying", "well": "ok"}[h.state()]
}

func (h health) words() string {
	if h.Requests == 0 {
		return "quiet"
	}
	return h.state() + ", " + h.share()
}

// healthSince is where the time of a health begins.
func healthSince(now time.Time) time.Time { return now.UTC().Truncate(time.Hour).Add(-time.Hour) }

type destinationLine struct {
	destinationRow
	Health health
}

type destinationListModel struct {
	Frame  ui.Frame
	Now    time.Time
	Filter destinationFilter
	Rows   []destinationLine
	Total  int32
	Self   string
	First  string // the beginning of the list, where this is not it
	Next   string
}

func (s *Server) destinationListPage(c echo.Context) error {
	m := destinationListModel{Frame: s.frame(c, "destinations", "Destinations"), Filter: readDestinationFilter(c)}
	m.Now = m.Frame.Now
	after, later := parseDestinationPlace(c.QueryParam("after"))
	m.Self = m.Filter.path("")
	if later {
		m.Self, m.First = m.Filter.path(after.cursor()), m.Filter.path("")
	}
	if err := s.fillDestinationList(c.Request().Context(), &m, after); err != nil {
		return err
	}
	return renderLive(c, destinationListView(m), destinationListRegion(m))
}

// fillDestinationList finds out which destinations the page shows, then looks at those alone.
func (s *Server) fillDestinationList(ctx context.Context, m *destinationListModel, after destinationPlace) error {
	page, err := s.queries.DestinationPage(ctx, s.Pool, dbsqlc.DestinationPageParams{
		Search: m.Filter.Search, State: m.Filter.State, Health: m.Filter.Health, Sort: m.Filter.Sort, Weigh: m.Filter.Sort == "waiting" || m.Filter.Health == "waiting",
		AfterRank: after.Rank, AfterName: after.Name, AfterID: after.ID, Max: destinationPageSize + 1,
	})
	if err != nil {
		return fmt.Errorf("list destinations: %w", err)
	}
	if len(page) > destinationPageSize {
		page = page[:destinationPageSize]
		last := page[destinationPageSize-1]
		m.Next = m.Filter.path(destinationPlace{last.Rank, last.Name, last.ID}.cursor())
	}
	ids, place := make([]int64, len(page)), make(map[int64]int, len(page))
	for i, row := range page {
		ids[i], place[row.ID], m.Total = row.ID, i, row.Total
	}
	rows, err := s.queries.OverviewListDestination(ctx, s.Pool, dbsqlc.OverviewListDestinationParams{Max: maxCount + 1, Ids: ids, Page: destinationPageSize})
	if err != nil {
		return fmt.Errorf("list destinations: %w", err)
	}
	for _, row := range rows {
		m.Rows = append(m.Rows, destinationLine{row, health{page[place[row.ID]].Requests, page[place[row.ID]].Ok}})
	}
	slices.SortFunc(m.Rows, func(a, b destinationLine) int { return place[a.ID] - place[b.ID] })
	return nil
}
