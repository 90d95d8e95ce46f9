package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
	"weir/jobs"
)

// eventFilter is what a list of events is of; all of it has to hold. Zero values do not filter.
type eventFilter struct {
	Type, Subject, Tenant string    // the type exact, or "shipment.*" for everything below
	From, Until           time.Time // when it came: from the first on, before the second
	Label, Value          string    // what its payload has under a search key; no label: under any of them
	Cursor                string
	Limit                 int
}

// eventQuery is a filter as it is written in an address. All of it may be left empty.
type eventQuery struct {
	Type, Subject, Tenant, Since, From, Until, Key, Value string
}

// parse reads what can be read; the rest is cleared, and said.
func (q *eventQuery) parse(now time.Time) (eventFilter, []jobs.InvalidError) {
	d := deliveryQuery{Type: q.Type, Subject: q.Subject, Tenant: q.Tenant, Since: q.Since, From: q.From, Until: q.Until}
	parsed, problems := d.parse(now)
	*q = eventQuery{d.Type, d.Subject, d.Tenant, d.Since, d.From, d.Until, q.Key, strings.TrimSpace(q.Value)}
	for _, field := range []struct {
		name  string
		value *string
	}{{"key", &q.Key}, {"value", &q.Value}} {
		if checkText(field.name, *field.value) != nil || len(*field.value) > 1000 {
			problems = append(problems, jobs.InvalidError{Field: field.name, Problem: "is not one that there can be"})
			*field.value = ""
		}
	}
	f := eventFilter{Type: parsed.Type, Subject: parsed.Subject, Tenant: parsed.Tenant, From: parsed.From, Until: parsed.Until}
	if q.Value != "" {
		f.Label, f.Value = q.Key, jobs.CutKey(q.Value)
	} else if q.Key != "" {
		problems = append(problems, jobs.InvalidError{Field: "value", Problem: "is missing: what the payload has under the key"})
	}
	return f, problems
}

func (q *eventQuery) address(path string, more ...string) string {
	return query(path, append([]string{
		"type", q.Type, "subject", q.Subject, "tenant", q.Tenant, "since", q.Since, "from", q.From, "until", q.Until, "key", q.Key, "value", q.Value,
	}, more...)...)
}

// listEvents is one page of events, newest first.
func (s *Server) listEvents(ctx context.Context, f eventFilter) (Page[Event], error) {
	page, err := s.walkEvents(ctx, f)
	if err != nil {
		return Page[Event]{}, err
	}
	items, err := s.viewEvents(ctx, page.IDs)
	return Page[Event]{Items: items, NextCursor: page.cursor(), SearchedTo: page.SearchedTo}, err
}

// viewEvents loads events by their row ids, newest first.
func (s *Server) viewEvents(ctx context.Context, ids []int64) ([]Event, error) {
	if len(ids) == 0 {
		return []Event{}, nil
	}
	rows, err := s.queries.EventListMeta(ctx, s.Pool, ids)
	if err != nil {
		return nil, fmt.Errorf("load events: %w", err)
	}
	items := make([]Event, len(rows))
	for i, row := range rows {
		items[i] = eventOf(row)
	}
	return items, nil
}

func (s *Server) walkEvents(ctx context.Context, f eventFilter) (walked, error) {
	from, err := parsePlace(f.Cursor, false)
	if err != nil {
		return walked{}, err
	}
	low, high := int64(0), int64(math.MaxInt64)
	if !f.From.IsZero() {
		if low, err = s.eventAt(ctx, f.From); err != nil {
			return walked{}, err
		}
	}
	if !f.Until.IsZero() {
		if high, err = s.eventAt(ctx, f.Until); err != nil {
			return walked{}, err
		}
		from.Major = min(from.Major, high) // the walk begins there
		high--
	}
	labels, err := s.labels(ctx, f)
	if err != nil {
		return walked{}, err
	}
	page, err := walkPage(from, clampLimit(f.Limit), f.Type != "" || f.Tenant != "", scanTime, func(before place, length, limit int32) (stretch, error) {
		p := dbsqlc.EventPageParams{Before: before.Major, Low: low, Stretch: length, High: high, Type: orNil(f.Type), Tenant: orNil(f.Tenant), Max: limit}
		row, err := s.scanEvents(ctx, f, labels, p)
		part := stretch{Scanned: row.Scanned, Floor: place{row.Floor, -1}, FloorAt: row.FloorAt, IDs: row.Ids, Places: make([]place, len(row.Ids))}
		for i, id := range row.Ids {
			part.Places[i] = place{id, -1}
		}
		return part, err
	})
	if err != nil {
		return walked{}, fmt.Errorf("list events: %w", err)
	}
	return page, nil
}

// scanEvents reads one stretch along the index that the filter has. A key and a subject together go by the key.
func (s *Server) scanEvents(ctx context.Context, f eventFilter, labels []string, p dbsqlc.EventPageParams) (dbsqlc.EventPageRow, error) {
	switch {
	case f.Value != "":
		row, err := s.queries.EventPageByKey(ctx, s.Pool, dbsqlc.EventPageByKeyParams{
			Labels: labels, Value: f.Value, Subject: orNil(f.Subject), Before: p.Before, Stretch: p.Stretch, Low: p.Low, High: p.High, Type: p.Type, Tenant: p.Tenant, Max: p.Max,
		})
		return dbsqlc.EventPageRow(row), err
	case f.Subject != "":
		row, err := s.queries.EventPageBySubject(ctx, s.Pool, dbsqlc.EventPageBySubjectParams{
			Subject: f.Subject, Before: p.Before, Low: p.Low, Stretch: p.Stretch, High: p.High, Type: p.Type, Tenant: p.Tenant, Max: p.Max,
		})
		return dbsqlc.EventPageRow(row), err
	default:
		return s.queries.EventPage(ctx, s.Pool, p)
	}
}

// labels are those that a search by value looks under.
func (s *Server) labels(ctx context.Context, f eventFilter) ([]string, error) {
	if f.Value == "" || f.Label != "" {
		return []string{f.Label}, nil
	}
	labels, err := s.queries.EventKeyListLabel(ctx, s.Pool)
	if err != nil {
		return nil, fmt.Errorf("list search keys: %w", err)
	}
	return labels, nil
}

// findEvent is an event by the producer's id.
func (s *Server) findEvent(ctx context.Context, id string) (Event, error) {
	if checkText("id", id) != nil {
		return Event{}, &jobs.NotFoundError{What: "event", ID: printableID(id)}
	}
	row, err := s.queries.EventGetMeta(ctx, s.Pool, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Event{}, &jobs.NotFoundError{What: "event", ID: printableID(id)}
	}
	if err != nil {
		return Event{}, fmt.Errorf("load event: %w", err)
	}
	return eventOf(dbsqlc.EventListMetaRow(row)), nil
}

func isNotFound(err error) bool {
	var missing *jobs.NotFoundError
	return errors.As(err, &missing)
}
