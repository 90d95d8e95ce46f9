package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/web/ui"
)

type destinationRow = dbsqlc.OverviewListDestinationRow

type destinationListModel struct {
	Frame ui.Frame
	Now   time.Time
	Rows  []destinationRow
	Self  string
	First string // the beginning of the list, where this is not it
	Next  string
}

const destinationPageSize = 100

func (s *Server) destinationListPage(c echo.Context) error {
	after := c.QueryParam("after")
	if checkText("after", after) != nil || len(after) > 1000 {
		after = ""
	}
	rows, err := s.queries.OverviewListDestination(c.Request().Context(), s.Pool, dbsqlc.OverviewListDestinationParams{
		Max: maxCount + 1, AfterName: after, Page: destinationPageSize + 1,
	})
	if err != nil {
		return fmt.Errorf("list destinations: %w", err)
	}
	m := destinationListModel{Frame: s.frame(c, "destinations", "Destinations"), Rows: rows, Self: query("/destinations", "after", after)}
	m.Now = m.Frame.Now
	if after != "" {
		m.First = "/destinations"
	}
	if len(rows) > destinationPageSize {
		m.Rows = rows[:destinationPageSize]
		m.Next = query("/destinations", "after", m.Rows[destinationPageSize-1].Name)
	}
	return renderLive(c, destinationListView(m), destinationListRegion(m))
}

type destinationModel struct {
	Frame      ui.Frame
	Now        time.Time
	D          Destination
	Live       destinationRow
	Attention  *attention
	Deliveries []deliveryRow
	Pace       paceModel
	Overlap    string
	History    []auditLineView // only for administrators, like the audit log
}

func (s *Server) destinationPage(c echo.Context) error {
	ctx := c.Request().Context()
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	m := destinationModel{D: d, Frame: s.frame(c, "destinations", d.Name), Overlap: formatDuration(defaultOverlap)}
	m.Now = m.Frame.Now
	rows, err := s.queries.OverviewListDestination(ctx, s.Pool, dbsqlc.OverviewListDestinationParams{Max: maxCount + 1, ID: &d.RowID, Page: 1})
	if err != nil {
		return fmt.Errorf("load destination: %w", err)
	}
	if len(rows) == 0 {
		return &jobs.NotFoundError{What: "destination", ID: d.ID}
	}
	m.Live = rows[0]
	if a, ok := attentionOf(m.Live, m.Now); ok {
		m.Attention = &a
	}
	if m.Pace, err = s.paceOf(ctx, d); err != nil {
		return err
	}
	if m.Deliveries, err = s.recentDeliveries(ctx, d.RowID, 15); err != nil {
		return err
	}
	if m.Frame.Can(ui.Administrator) {
		if m.History, err = s.destinationHistory(ctx, d.RowID, 5); err != nil {
			return err
		}
	}
	return renderLive(c, destinationView(m), destinationRegion(m))
}

// destinationParam loads the destination that the address names.
func (s *Server) destinationParam(c echo.Context) (Destination, error) {
	id, err := parseID(idDestination, c.Param("id"))
	if err != nil {
		return Destination{}, err
	}
	return s.getDestination(c.Request().Context(), id)
}

func (s *Server) destinationPause(c echo.Context) error {
	return s.destinationAction(c, "Paused. What is owed to it waits here.", func(ctx context.Context, d Destination) error {
		reason := strings.TrimSpace(c.FormValue("reason"))
		if err := checkText("reason", reason); err != nil {
			return err
		}
		if len(reason) > 500 {
			return invalid("reason", "is longer than 500 bytes")
		}
		return s.pauseDestination(ctx, d.RowID, reason)
	})
}

func (s *Server) destinationResume(c echo.Context) error {
	return s.destinationAction(c, "Resumed. What waited is sent from now on, at the destination's pace.", func(ctx context.Context, d Destination) error {
		return s.resumeDestination(ctx, d.RowID)
	})
}

func (s *Server) destinationDelete(c echo.Context) error {
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	err = s.deleteDestination(c.Request().Context(), d.RowID, "the destination was deleted by "+actor(c))
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, "/destinations/"+d.ID, refusal)
	}
	if err != nil {
		return err
	}
	return s.done(c, "/destinations", "“"+d.Name+"” is deleted. What it was still owed is cancelled; its history stays.")
}

// destinationAction does something to the destination and leads back to its page, with what came of it.
func (s *Server) destinationAction(c echo.Context, notice string, act func(context.Context, Destination) error) error {
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	err = act(c.Request().Context(), d)
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, "/destinations/"+d.ID, refusal)
	}
	if err != nil {
		return err
	}
	return s.done(c, "/destinations/"+d.ID, notice)
}

// asRefusal makes a sentence of an error that the person who asked can do something about.
func asRefusal(err error) (string, bool) {
	var wrong *jobs.InvalidError
	var conflict *jobs.ConflictError
	switch {
	case errors.As(err, &wrong):
		return "Nothing was done. " + capital(wrong.Field+" "+wrong.Problem), true
	case errors.As(err, &conflict):
		return "Nothing was done: " + strings.TrimSuffix(conflict.Problem, ".") + ".", true
	}
	return "", false
}

