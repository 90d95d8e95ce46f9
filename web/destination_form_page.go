package web

import (
	"cmp"
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

// destinationForm is a destination as it stands in the form: text, as typed.
type destinationForm struct {
	Name, URL, Tenant string
	budgetForm
	Subscriptions      string // one pattern per line
	Timeout, TTL       string
	Ordering           string
	Schedule, Jitter   string
	Responses          string // "409 delivered", one per line
	Headers            string // "X-Api-Key: …", one per line: to add or replace
	Secret             string
	Stored, Kept       []string // names of headers whose values are stored, and those to keep
	shownSubscriptions string   // as the page showed them: unchanged text changes nothing
	SharedLane         string
}

func newDestinationForm() destinationForm {
	schedule := make([]string, 0, 7)
	for _, wait := range defaultSchedule() {
		schedule = append(schedule, formatDuration(wait))
	}
	return destinationForm{
		budgetForm: budgetForm{Rate: "10", Burst: "10", MaxFlight: "4", Learning: learningOff}, Subscriptions: "*", Timeout: formatDuration(defaultTimeout), TTL: formatDuration(defaultTTL), Ordering: defaultOrdering,
		Schedule: strings.Join(schedule, " "), Jitter: "20",
	}
}

// readDestinationForm takes what was typed; nothing is checked yet.
func readDestinationForm(c echo.Context) (destinationForm, error) {
	if err := parseForm(c); err != nil {
		return destinationForm{}, err
	}
	v := c.Request().PostForm
	line := func(name string) string { return strings.TrimSpace(v.Get(name)) }
	lines := func(name string) string { return strings.ReplaceAll(v.Get(name), "\r\n", "\n") }
	return destinationForm{
		Name: v.Get("name"), URL: line("url"), Tenant: line("tenant"),
		budgetForm:    budgetForm{Rate: line("rate"), Burst: line("burst"), MaxFlight: line("max_in_flight"), Learning: cmp.Or(line("learning"), learningOff)},
		Subscriptions: lines("subscriptions"), Timeout: line("timeout"), TTL: line("ttl"), Ordering: cmp.Or(line("ordering"), defaultOrdering), Schedule: line("schedule"), Jitter: line("jitter"),
		Responses: lines("responses"), Headers: lines("headers"), Secret: line("secret"), Kept: v["keep"], shownSubscriptions: lines("shown_subscriptions"),
	}, nil
}

// input makes of the form what the API takes, so that both are checked by the same rules.
func (f destinationForm) input(creating bool) (DestinationInput, error) {
	in := DestinationInput{Name: &f.Name, URL: &f.URL, Timeout: &f.Timeout, TTL: &f.TTL, Ordering: &f.Ordering, Lane: &LaneInput{}}
	in.Tenant = Null[string]()
	if f.Tenant != "" {
		in.Tenant = Given(f.Tenant)
	}
	for _, step := range []func(*DestinationInput) error{f.budget, f.retry, f.subscriptions, f.responses, f.headers} {
		if err := step(&in); err != nil {
			return in, err
		}
	}
	if creating && f.Secret != "" {
		in.Secret = &f.Secret
	}
	return in, nil
}

func (f destinationForm) budget(in *DestinationInput) error {
	lane, err := f.budgetForm.input("lane.")
	in.Lane = &lane
	return err
}

func (f destinationForm) retry(in *DestinationInput) error {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(f.Jitter, "%"), 64)
	if err != nil || !(percent >= 0 && percent <= 100) {
		return invalid("retry.jitter", "want 0 to 100")
	}
	jitter := percent / 100
	schedule := strings.FieldsFunc(f.Schedule, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' || r == '\t' || r == '·' })
	if schedule == nil {
		schedule = []string{}
	}
	in.Retry = &RetryInput{Schedule: &schedule, Jitter: &jitter}
	return nil
}

// subscriptions reads "shipment.*" or "shipment.* tenant=acme" per line.
func (f destinationForm) subscriptions(in *DestinationInput) error {
	if f.shownSubscriptions != "" && f.Subscriptions == f.shownSubscriptions {
		return nil
	}
	subs := []SubscriptionInput{}
	for _, line := range filled(f.Subscriptions) {
		fields := strings.Fields(line.text)
		tenant := Null[string]()
		if len(fields) == 2 && strings.HasPrefix(fields[1], "tenant=") {
			tenant = Given(strings.TrimPrefix(fields[1], "tenant="))
		} else if len(fields) != 1 {
			return invalid("subscriptions", fmt.Sprintf("line %d: want one pattern, such as shipment.*", line.no))
		}
		if err := jobs.CheckPattern(fields[0]); err != nil {
			return invalid("subscriptions", fmt.Sprintf("line %d: %s", line.no, problemOf(err)))
		}
		if n := len(subs); n > 0 && text(subs[n-1].Tenant.Value) == text(tenant.Value) {
			subs[n-1].Types = append(subs[n-1].Types, fields[0])
			continue
		}
		subs = append(subs, SubscriptionInput{Types: []string{fields[0]}, Tenant: tenant})
	}
	in.Subscriptions = &subs
	return nil
}

func (f destinationForm) responses(in *DestinationInput) error {
	rules := []webhook.Rule{}
	for _, line := range filled(f.Responses) {
		fields := strings.Fields(line.text)
		if len(fields) != 2 {
			return invalid("responses", fmt.Sprintf("line %d: want a status and a verdict, such as 409 delivered", line.no))
		}
		rule := webhook.Rule{Status: fields[0], Verdict: webhook.Verdict(fields[1])}
		if err := (webhook.Policy{rule}).Validate(); err != nil {
			return invalid("responses", fmt.Sprintf("line %d: %s", line.no, strings.TrimPrefix(err.Error(), "responses, entry 1: ")))
		}
		rules = append(rules, rule)
	}
	in.Responses = &rules
	return nil
}

func (f destinationForm) headers(in *DestinationInput) error {
	headers := map[string]*string{}
	for _, name := range f.Kept {
		headers[name] = nil
	}
	for _, line := range filled(f.Headers) {
		name, value, ok := strings.Cut(line.text, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" {
			return invalid("headers", fmt.Sprintf("line %d: want a name, a colon and a value", line.no))
		}
		for kept := range headers {
			if strings.EqualFold(kept, name) {
				delete(headers, kept)
			}
		}
		headers[name] = &value
	}
	in.Headers = &headers
	return nil
}

type numbered struct {
	no   int
	text string
}

// filled are the lines that hold something, with their numbers.
func filled(text string) []numbered {
	var lines []numbered
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, numbered{i + 1, line})
		}
	}
	return lines
}

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

func (m destinationFormModel) problem(id string) string {
	for _, e := range m.Errors {
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
