package web

import (
	"context"
	"fmt"
	"slices"

	"weir/db/dbsqlc"
)

// destinationFacts are a destination's settings. Of headers there are the names, of secrets the last four characters.
func (s *Server) destinationFacts(ctx context.Context, tx dbsqlc.DBTX, id int64) (facts, string, error) {
	row, err := s.queries.DestinationGetByID(ctx, tx, id)
	if err != nil {
		return nil, "", destinationError(id, err)
	}
	views, err := s.describeDestinations(ctx, tx, []dbsqlc.Destination{row})
	if err != nil {
		return nil, "", err
	}
	d := views[0]
	rules := make([]string, len(d.Responses))
	for i, r := range d.Responses {
		rules[i] = r.Status + " " + string(r.Verdict)
	}
	f := facts{
		"name": d.Name, "url": redactURL(d.URL), "state": d.State, "tenant": text(d.Tenant), "subscriptions": orEmpty(subscriptionLines(d)),
		"timeout": d.Timeout, "ttl": d.TTL, "ordering": d.Ordering, "retry.schedule": d.Retry.Schedule, "retry.jitter": d.Retry.Jitter,
		"responses": rules, "headers": orEmpty(headerNames(d)), "secrets": secretFacts(d.Secrets), "lane": d.Lane.ID,
	}
	for name, value := range laneFacts(d.Lane) {
		f["lane."+name] = value
	}
	delete(f, "lane.name")
	return f, d.Name, nil
}

func laneFacts(l Lane) facts {
	f := facts{"name": l.Name, "rate": "not limited", "burst": l.Burst, "max_in_flight": "not limited", "learning": l.Learning}
	if l.Rate != nil {
		f["rate"] = *l.Rate
	}
	if l.MaxInFlight != nil {
		f["max_in_flight"] = *l.MaxInFlight
	}
	return f
}

func secretFacts(secrets []SecretHint) []string {
	lines := make([]string, len(secrets))
	for i, secret := range secrets {
		lines[i] = fmt.Sprintf("…%s (%s)", secret.Hint, secret.Scheme)
		if secret.ExpiresAt != nil {
			lines[i] += " until " + secret.ExpiresAt.UTC().Format("2006-01-02 15:04:05")
		}
	}
	return lines
}

// hiddenChanges names what was set to a value that the facts do not show.
func hiddenChanges(before, after facts, in DestinationInput, urlBefore, urlAfter string) {
	if urlBefore != urlAfter && before["url"] == after["url"] {
		after["url"] = fmt.Sprint(after["url"], " (a part that is not shown here changed)")
	}
	if in.Headers == nil {
		return
	}
	set := []string{}
	for name, value := range *in.Headers {
		if value != nil {
			set = append(set, name)
		}
	}
	if slices.Sort(set); len(set) > 0 {
		after["headers set"] = set
	}
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	slices.Sort(list)
	return list
}
