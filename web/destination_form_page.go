package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"weir/jobs"
	"weir/jobs/webhook"
	"weir/web/ui"
)

// formFields maps the field of an *jobs.InvalidError onto the form's, with its label.
var formFields = map[string]struct{ id, label string }{
	"name": {"name", "Name"}, "url": {"url", "URL"}, "tenant": {"tenant", "Tenant"}, "lane.rate": {"rate", "Rate"}, "lane.burst": {"burst", "Burst"},
	"rate": {"rate", "Rate"}, "burst": {"burst", "Burst"}, "max_in_flight": {"max_in_flight", "In flight at most"}, "learning": {"learning", "Follow the receiver"}, // a lane's own form
	"lane.max_in_flight": {"max_in_flight", "In flight at most"}, "lane.learning": {"learning", "Learning"}, "subscriptions": {"subscriptions", "Subscriptions"}, "timeout": {"timeout", "Timeout"}, "ordering": {"ordering", "Versions"},
	"ttl": {"ttl", "Time to live"}, "retry.schedule": {"schedule", "Retry schedule"}, "retry.jitter": {"jitter", "Jitter"},
	"responses": {"responses", "Responses"}, "headers": {"headers", "Custom headers"}, "secret": {"secret", "Signing secret"},
}

var indexed = regexp.MustCompile(`\[(\d+)\]`)

// fieldErrors finds out where in the form an error belongs; false where it is none of the form's.
func fieldErrors(err error) ([]ui.FieldError, bool) {
	var wrong *jobs.InvalidError
	var conflict *jobs.ConflictError
	switch {
	case errors.As(err, &wrong):
		name, problem := wrong.Field, wrong.Problem
		if at := indexed.FindStringSubmatch(name); at != nil && !strings.HasPrefix(name, "subscriptions") {
			n, _ := strconv.Atoi(at[1])
			problem = fmt.Sprintf("entry %d: %s", n+1, problem)
		}
		name, _, _ = strings.Cut(name, "[")
		if rest, ok := strings.CutPrefix(name, "headers."); ok {
			name, problem = "headers", rest+" "+problem
		}
		if f, ok := formFields[name]; ok {
			return []ui.FieldError{{ID: f.id, Label: f.label, Problem: capital(problem)}}, true
		}
		return []ui.FieldError{{Problem: sentence(name, wrong.Problem)}}, true
	case errors.As(err, &conflict):
		return []ui.FieldError{{ID: "name", Label: "Name", Problem: capital(conflict.Problem)}}, true
	}
	return nil, false
}

type destinationFormModel struct {
	Frame    ui.Frame
	ID       string // empty: a new one
	Title    string
	Form     destinationForm
	Errors   []ui.FieldError
	Defaults []webhook.Rule
	Forecast *forecastModel // of what is typed, where that was asked for
}

func (m destinationFormModel) problem(id string) string { return problemAt(m.Errors, id) }

// problemAt is what is wrong at one field of a form; empty: nothing.
func problemAt(wrong []ui.FieldError, id string) string {
	for _, e := range wrong {
		if e.ID == id {
			return e.Problem
		}
	}
	return ""
}

func (m destinationFormModel) action() string {
	if m.ID == "" {
		return "/destinations"
	}
	return "/destinations/" + m.ID
}

func (m destinationFormModel) keeps(header string) bool {
	return slices.ContainsFunc(m.Form.Kept, func(k string) bool { return strings.EqualFold(k, header) })
}

func (s *Server) destinationNewPage(c echo.Context) error {
	return s.showDestinationForm(c, http.StatusOK, "", "", newDestinationForm(), nil)
}

func (s *Server) showDestinationForm(c echo.Context, status int, id, name string, form destinationForm, errs []ui.FieldError) error {
	return s.showDestinationPreview(c, status, destinationFormModel{ID: id, Form: form, Errors: errs}, name)
}

// showDestinationPreview is showDestinationForm with whatever else the model holds.
func (s *Server) showDestinationPreview(c echo.Context, status int, m destinationFormModel, name string) error {
	m.Title, m.Defaults = "Add a destination", webhook.DefaultRules()
	if m.ID != "" {
		m.Title = "Change " + name
	}
	m.Frame = s.frame(c, "destinations", m.Title)
	return render(c, status, destinationFormView(m))
}

func (s *Server) destinationCreate(c echo.Context) error {
	form, err := readDestinationForm(c)
	if err != nil {
		return err
	}
	made, secret, err := s.createFromForm(c.Request().Context(), form)
	if errs, ok := fieldErrors(err); ok {
		return s.showDestinationForm(c, http.StatusUnprocessableEntity, "", "", form, errs)
	}
	if err != nil {
		return err
	}
	return s.showSecret(c, made, secret, "The destination is there, and takes events from now on.")
}

func (s *Server) createFromForm(ctx context.Context, form destinationForm) (Destination, string, error) {
	in, err := form.input(true)
	if err != nil {
		return Destination{}, "", err
	}
	return s.formCreate(ctx, in)
}

func (s *Server) destinationEditPage(c echo.Context) error {
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	return s.showDestinationForm(c, http.StatusOK, d.ID, d.Name, formOf(d), nil)
}

// destinationForecast answers the form with everything that was typed, and what the pace and the times in it would have done to the last day.
func (s *Server) destinationForecast(c echo.Context) error {
	form, err := readDestinationForm(c)
	if err != nil {
		return err
	}
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	form.Stored = formOf(d).Stored
	in, err := form.input(false)
	var forecast forecastModel
	if err == nil {
		forecast, err = s.forecastDestination(c.Request().Context(), d.RowID, in)
	}
	if errs, ok := fieldErrors(err); ok {
		return s.showDestinationForm(c, http.StatusUnprocessableEntity, d.ID, d.Name, form, errs)
	}
	if err != nil {
		return err
	}
	return s.showDestinationPreview(c, http.StatusOK, destinationFormModel{ID: d.ID, Form: form, Forecast: &forecast}, d.Name)
}

func (s *Server) destinationUpdate(c echo.Context) error {
	form, err := readDestinationForm(c)
	if err != nil {
		return err
	}
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	form.Stored = formOf(d).Stored
	in, err := form.input(false)
	if err == nil {
		err = s.formUpdate(c.Request().Context(), d, in)
	}
	if errs, ok := fieldErrors(err); ok {
		return s.showDestinationForm(c, http.StatusUnprocessableEntity, d.ID, d.Name, form, errs)
	}
	if err != nil {
		return err
	}
	return s.done(c, "/destinations/"+d.ID, "Saved. It holds from the next request on.")
}
