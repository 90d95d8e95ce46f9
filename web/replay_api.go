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

	"weir/db/dbsqlc"
	"weir/jobs"
)

func (s *Server) mountReplays(api huma.API) {
	create := operation(http.MethodPost, "/replays", "create-replay", ScopeOperate, "Send an event again, under its own id")
	create.Description = "With preview, says what would be sent and what refused, and changes nothing. Answers 409 with the reasons when nothing could be sent."
	create.Errors = append(create.Errors, http.StatusConflict)
	registerBody[replayBody](s, api, create, s.apiReplay)
	register(s, api, operation(http.MethodGet, "/replays/{id}", "get-replay", ScopeRead, "Get a replay: who, why, and what came of it"), s.apiGetReplay)
}

type replayBody struct {
	Event       string  `json:"event"`
	Destination *string `json:"destination,omitempty" doc:"Only this one; every destination of the event if left out."`
	Reason      string  `json:"reason,omitempty"`
	Preview     bool    `json:"preview,omitempty"`
}

// ReplayItem is one delivery of a replay.
type ReplayItem struct {
	DeliveryID      string `json:"delivery_id"`
	DestinationID   string `json:"destination_id"`
	DestinationName string `json:"destination_name"`
	EventID         string `json:"event_id"`
	Type            string `json:"type"`
	State           string `json:"state" doc:"Before the replay; in GET: now."`
	Refusal         string `json:"refusal" doc:"Why it is not sent; empty: it is."`
}

// ReplayAnswer is what a replay did, or would do.
type ReplayAnswer struct {
	ID      *string      `json:"id" doc:"null for a preview."`
	Preview bool         `json:"preview"`
	Sent    int          `json:"sent" doc:"How many are sent again; in a preview, how many would be."`
	Items   []ReplayItem `json:"items"`
}

type replayOutput struct{ Body ReplayAnswer }

func (s *Server) apiReplay(ctx context.Context, in *RawInput) (*replayOutput, error) {
	var body replayBody
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	request, err := replayRequest(body)
	if err != nil {
		return nil, err
	}
	request.Actor, request.Also = "token "+callerName(ctx), s.auditReplay
	result, err := s.Engine.Replay(ctx, request)
	if err != nil {
		return nil, err
	}
	answer := ReplayAnswer{Preview: body.Preview, Sent: result.Sent, Items: make([]ReplayItem, len(result.Items))}
	if result.ID != 0 {
		answer.ID = orNil(formatID(idReplay, result.ID))
	}
	sendable := 0
	for i, item := range result.Items {
		answer.Items[i] = ReplayItem{
			formatID(idDelivery, item.DeliveryID), formatID(idDestination, item.DestinationID), item.DestinationName, item.EventID, item.Type, item.State, item.Refusal,
		}
		if item.Refusal == "" {
			sendable++
		}
	}
	if body.Preview {
		answer.Sent = sendable
		return &replayOutput{answer}, nil
	}
	if result.Sent == 0 {
		return nil, replayRefused(result)
	}
	return &replayOutput{answer}, nil
}

func replayRequest(body replayBody) (jobs.ReplayRequest, error) {
	request := jobs.ReplayRequest{EventID: body.Event, Reason: strings.TrimSpace(body.Reason), DryRun: body.Preview}
	if body.Event == "" {
		return request, invalid("event", "is missing; want the id of an event")
	}
	if err := checkText("event", body.Event); err != nil {
		return request, err
	}
	if request.Reason != "" {
		if err := checkName("reason", request.Reason, 500); err != nil {
			return request, err
		}
	}
	if body.Destination != nil {
		id, err := parseIDField(idDestination, "destination", *body.Destination)
		if err != nil {
			return request, err
		}
		request.DestinationID = &id
	}
	return request, nil
}

// replayRefused is the answer to a replay that sent nothing: each delivery with its reason.
func replayRefused(result jobs.ReplayResult) *Problem {
	if len(result.Items) == 0 {
		return newProblem(http.StatusConflict, "Nothing was sent: the event is owed to no such destination.")
	}
	fields := make([]FieldError, len(result.Items))
	for i, item := range result.Items {
		fields[i] = FieldError{formatID(idDelivery, item.DeliveryID), item.Refusal}
	}
	return newProblem(http.StatusConflict, "Nothing was sent: "+strings.TrimSuffix(result.Items[0].Refusal, ".")+".", fields...)
}

// ReplayDetail is a replay on record.
type ReplayDetail struct {
	ID        string       `json:"id"`
	Actor     string       `json:"actor"`
	Reason    string       `json:"reason"`
	CreatedAt time.Time    `json:"created_at"`
	Items     []ReplayItem `json:"items" doc:"At most 1000."`
}

type replayPath struct {
	ID string `path:"id" maxLength:"40"`
}

type replayDetailOutput struct{ Body ReplayDetail }

func (s *Server) apiGetReplay(ctx context.Context, in *replayPath) (*replayDetailOutput, error) {
	id, err := parseID(idReplay, in.ID)
	if err != nil {
		return nil, err
	}
	row, err := s.queries.ReplayGet(ctx, s.Pool, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, &jobs.NotFoundError{What: "replay", ID: in.ID}
	}
	if err != nil {
		return nil, fmt.Errorf("load replay: %w", err)
	}
	items, err := s.queries.ReplayItemList(ctx, s.Pool, dbsqlc.ReplayItemListParams{ReplayID: id, Max: 1000})
	if err != nil {
		return nil, fmt.Errorf("load replay items: %w", err)
	}
	detail := ReplayDetail{ID: formatID(idReplay, row.ID), Actor: row.Actor, Reason: row.Reason, CreatedAt: row.CreatedAt, Items: make([]ReplayItem, len(items))}
	for i, item := range items {
		detail.Items[i] = ReplayItem{
			formatID(idDelivery, item.DeliveryID), formatID(idDestination, item.DestinationID), item.DestinationName, item.EventID, item.Type, item.State, item.Refusal,
		}
	}
	return &replayDetailOutput{detail}, nil
}
