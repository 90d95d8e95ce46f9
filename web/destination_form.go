package web

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"weir/jobs"
	"weir/jobs/webhook"
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
