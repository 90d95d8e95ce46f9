package web

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/jobs/webhook"
)

// Delivery is one event owed to one destination, as the API and the panel show it.
type Delivery struct {
	ID             string     `json:"id" example:"dlv_1000"`
	EventID        string     `json:"event_id"`
	DestinationID  string     `json:"destination_id"`
	State          string     `json:"state" enum:"pending,retrying,delivered,expired,dead_lettered,superseded,cancelled"`
	Attempts       int        `json:"attempts" doc:"Requests made and answered, or given up."`
	NextAttemptAt  *time.Time `json:"next_attempt_at" doc:"Not before this; null once it has ended."`
	LastStatus     *int32     `json:"last_status"`
	LastErrorClass string     `json:"last_error_class"`
	Reason         string     `json:"reason"`
	WaitingFor     string     `json:"waiting_for" doc:"One sentence; empty once it has ended."`
	CreatedAt      time.Time  `json:"created_at"`
	SettledAt      *time.Time `json:"settled_at"`

	RowID            int64     `json:"-"`
	DestinationRowID int64     `json:"-"`
	DestinationName  string    `json:"-"`
	DestinationState string    `json:"-"`
	LaneID           string    `json:"-"`
	Type             string    `json:"-"`
	Subject          string    `json:"-"`
	Tenant           string    `json:"-"`
	Bytes            int       `json:"-"`
	ExpiresAt        time.Time `json:"-"`
}

// DeliveryDetail is a delivery with every request that was made for it.
type DeliveryDetail struct {
	Delivery
	AttemptLog []Attempt `json:"attempt_log" doc:"Oldest first; the newest 200."`
	Mends      []Mend    `json:"mends" doc:"What was put right about it, newest first; the newest 20 of the last 30 days."`
}

// Attempt is one request and what came back.
type Attempt struct {
	No              int              `json:"no"`
	StartedAt       time.Time        `json:"started_at"`
	TookMS          *float64         `json:"took_ms" doc:"null while it is under way."`
	Status          *int32           `json:"status"`
	Verdict         *string          `json:"verdict" enum:"delivered,retry,hold,reject,gone,blocked"`
	ErrorClass      string           `json:"error_class"`
	Reason          string           `json:"reason"`
	RetryAfter      string           `json:"retry_after" doc:"As the receiver wrote it."`
	ResponseExcerpt string           `json:"response_excerpt" doc:"The beginning of the body, as text."`
	Truncated       bool             `json:"truncated"`
	Replay          bool             `json:"replay"`
	ResponseHeaders []webhook.Header `json:"response_headers" doc:"Kept of answers to test events and of those that were no success; null where they are not."`
	Phases          Phases           `json:"phases" doc:"When each part of the request was over, in milliseconds from its start; null: it did not happen, as on a connection that was kept."`

	FinishedAt *time.Time `json:"-"`
}

const maxAttemptLog = 200

func (s *Server) viewDeliveries(ctx context.Context, ids []int64) ([]Delivery, error) {
	if len(ids) == 0 {
		return []Delivery{}, nil
	}
	rows, err := s.queries.DeliveryListView(ctx, s.Pool, ids)
	if err != nil {
		return nil, fmt.Errorf("load deliveries: %w", err)
	}
	w, err := s.workers(ctx)
	if err != nil {
		return nil, err
	}
	items := make([]Delivery, len(rows))
	for i, row := range rows {
		items[i] = deliveryOf(row)
		items[i].WaitingFor = waitingFor(row, w, -1)
	}
	return items, nil
}

// getDelivery is one delivery with its attempts.
func (s *Server) getDelivery(ctx context.Context, id int64) (DeliveryDetail, error) {
	rows, err := s.queries.DeliveryListView(ctx, s.Pool, []int64{id})
	if err != nil {
		return DeliveryDetail{}, fmt.Errorf("load delivery: %w", err)
	}
	if len(rows) == 0 {
		return DeliveryDetail{}, &jobs.NotFoundError{What: "delivery", ID: formatID(idDelivery, id)}
	}
	row := rows[0]
	attempts, err := s.queries.AttemptListByDelivery(ctx, s.Pool, id, maxAttemptLog)
	if err != nil {
		return DeliveryDetail{}, fmt.Errorf("load attempts: %w", err)
	}
	w, err := s.workers(ctx)
	if err != nil {
		return DeliveryDetail{}, err
	}
	ahead := int32(-1)
	if row.Parked {
		ahead, err = s.queries.DeliveryCountAhead(ctx, s.Pool, dbsqlc.DeliveryCountAheadParams{
			DestinationID: row.DestinationID, Priority: row.Priority, Turn: row.Turn, ID: row.ID, Max: maxWaiting,
		})
		if err != nil {
			return DeliveryDetail{}, fmt.Errorf("count what waits before: %w", err)
		}
	}
	detail := DeliveryDetail{Delivery: deliveryOf(row), AttemptLog: make([]Attempt, len(attempts))}
	detail.WaitingFor = waitingFor(row, w, int(ahead))
	if detail.Mends, err = s.deliveryMends(ctx, id); err != nil {
		return DeliveryDetail{}, err
	}
	for i, attempt := range attempts {
		detail.AttemptLog[len(attempts)-1-i] = attemptOf(attempt)
	}
	return detail, nil
}

func deliveryOf(row dbsqlc.DeliveryListViewRow) Delivery {
	d := Delivery{
		ID: formatID(idDelivery, row.ID), EventID: row.EventKey, DestinationID: formatID(idDestination, row.DestinationID), State: row.State,
		Attempts: int(row.Attempts), LastStatus: row.LastStatus, LastErrorClass: row.LastErrorClass, Reason: row.Reason,
		CreatedAt: row.CreatedAt, SettledAt: row.SettledAt,
		RowID: row.ID, DestinationRowID: row.DestinationID, DestinationName: row.DestinationName, DestinationState: row.DestinationState, LaneID: formatID(idLane, row.LaneID),
		Type: row.Type, Subject: row.Subject, Tenant: row.Tenant, Bytes: int(row.Bytes), ExpiresAt: row.ExpiresAt,
	}
	if row.SettledAt == nil {
		d.NextAttemptAt = &row.DueAt
	}
	return d
}

func attemptOf(row dbsqlc.Attempt) Attempt {
	a := Attempt{
		No: int(row.No), StartedAt: row.StartedAt, Status: row.Status, Verdict: row.Verdict, ErrorClass: row.ErrorClass, Reason: row.Reason,
		RetryAfter: row.RetryAfter, ResponseExcerpt: excerptText(row.Excerpt), Truncated: row.Truncated, Replay: row.ReplayID != nil,
		Phases: Phases{millis(row.DnsUs), millis(row.ConnectUs), millis(row.TlsUs), millis(row.FirstByteUs)}, FinishedAt: row.FinishedAt, ResponseHeaders: headersOf(row.ResponseHeaders),
	}
	if row.TookUs != nil {
		a.TookMS = new(float64(*row.TookUs) / 1000)
	}
	return a
}

// headersOf reads what was kept of a response's headers; nil where nothing was.
func headersOf(raw []byte) []webhook.Header {
	var headers []webhook.Header
	if raw != nil && json.Unmarshal(raw, &headers) != nil {
		return nil // it was written by this program; a page without headers is better than none
	}
	return headers
}
