package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/jobs"
)

// maxEventDeliveries is how many deliveries an event shows at once; /deliveries?event= has them all.
const maxEventDeliveries = 100

// payloadLimit is the payload's, in bytes of what is sent.
func (s *Server) payloadLimit() int {
	if s.BodyLimit > 0 {
		return s.BodyLimit
	}
	return jobs.MaxPayload
}

// envelopeLimit is the payload's limit in base64, and room for the other fields.
func (s *Server) envelopeLimit() int { return s.payloadLimit()*4/3 + 64<<10 }

// Event is one event as a list shows it, without its payload.
type Event struct {
	ID         string     `json:"id"`
	Tenant     string     `json:"tenant"`
	Type       string     `json:"type"`
	Subject    string     `json:"subject"`
	Version    *int64     `json:"version"`
	Bytes      int        `json:"bytes" doc:"Size of the payload."`
	OccurredAt time.Time  `json:"occurred_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	Priority   int16      `json:"priority"`
	CreatedAt  time.Time  `json:"created_at"`

	RowID      int64 `json:"-"`
	FanningOut bool  `json:"-"` // more deliveries are still being made
}

// EventDetail is one event with what became of it.
type EventDetail struct {
	Event
	Deliveries     []Delivery `json:"deliveries" doc:"The newest hundred; /deliveries?event= lists them all."`
	MoreDeliveries bool       `json:"more_deliveries"`
	Settled        bool       `json:"settled" doc:"Every delivery has ended, one way or another."`
}

// eventBody is the envelope, for the OpenAPI document; jobs.ParseEvent reads it.
type eventBody struct {
	ID            string    `json:"id,omitempty" doc:"Yours, for life; made from type, subject and version if left out."`
	Tenant        string    `json:"tenant,omitempty"`
	Type          string    `json:"type" example:"shipment.updated"`
	Subject       string    `json:"subject"`
	Version       *int64    `json:"version,omitempty"`
	Payload       any       `json:"payload,omitempty" doc:"Any JSON; its bytes are sent exactly as they are written here."`
	PayloadBase64 string    `json:"payload_base64,omitempty" doc:"In place of payload, where the bytes cannot stand in a line."`
	OccurredAt    time.Time `json:"occurred_at,omitempty"`
	ExpiresAt     time.Time `json:"expires_at,omitempty"`
	Priority      int       `json:"priority,omitempty" minimum:"1" maximum:"4"`
}

type receiptBody struct {
	ID        string `json:"id"`
	Duplicate bool   `json:"duplicate" doc:"The same event was taken before; nothing is sent again."`
}

func (s *Server) mountEvents(api huma.API, group *echo.Group) {
	publish := operation(http.MethodPost, "/events", "publish-event", ScopePublish, "Hand in an event")
	publish.DefaultStatus = http.StatusAccepted
	publish.MaxBodyBytes = int64(s.envelopeLimit()) + 1 // huma refuses what reaches its limit
	publish.Errors = append(publish.Errors, http.StatusConflict)
	registerBody[eventBody](s, api, publish, s.publishEvent)
	s.mountEventBatch(api, group)

	register(s, api, operation(http.MethodGet, "/events", "list-events", ScopeRead, "List events, newest first"), s.apiListEvents)
	register(s, api, operation(http.MethodGet, "/events/{id}", "get-event", ScopeRead, "Get an event and its deliveries"), s.apiGetEvent)
	register(s, api, operation(http.MethodGet, "/events/{id}/payload", "get-event-payload", ScopeRead, "Download the exact bytes"), s.apiGetEventPayload)
}

type publishOutput struct{ Body receiptBody }

func (s *Server) publishEvent(ctx context.Context, in *RawInput) (*publishOutput, error) {
	event, err := jobs.ParseEvent(in.RawBody)
	if err != nil {
		return nil, err
	}
	receipt, err := s.Engine.Publish(ctx, event)
	if err != nil {
		return nil, err
	}
	return &publishOutput{receiptBody{receipt.ID, receipt.Duplicate}}, nil
}

type listEventsInput struct {
	PageInput
	Type    string `query:"type" maxLength:"100" doc:"Exact, or shipment.* for everything below."`
	Subject string `query:"subject" maxLength:"255"`
	Tenant  string `query:"tenant" maxLength:"100"`
	TimeInput
	Key   string `query:"key" maxLength:"40" doc:"With value: the label of a search key, or nothing for any of them."`
	Value string `query:"value" maxLength:"1000" doc:"What the payload has there, exactly; only its first 200 bytes count. See /search-keys."`
}

// TimeInput is embedded by lists that can be of a time.
type TimeInput struct {
	Since string `query:"since" maxLength:"20" doc:"Events that came within this time, such as 15m, 24h or 7d. From is stronger."`
	From  string `query:"from" maxLength:"40" doc:"Events that came then or later (RFC 3339)."`
	Until string `query:"until" maxLength:"40" doc:"Events that came before then (RFC 3339)."`
}

type pageOutput[T any] struct{ Body Page[T] }

func (s *Server) apiListEvents(ctx context.Context, in *listEventsInput) (*pageOutput[Event], error) {
	q := eventQuery{Type: in.Type, Subject: in.Subject, Tenant: in.Tenant, Since: in.Since, From: in.From, Until: in.Until, Key: in.Key, Value: in.Value}
	filter, problems := q.parse(time.Now())
	if len(problems) > 0 {
		return nil, &problems[0]
	}
	filter.Cursor, filter.Limit = in.Cursor, in.Limit
	page, err := s.listEvents(ctx, filter)
	if err != nil {
		return nil, err
	}
	return &pageOutput[Event]{page}, nil
}

func eventOf(row dbsqlc.EventListMetaRow) Event {
	return Event{
		ID: row.EventID, Tenant: row.Tenant, Type: row.Type, Subject: row.Subject, Version: row.Version, Bytes: int(row.Bytes),
		OccurredAt: row.OccurredAt, ExpiresAt: row.ExpiresAt, Priority: row.Priority, CreatedAt: row.CreatedAt,
		RowID: row.ID, FanningOut: row.FanningOut,
	}
}

type eventInput struct {
	ID string `path:"id" maxLength:"400"`
}

type eventOutput struct{ Body EventDetail }

func (s *Server) apiGetEvent(ctx context.Context, in *eventInput) (*eventOutput, error) {
	event, err := s.getEvent(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &eventOutput{event}, nil
}

// getEvent is an event with its newest deliveries.
func (s *Server) getEvent(ctx context.Context, id string) (EventDetail, error) {
	event, err := s.findEvent(ctx, id)
	if err != nil {
		return EventDetail{}, err
	}
	// Before the deliveries: read after it, they have ended as well. The other way round one of them could end in between.
	settled, err := s.queries.EventSettled(ctx, s.Pool, event.RowID)
	if err != nil {
		return EventDetail{}, fmt.Errorf("look whether the event has settled: %w", err)
	}
	page, err := s.listDeliveries(ctx, deliveryFilter{EventID: id, Limit: maxEventDeliveries})
	if err != nil {
		return EventDetail{}, err
	}
	return EventDetail{Event: event, Deliveries: page.Items, MoreDeliveries: page.NextCursor != nil, Settled: settled}, nil
}

type payloadOutput struct {
	ContentType        string `header:"Content-Type"`
	ContentDisposition string `header:"Content-Disposition"`
	Body               []byte
}

func (s *Server) apiGetEventPayload(ctx context.Context, in *eventInput) (*payloadOutput, error) {
	payload, err := s.getEventPayload(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &payloadOutput{"application/json", payloadDisposition(in.ID), payload}, nil
}

// getEventPayload is the exact bytes that the producer handed in.
func (s *Server) getEventPayload(ctx context.Context, id string) ([]byte, error) {
	if checkText("id", id) != nil {
		return nil, &jobs.NotFoundError{What: "event", ID: printableID(id)}
	}
	payload, err := s.queries.EventPayload(ctx, s.Pool, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, &jobs.NotFoundError{What: "event", ID: printableID(id)}
	}
	if err != nil {
		return nil, fmt.Errorf("load payload: %w", err)
	}
	return payload, nil
}

// payloadDisposition makes the browser save the payload, under a name without anything that a file name cannot hold.
func payloadDisposition(id string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, id)
	if len(name) > 100 {
		name = name[:100]
	}
	return `attachment; filename="` + name + `.json"`
}

func orNil[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
