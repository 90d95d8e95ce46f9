package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/jobs"
)

// parseStatus reads "503", "5xx" or "none".
func parseStatus(text string) (statusRange, bool) {
	switch text = strings.ToLower(text); {
	case text == "":
		return statusRange{}, true
	case text == "none":
		return statusRange{noAnswer, noAnswer}, true
	case len(text) != 3 || text[0] < '1' || text[0] > '5':
		return statusRange{}, false
	case text[1:] == "xx":
		low := int32(text[0]-'0') * 100
		return statusRange{low, low + 99}, true
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return statusRange{int32(n), int32(n)}, err == nil
}

// deliveryQuery is a filter as it is written in an address. All of it may be left empty.
type deliveryQuery struct {
	State, Destination, Lane, Event, Subject, Type, Tenant, Status, ErrorClass, Since, From, Until string
}

// parse reads what can be read; the rest is cleared, and said.
func (q *deliveryQuery) parse(now time.Time) (deliveryFilter, []jobs.InvalidError) {
	f := deliveryFilter{}
	var problems []jobs.InvalidError
	refuse := func(field string, value *string, problem string) {
		problems = append(problems, jobs.InvalidError{Field: field, Problem: problem})
		*value = ""
	}
	for _, field := range []struct {
		name  string
		value *string
		limit int
		into  *string
	}{
		{"event", &q.Event, 400, &f.EventID}, {"subject", &q.Subject, 255, &f.Subject}, {"type", &q.Type, 100, &f.Type},
		{"tenant", &q.Tenant, 100, &f.Tenant}, {"error_class", &q.ErrorClass, 60, &f.ErrorClass},
	} {
		*field.value = strings.TrimSpace(*field.value)
		if checkText(field.name, *field.value) != nil || len(*field.value) > field.limit {
			refuse(field.name, field.value, "is not one that there can be")
		}
		*field.into = *field.value
	}
	if q.State != "" && !slices.Contains(deliveryStates, q.State) {
		refuse("state", &q.State, "want pending, retrying, delivered, expired, dead_lettered, superseded or cancelled")
	}
	f.State = q.State
	for _, field := range []struct {
		prefix, name string
		value        *string
		into         *int64
	}{{idDestination, "destination", &q.Destination, &f.DestinationID}, {idLane, "lane", &q.Lane, &f.LaneID}} {
		if *field.value == "" {
			continue
		}
		id, err := parseID(field.prefix, *field.value)
		if err != nil {
			refuse(field.name, field.value, "want the id of a "+idNames[field.prefix]+", such as "+field.prefix+"12")
		}
		*field.into = id
	}
	var ok bool
	q.Status = strings.TrimSpace(q.Status)
	if f.Status, ok = parseStatus(q.Status); !ok {
		refuse("status", &q.Status, "want a status such as 503, a class such as 5xx, or none")
	}
	q.parseTimes(&f, now, refuse)
	return f, problems
}

func (q *deliveryQuery) parseTimes(f *deliveryFilter, now time.Time, refuse func(string, *string, string)) {
	if q.Since != "" {
		span, err := parseSpan(q.Since)
		if err != nil {
			refuse("since", &q.Since, "want a length of time, such as 15m, 24h or 7d")
		} else {
			f.From = now.Add(-span)
		}
	}
	for _, field := range []struct {
		name  string
		value *string
		into  *time.Time
	}{{"from", &q.From, &f.From}, {"until", &q.Until, &f.Until}} {
		if *field.value == "" {
			continue
		}
		at, ok := parseMoment(*field.value)
		if !ok {
			refuse(field.name, field.value, "want a time such as 2026-11-30T14:03:00Z")
			continue
		}
		*field.into = at
		if at = at.UTC(); at.Nanosecond() == 0 {
			*field.value = at.Format("2006-01-02T15:04:05") // what a browser's date field can show
		}
	}
}

// parseSpan reads Go's durations, and days.
func parseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 12)
		return time.Duration(n) * 24 * time.Hour, err
	}
	span, err := time.ParseDuration(text)
	if err == nil && (span <= 0 || span > 10*366*24*time.Hour) {
		err = fmt.Errorf("not a span")
	}
	return span, err
}

// address is a page of the panel with this filter; empty values are left out.
func (q *deliveryQuery) address(path string, more ...string) string {
	return query(path, append([]string{
		"state", q.State, "destination", q.Destination, "lane", q.Lane, "event", q.Event, "subject", q.Subject, "type", q.Type, "tenant", q.Tenant,
		"status", q.Status, "error_class", q.ErrorClass, "since", q.Since, "from", q.From, "until", q.Until,
	}, more...)...)
}
