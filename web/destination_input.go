package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"weir/jobs"
	"weir/jobs/webhook"
)

// The defaults of a destination, for what is left out.
const (
	defaultTimeout     = 10 * time.Second
	defaultTTL         = 72 * time.Hour
	defaultOrdering    = "all"
	orderingLatest     = "latest" // an older version that still waits gives way
	orderingSerial     = "serial" // a subject's versions one after another
	defaultJitter      = 0.2
	defaultRate        = 10.0
	defaultBurst       = 10
	defaultMaxInFlight = 4
)

// defaultSchedule is a function, so that nobody can change it for everybody.
func defaultSchedule() []time.Duration {
	return []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour}
}

const (
	maxSubscriptions = 100
	maxPatterns      = 100
	maxHeaders       = 50
	maxSchedule      = 100
	maxURLLength     = 2000
	minRate          = 0.00001 // about one a day
	maxRate          = 100_000
	lookupTimeout    = 2 * time.Second
)

// DestinationInput is a destination as the API and the form hand it in. Nil and not Set mean left out: the default when it is created,
// unchanged when it is updated.
type DestinationInput struct {
	Name          *string              `json:"name,omitempty" doc:"Unique among the destinations."`
	URL           *string              `json:"url,omitempty" doc:"https; http only inside the networks that WEIR_ALLOW_NETWORKS lists."`
	Tenant        Optional[string]     `json:"tenant,omitempty" doc:"Only events of this tenant; null: of every tenant."`
	Lane          *LaneInput           `json:"lane,omitempty"`
	Subscriptions *[]SubscriptionInput `json:"subscriptions,omitempty" doc:"Left out: every event. An empty list: none but test events."`
	Timeout       *string              `json:"timeout,omitempty" doc:"1s to 60s, 10s if left out."`
	TTL           *string              `json:"ttl,omitempty" doc:"How long a delivery may take in all, 72h if left out."`
	Ordering      *string              `json:"ordering,omitempty" enum:"all,latest,serial"`
	Retry         *RetryInput          `json:"retry,omitempty"`
	Responses     *[]webhook.Rule      `json:"responses,omitempty" doc:"Verdicts that differ from the defaults. Replaced as a whole."`
	Headers       *map[string]*string  `json:"headers,omitempty" doc:"Write-only, replaced as a whole; null keeps the value that is stored."`
	Secret        *string              `json:"secret,omitempty" doc:"Only when it is created: whsec_ or whsk_ and base64. Generated if left out."`
}

// SubscriptionInput says which events go to the destination.
type SubscriptionInput struct {
	Types  []string         `json:"types" doc:"A type, a beginning and .*, or *."`
	Tenant Optional[string] `json:"tenant,omitempty"`
	Filter Optional[any]    `json:"filter,omitempty" doc:"Not available yet: null."`
}

// RetryInput is when to try again.
type RetryInput struct {
	Schedule *[]string `json:"schedule,omitempty" doc:"n waits mean n + 1 attempts; an empty list is one attempt, 0s is at once."`
	Jitter   *float64  `json:"jitter,omitempty" doc:"0 to 1: how far a wait may be off, as a share of it."`
}

// destinationPolicy is a whole, checked destination: what is stored.
type destinationPolicy struct {
	name, url     string
	tenant        *string
	timeout, ttl  time.Duration
	ordering      string
	schedule      []time.Duration
	jitter        float64
	responses     webhook.Policy
	subscriptions []SubscriptionInput // nil: unchanged
}

func invalid(field, problem string) error { return &jobs.InvalidError{Field: field, Problem: problem} }

// validate puts the input onto base, which holds the defaults or what is stored, and returns an *jobs.InvalidError for the first field
// that cannot be taken.
func (s *Server) validate(ctx context.Context, in DestinationInput, base destinationPolicy) (destinationPolicy, error) {
	p := base
	for _, step := range []func() error{
		func() error { return setName(in.Name, &p.name) },
		func() error { return s.setURL(ctx, in.URL, &p.url) },
		func() error { return setTenant("tenant", in.Tenant, &p.tenant) },
		func() error { return setSubscriptions(in.Subscriptions, &p) },
		func() error {
			return setDuration("timeout", in.Timeout, time.Second, time.Minute, time.Millisecond, &p.timeout)
		},
		func() error { return setDuration("ttl", in.TTL, time.Second, 8760*time.Hour, time.Second, &p.ttl) },
		func() error { return setOrdering(in.Ordering, &p.ordering) },
		func() error { return setRetry(in.Retry, &p) },
		func() error { return setResponses(in.Responses, &p.responses) },
		func() error { return checkHeaders(in.Headers) },
	} {
		if err := step(); err != nil {
			return destinationPolicy{}, err
		}
	}
	return p, nil
}

func setName(in *string, into *string) error {
	if in == nil {
		if *into == "" {
			return invalid("name", "is missing")
		}
		return nil
	}
	name := strings.TrimSpace(*in)
	*into = name
	return checkName("name", name, 200)
}

