package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/jobs/webhook"
)

const (
	defaultOverlap = 24 * time.Hour
	maxOverlap     = 7 * 24 * time.Hour
	maxSecrets     = 5 // that sign at once; each is a signature in the header
	maxWaiting     = 10_000
)

// Destination is a destination as the API and the panel show it: everything but the values of its secrets and headers.
type Destination struct {
	ID            string             `json:"id" example:"dst_1"`
	Name          string             `json:"name"`
	URL           string             `json:"url"`
	State         string             `json:"state" enum:"active,paused,disabled"`
	StateReason   string             `json:"state_reason"`
	StateSince    time.Time          `json:"state_since"`
	DrainingSince *time.Time         `json:"draining_since" doc:"Events that came since are not owed to it; what it was owed before is still delivered. null: it takes events."`
	Tenant        *string            `json:"tenant"`
	Lane          Lane               `json:"lane"`
	Subscriptions []Subscription     `json:"subscriptions"`
	Timeout       string             `json:"timeout" example:"10s"`
	TTL           string             `json:"ttl" example:"72h"`
	Ordering      string             `json:"ordering"`
	Retry         Retry              `json:"retry"`
	Responses     []webhook.Rule     `json:"responses"`
	Headers       map[string]*string `json:"headers" doc:"The names; the values are write-only, and null here."`
	Secrets       []SecretHint       `json:"secrets" doc:"Those that sign now, newest first. The values are never shown again."`
	Waiting       int                `json:"waiting" doc:"Deliveries that wait for their turn; counted up to 10000 where the lane is shared."`
	Warnings      []string           `json:"warnings"`
	CreatedAt     time.Time          `json:"created_at"`
	UpdatedAt     time.Time          `json:"updated_at"`

	DrainingReason string `json:"-"`
	RowID          int64  `json:"-"`
}

// Subscription says which events go to a destination.
type Subscription struct {
	Types  []string `json:"types"`
	Tenant *string  `json:"tenant"`
	Filter *string  `json:"filter"`
}

// Retry is when to try again.
type Retry struct {
	Schedule []string `json:"schedule"`
	Jitter   float64  `json:"jitter"`
}

// SecretHint tells secrets apart without showing them.
type SecretHint struct {
	Scheme    string     `json:"scheme" enum:"v1,v1a"`
	Hint      string     `json:"hint" doc:"The last four characters."`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at" doc:"Set by a rotation: it signs until then."`
}

var errChanged = errors.New("changed meanwhile")

// listDestinations is one page by id, of those whose name or URL holds the search.
func (s *Server) listDestinations(ctx context.Context, after int64, search string, limit int) (Page[Destination], error) {
	if err := checkText("search", search); err != nil {
		return Page[Destination]{}, err
	}
	limit = clampLimit(limit)
	rows, err := s.queries.DestinationList(ctx, s.Pool, dbsqlc.DestinationListParams{After: after, Search: search, Max: int32(limit + 1)})
	if err != nil {
		return Page[Destination]{}, fmt.Errorf("list destinations: %w", err)
	}
	page := Page[Destination]{}
	if len(rows) > limit {
		rows = rows[:limit]
		page.NextCursor = orNil(formatCursor(rows[limit-1].ID))
	}
	page.Items, err = s.viewDestinations(ctx, rows)
	return page, err
}

func (s *Server) getDestination(ctx context.Context, id int64) (Destination, error) {
	row, err := s.queries.DestinationGetByID(ctx, s.Pool, id)
	if err != nil {
		return Destination{}, destinationError(id, err)
	}
	views, err := s.viewDestinations(ctx, []dbsqlc.Destination{row})
	if err != nil {
		return Destination{}, err
	}
	return views[0], nil
}

// viewDestinations loads what belongs to the rows, in one query per table, and counts what waits for them.
func (s *Server) viewDestinations(ctx context.Context, rows []dbsqlc.Destination) ([]Destination, error) {
	views, err := s.describeDestinations(ctx, s.Pool, rows)
	if err != nil {
		return nil, err
	}
	ids, at := make([]int64, len(views)), map[int64]*Destination{}
	for i := range views {
		ids[i], at[views[i].RowID] = views[i].RowID, &views[i]
	}
	waiting, err := s.queries.DestinationListWaiting(ctx, s.Pool, maxWaiting, ids)
	if err != nil {
		return nil, fmt.Errorf("count what waits: %w", err)
	}
	for _, row := range waiting {
		at[row.ID].Waiting = int(row.Waiting)
	}
	return views, nil
}