// destinationTest sends a test event and leads to its delivery, whose page shows the answer when it comes.
func (s *Server) destinationTest(c echo.Context) error {
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	receipt, err := s.sendTest(ctx, d.RowID, d.Name)
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, "/destinations/"+d.ID, refusal)
	}
	if err != nil {
		return err
	}
	id, err := s.deliveryIDOf(ctx, receipt.ID, d.RowID)
	if err != nil {
		return err
	}
	if id == 0 {
		return s.done(c, query("/deliveries", "event", receipt.ID), "The test event is taken; its delivery appears here.")
	}
	return s.done(c, "/deliveries/"+formatID(idDelivery, id), "The test event is on its way. The answer appears below.")
}

type secretModel struct {
	Frame  ui.Frame
	D      Destination
	Secret string
	Said   string
}

// destinationRotate answers with the page that shows the secret, this once: it is not to lie in a session until a redirect has come back.
func (s *Server) destinationRotate(c echo.Context) error {
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	overlap, err := parseDuration("overlap", c.FormValue("overlap"))
	var secret string
	if err == nil {
		secret, err = s.rotateSecret(c.Request().Context(), d.RowID, overlap)
	}
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, "/destinations/"+d.ID, refusal)
	}
	if err != nil {
		return err
	}
	said := "From the next request on both secrets sign, the old one for another " + formatDuration(overlap) + "."
	if overlap == 0 {
		said = "From the next request on only this secret signs."
	}
	return s.showSecret(c, d, secret, said)
}

func (s *Server) showSecret(c echo.Context, d Destination, secret, said string) error {
	m := secretModel{Frame: s.frame(c, "destinations", "Signing secret of "+d.Name), D: d, Secret: secret, Said: said}
	return render(c, http.StatusOK, secretView(m))
}

func (s *Server) formCreate(ctx context.Context, in DestinationInput) (Destination, string, error) {
	return s.createDestination(ctx, in)
}

// formUpdate changes what differs from what is stored. A budget that is typed again unchanged is left alone.
func (s *Server) formUpdate(ctx context.Context, d Destination, in DestinationInput) error {
	if in.Lane != nil && same(in.Lane.Rate.Value, d.Lane.Rate) && same(in.Lane.MaxInFlight.Value, d.Lane.MaxInFlight) && same(in.Lane.Burst, &d.Lane.Burst) &&
		same(in.Lane.Learning, &d.Lane.Learning) {
		in.Lane = nil
	}
	_, err := s.updateDestination(ctx, d.RowID, in)
	return err
}

func same[T comparable](a, b *T) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// formOf is what the form shows of a stored destination.
func formOf(d Destination) destinationForm {
	f := destinationForm{
		Name: d.Name, URL: d.URL, Tenant: text(d.Tenant), Burst: strconv.FormatInt(d.Lane.Burst, 10), Learning: d.Lane.Learning, Timeout: d.Timeout, TTL: d.TTL, Ordering: d.Ordering,
		Schedule: strings.Join(d.Retry.Schedule, " "), Jitter: number(math.Round(d.Retry.Jitter*1e6) / 1e4),
	}
	if d.Lane.Rate != nil {
		f.Rate = number(*d.Lane.Rate)
	}
	if d.Lane.MaxInFlight != nil {
		f.MaxFlight = strconv.FormatInt(*d.Lane.MaxInFlight, 10)
	}
	f.Subscriptions = joinLines(subscriptionLines(d))
	f.shownSubscriptions = f.Subscriptions
	var rules []string
	for _, r := range d.Responses {
		rules = append(rules, r.Status+" "+string(r.Verdict))
	}
	f.Responses = joinLines(rules)
	for name := range d.Headers {
		f.Stored = append(f.Stored, name)
	}
	slices.Sort(f.Stored)
	f.Kept = f.Stored
	return f
}

func subscriptionLines(d Destination) []string {
	var lines []string
	for _, sub := range d.Subscriptions {
		for _, pattern := range sub.Types {
			if sub.Tenant != nil {
				pattern += " tenant=" + *sub.Tenant
			}
			lines = append(lines, pattern)
		}
	}
	return lines
}

// burstWarnings says what the burst that was typed costs, where both are numbers.
func (f destinationForm) burstWarnings() []string {
	rate, err := strconv.ParseFloat(f.Rate, 64)
	burst, burstErr := strconv.ParseInt(f.Burst, 10, 64)
	if err != nil || burstErr != nil || !(rate >= minRate && rate <= maxRate) || burst < 1 {
		return nil
	}
	return budgetWarnings(&rate, burst)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// limitWords is a budget as it was typed.
func limitWords(rate *float64, burst int64, most *int64) string {
	words := "no rate limit"
	if rate != nil {
		words = number(*rate) + "/s, burst " + strconv.FormatInt(burst, 10)
	}
	if most != nil {
		words += ", " + strconv.FormatInt(*most, 10) + " in flight"
	}
	return words
}

func limitOf(d destinationRow) string {
	var most *int64
	if d.MaxInFlight != nil {
		n := int64(*d.MaxInFlight)
		most = &n
	}
	return limitWords(d.Rate, int64(d.Burst), most)
}