func (s *Server) setURL(ctx context.Context, in *string, into *string) error {
	if in == nil {
		if *into == "" {
			return invalid("url", "is missing")
		}
		return nil
	}
	u, err := s.Guard.CheckURL(*in)
	if err != nil {
		return invalid("url", err.Error())
	}
	stored := u.String()
	if len(stored) > maxURLLength {
		return invalid("url", fmt.Sprintf("is longer than %d bytes", maxURLLength))
	}
	if stored == *into {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	if err := s.Guard.CheckHost(ctx, nil, u); err != nil {
		return invalid("url", err.Error())
	}
	*into = stored
	return nil
}

func setTenant(field string, in Optional[string], into **string) error {
	if !in.Set {
		return nil
	}
	*into = in.Value
	switch {
	case in.Value == nil:
		return nil
	case *in.Value == "":
		return invalid(field, "is empty; null means every tenant")
	case len(*in.Value) > 100:
		return invalid(field, "is longer than 100 bytes")
	case strings.ContainsAny(*in.Value, "/ "):
		return invalid(field, "must not contain a slash or a space")
	}
	return checkText(field, *in.Value)
}

func setSubscriptions(in *[]SubscriptionInput, p *destinationPolicy) error {
	if in == nil {
		return nil
	}
	if len(*in) > maxSubscriptions {
		return invalid("subscriptions", fmt.Sprintf("has more than %d entries", maxSubscriptions))
	}
	p.subscriptions = slices.Clone(*in)
	if p.subscriptions == nil {
		p.subscriptions = []SubscriptionInput{}
	}
	for i, sub := range p.subscriptions {
		path := fmt.Sprintf("subscriptions[%d]", i)
		if len(sub.Types) == 0 {
			return invalid(path+".types", "is missing; want types such as \"shipment.updated\", \"shipment.*\" or \"*\"")
		}
		if len(sub.Types) > maxPatterns {
			return invalid(path+".types", fmt.Sprintf("has more than %d entries", maxPatterns))
		}
		for j, pattern := range sub.Types {
			if err := jobs.CheckPattern(pattern); err != nil {
				return invalid(fmt.Sprintf("%s.types[%d]", path, j), problemOf(err))
			}
		}
		var tenant *string
		if err := setTenant(path+".tenant", sub.Tenant, &tenant); err != nil {
			return err
		}
		if sub.Filter.Value != nil {
			return invalid(path+".filter", "is not available yet; leave it out, or null")
		}
	}
	return nil
}

func problemOf(err error) string {
	var wrong *jobs.InvalidError
	if errors.As(err, &wrong) {
		return wrong.Problem
	}
	return err.Error()
}

func setDuration(field string, in *string, least, most, unit time.Duration, into *time.Duration) error {
	if in == nil {
		return nil
	}
	d, err := parseDuration(field, *in)
	if err != nil {
		return err
	}
	if d < least || d > most {
		return invalid(field, fmt.Sprintf("want %s to %s", formatDuration(least), formatDuration(most)))
	}
	if d%unit != 0 {
		return invalid(field, "want a multiple of "+formatDuration(unit))
	}
	*into = d
	return nil
}

func parseDuration(field, text string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		return 0, invalid(field, "want a duration such as \"500ms\", \"30s\", \"5m\" or \"2h\"")
	}
	if d < 0 {
		return 0, invalid(field, "must not be negative")
	}
	return d, nil
}

// formatDuration is Go's text without the zeros that it ends in: 72h, 5m, 1m30s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func setOrdering(in *string, into *string) error {
	if in == nil {
		return nil
	}
	switch *in {
	case defaultOrdering, orderingLatest, orderingSerial:
		*into = *in
		return nil
	default:
		return invalid("ordering", "want \"all\", \"latest\" or \"serial\"")
	}
}

func setRetry(in *RetryInput, p *destinationPolicy) error {
	if in == nil {
		return nil
	}
	if in.Jitter != nil {
		if *in.Jitter < 0 || *in.Jitter > 1 || math.IsNaN(*in.Jitter) {
			return invalid("retry.jitter", "want 0 to 1")
		}
		p.jitter = *in.Jitter
	}
	if in.Schedule == nil {
		return nil
	}
	if len(*in.Schedule) > maxSchedule {
		return invalid("retry.schedule", fmt.Sprintf("has more than %d entries", maxSchedule))
	}
	p.schedule = make([]time.Duration, len(*in.Schedule))
	for i, text := range *in.Schedule {
		if err := setDuration(fmt.Sprintf("retry.schedule[%d]", i), &text, 0, 8760*time.Hour, time.Millisecond, &p.schedule[i]); err != nil {
			return err
		}
	}
	return nil
}

func setResponses(in *[]webhook.Rule, into *webhook.Policy) error {
	if in == nil {
		return nil
	}
	for i, rule := range *in {
		if err := (webhook.Policy{rule}).Validate(); err != nil {
			return invalid(fmt.Sprintf("responses[%d]", i), strings.TrimPrefix(err.Error(), "responses, entry 1: "))
		}
	}
	if err := webhook.Policy(*in).Validate(); err != nil {
		return invalid("responses", strings.TrimPrefix(err.Error(), "responses, "))
	}
	*into = slices.Clone(*in)
	return nil
}

func checkHeaders(in *map[string]*string) error {
	if in == nil {
		return nil
	}
	if len(*in) > maxHeaders {
		return invalid("headers", fmt.Sprintf("has more than %d entries", maxHeaders))
	}
	seen := map[string]bool{}
	for name, value := range *in {
		path := "headers." + printableID(name)
		checked := "unchanged"
		if value != nil {
			checked = *value
		}
		if err := webhook.CheckHeader(name, checked); err != nil {
			return invalid(path, err.Error())
		}
		if len(name) > 100 {
			return invalid(path, "has a name longer than 100 bytes")
		}
		if seen[strings.ToLower(name)] {
			return invalid(path, "is given twice; header names have no case")
		}
		seen[strings.ToLower(name)] = true
	}
	return nil
}

// margin is what a lane keeps back so that the limit holds at the receiver (see the lane table), in seconds.
const margin = 0.015
