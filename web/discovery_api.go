package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

func (s *Server) mountDiscovery(api huma.API) {
	register(s, api, operation(http.MethodGet, "/discovery/runs", "list-discovery-runs", ScopeRead, "List discovery runs, newest first"), s.apiListRuns)
	register(s, api, operation(http.MethodGet, "/discovery/refused", "list-refused", ScopeRead,
		"List outbox rows that could not become events, newest first"), s.apiListRefused)
}

// DiscoveryRun is one run of the job that finds events. Each row read was new, duplicate or refused.
type DiscoveryRun struct {
	ID         int64     `json:"id"`
	Source     string    `json:"source"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	Read       int32     `json:"read"`
	New        int32     `json:"new"`
	Duplicate  int32     `json:"duplicate"`
	Refused    int32     `json:"refused"`
	Deliveries int32     `json:"deliveries"`
	Error      string    `json:"error"`
}

func (s *Server) apiListRuns(ctx context.Context, in *PageInput) (*pageOutput[DiscoveryRun], error) {
	limit := clampLimit(in.Limit)
	before, err := parseCursor(in.Cursor, firstPage)
	if err != nil {
		return nil, err
	}
	rows, err := s.queries.DiscoveryRunList(ctx, s.Pool, before, int32(limit+1))
	if err != nil {
		return nil, fmt.Errorf("list discovery runs: %w", err)
	}
	page := Page[DiscoveryRun]{Items: []DiscoveryRun{}}
	if len(rows) > limit {
		rows = rows[:limit]
		page.NextCursor = orNil(formatCursor(rows[limit-1].ID))
	}
	for _, row := range rows {
		page.Items = append(page.Items, DiscoveryRun{
			row.ID, row.Source, row.StartedAt, row.FinishedAt, row.Read, row.New, row.Duplicate, row.Refused, row.Deliveries, row.Error,
		})
	}
	return &pageOutput[DiscoveryRun]{page}, nil
}

// RefusedRow is an outbox row that stays where it is, with the reason, until somebody mends or deletes it.
type RefusedRow struct {
	ID        int64      `json:"id"`
	EventID   *string    `json:"event_id"`
	Tenant    *string    `json:"tenant"`
	Type      string     `json:"type"`
	Subject   string     `json:"subject"`
	Version   *int64     `json:"version"`
	Bytes     int32      `json:"bytes"`
	CreatedAt time.Time  `json:"created_at"`
	RefusedAt *time.Time `json:"refused_at"`
	Reason    *string    `json:"reason"`
}

func (s *Server) apiListRefused(ctx context.Context, in *PageInput) (*pageOutput[RefusedRow], error) {
	limit := clampLimit(in.Limit)
	before, err := parseCursor(in.Cursor, firstPage)
	if err != nil {
		return nil, err
	}
	rows, err := s.queries.OutboxListRefused(ctx, s.Pool, before, int32(limit+1))
	if err != nil {
		return nil, fmt.Errorf("list refused rows: %w", err)
	}
	page := Page[RefusedRow]{Items: []RefusedRow{}}
	if len(rows) > limit {
		rows = rows[:limit]
		page.NextCursor = orNil(formatCursor(rows[limit-1].ID))
	}
	for _, row := range rows {
		page.Items = append(page.Items, RefusedRow{
			row.ID, row.EventID, row.Tenant, row.Type, row.Subject, row.Version, row.Bytes, row.CreatedAt, row.RefusedAt, row.RefusedReason,
		})
	}
	return &pageOutput[RefusedRow]{page}, nil
}