// describeDestinations makes views of the rows without what waits: settings alone.
func (s *Server) describeDestinations(ctx context.Context, db dbsqlc.DBTX, rows []dbsqlc.Destination) ([]Destination, error) {
	ids, laneIDs := make([]int64, len(rows)), make([]int64, len(rows))
	for i, row := range rows {
		ids[i], laneIDs[i] = row.ID, row.LaneID
	}
	lanes, err := s.queries.DestinationListLane(ctx, db, laneIDs)
	if err != nil {
		return nil, fmt.Errorf("load lanes: %w", err)
	}
	laneAt := make(map[int64]Lane, len(lanes))
	for _, lane := range lanes {
		laneAt[lane.ID] = laneOf(lane)
	}
	views, at := make([]Destination, len(rows)), make(map[int64]*Destination, len(rows))
	for i, row := range rows {
		if views[i], err = destinationOf(row, laneAt[row.LaneID]); err != nil {
			return nil, err
		}
		at[row.ID] = &views[i]
	}
	return views, s.addParts(ctx, db, ids, at)
}

// addParts loads what belongs to the destinations, in one query per table.
func (s *Server) addParts(ctx context.Context, db dbsqlc.DBTX, ids []int64, at map[int64]*Destination) error {
	subscriptions, err := s.queries.SubscriptionListByDestination(ctx, db, ids, maxSubscriptions*200)
	if err != nil {
		return fmt.Errorf("load subscriptions: %w", err)
	}
	for _, sub := range subscriptions {
		d := at[sub.DestinationID]
		d.Subscriptions = append(d.Subscriptions, Subscription{Types: sub.Types, Tenant: sub.Tenant})
	}
	secrets, err := s.queries.SecretListHint(ctx, db, ids, 10*200)
	if err != nil {
		return fmt.Errorf("load secrets: %w", err)
	}
	for _, secret := range secrets {
		d := at[secret.DestinationID]
		d.Secrets = append(d.Secrets, SecretHint{secret.Scheme, secret.Hint, secret.CreatedAt, secret.ExpiresAt})
	}
	headers, err := s.queries.HeaderListName(ctx, db, ids, maxHeaders*200)
	if err != nil {
		return fmt.Errorf("load headers: %w", err)
	}
	for _, header := range headers {
		at[header.DestinationID].Headers[header.Name] = nil
	}
	return nil
}

func destinationOf(row dbsqlc.Destination, lane Lane) (Destination, error) {
	p, err := policyOf(row)
	if err != nil {
		return Destination{}, err
	}
	d := Destination{
		ID: formatID(idDestination, row.ID), RowID: row.ID, Name: row.Name, URL: row.Url, State: row.State, StateReason: row.StateReason,
		StateSince: row.StateSince, DrainingSince: row.DrainingSince, DrainingReason: row.DrainingReason, Tenant: row.Tenant, Lane: lane, Subscriptions: []Subscription{}, Timeout: formatDuration(p.timeout),
		TTL: formatDuration(p.ttl), Ordering: p.ordering, Retry: Retry{Schedule: make([]string, len(p.schedule)), Jitter: p.jitter},
		Responses: p.responses, Headers: map[string]*string{}, Secrets: []SecretHint{}, Warnings: lane.Warnings,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	for i, wait := range p.schedule {
		d.Retry.Schedule[i] = formatDuration(wait)
	}
	return d, nil
}

// policyOf is what is stored, without the subscriptions: nil leaves them as they are.
func policyOf(row dbsqlc.Destination) (destinationPolicy, error) {
	responses := webhook.Policy{}
	if err := json.Unmarshal(row.Responses, &responses); err != nil {
		return destinationPolicy{}, fmt.Errorf("read the destination's responses: %w", err)
	}
	p := destinationPolicy{
		name: row.Name, url: row.Url, tenant: row.Tenant, timeout: time.Duration(row.TimeoutMs) * time.Millisecond,
		ttl: time.Duration(row.TtlS) * time.Second, ordering: row.Ordering, schedule: make([]time.Duration, len(row.RetryScheduleMs)),
		jitter: row.RetryJitter, responses: responses,
	}
	for i, ms := range row.RetryScheduleMs {
		p.schedule[i] = time.Duration(ms) * time.Millisecond
	}
	return p, nil
}

func destinationError(id int64, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return &jobs.NotFoundError{What: "destination", ID: formatID(idDestination, id)}
	}
	return fmt.Errorf("load destination: %w", err)
}

// clampLimit is the size of a page.
func clampLimit(limit int) int {
	if limit <= 0 {
		return 50
	}
	return min(limit, 200)
}
