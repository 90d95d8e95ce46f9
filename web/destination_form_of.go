package web

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
)

// What stands between a stored destination and its form.

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
		Name: d.Name, URL: d.URL, Tenant: text(d.Tenant), budgetForm: budgetFormOf(d.Lane), Timeout: d.Timeout, TTL: d.TTL, Ordering: d.Ordering,
		Schedule: strings.Join(d.Retry.Schedule, " "), Jitter: number(math.Round(d.Retry.Jitter*1e6) / 1e4),
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
