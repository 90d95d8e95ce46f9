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
	create := operation(http.MethodPost, "/replays", "create-replay", ScopeOperate, "Send events again, under their own ids")
	create.Description = "Either one event (event, and destination if not all of its), or everything that a filter selects, as a run that takes its " +
		"share of each lane. With preview, says what would be sent and what refused, and changes nothing. Answers 409 with the reasons when nothing " +
		"could be sent. The same Idempotency-Key, or the same filter while its run is under way, answers the run that is there."
	create.Errors = append(create.Errors, http.StatusConflict)
	registerBody[replayBody](s, api, create, s.apiReplay)
	register(s, api, operation(http.MethodGet, "/replays", "list-replays", ScopeRead, "List replays, newest first"), s.apiListReplays)
	register(s, api, operation(http.MethodGet, "/replays/{id}", "get-replay", ScopeRead, "Get a replay: who, why, and what came of it"), s.apiGetReplay)
	register(s, api, operation(http.MethodGet, "/replays/{id}/items", "list-replay-items", ScopeRead, "List a replay's deliveries"), s.apiListReplayItems)
	for _, action := range []struct {
		name, does string
		change     func(context.Context, int64, string, ...jobs.Also) error
	}{
		{"pause", "Send nothing more of a replay until it is resumed", s.Engine.PauseReplay}, {"resume", "Go on with a paused replay", s.Engine.ResumeReplay},
		{"stop", "End a replay: what was not sent is as it was", s.Engine.StopReplay},
	} {
		op := operation(http.MethodPost, "/replays/{id}/"+action.name, action.name+"-replay", ScopeOperate, action.does)
		op.Errors = append(op.Errors, http.StatusConflict)
		register(s, api, op, func(ctx context.Context, in *replayPath) (*replayRunOutput, error) {
			return s.apiChangeReplay(ctx, in.ID, action.name, action.change)
		})
	}
}

type replayBody struct {
	Event       string        `json:"event,omitempty" doc:"This event; or give a filter."`
	Destination *string       `json:"destination,omitempty" doc:"Only this one; every destination of the event if left out."`
	Filter      *ReplayFilter `json:"filter,omitempty" doc:"Everything that is like this, instead of an event."`
	Share       *float64      `json:"share,omitempty" minimum:"0.001" maximum:"1" doc:"Of each lane; 0.5 if left out, but for an event of up to 100 deliveries, which go at once."`
	Reason      string        `json:"reason,omitempty"`
	Key         string        `json:"key,omitempty" maxLength:"200" doc:"As the header Idempotency-Key."`
	Preview     bool          `json:"preview,omitempty"`
}

type replayInput struct {
	RawInput
	Key string `header:"Idempotency-Key" maxLength:"200" doc:"The same key by the same token is the same replay."`
}

// ReplayItem is one delivery of a replay.
type ReplayItem struct {
	DeliveryID      string  `json:"delivery_id"`
	DestinationID   string  `json:"destination_id"`
	DestinationName string  `json:"destination_name"`
	EventID         string  `json:"event_id"`
	Type            string  `json:"type"`
	State           string  `json:"state" doc:"Before the replay; in GET: now."`
	Refusal         string  `json:"refusal" doc:"Why it is not sent; empty: it is."`
	Item            string  `json:"item,omitempty" enum:"waiting,sent,refused,left" doc:"Where the item stands; in GET."`
	PreviousState   string  `json:"previous_state,omitempty" doc:"Before the replay; in GET."`
	Outcome         *string `json:"outcome,omitempty" doc:"How it ended this time."`
	OutcomeReason   string  `json:"outcome_reason,omitempty"`
}

func replayItemOf(row dbsqlc.ReplayItemListRow) ReplayItem {
	return ReplayItem{
		DeliveryID: formatID(idDelivery, row.DeliveryID), DestinationID: formatID(idDestination, row.DestinationID), DestinationName: row.DestinationName,
		EventID: row.EventID, Type: row.Type, State: row.State, Refusal: row.Refusal, Item: row.ItemState, PreviousState: row.PreviousState,
		Outcome: row.Outcome, OutcomeReason: row.OutcomeReason,
	}
}

// ReplayAnswer is what a replay did, or would do: of an event, item by item; of a filter, counted.
type ReplayAnswer struct {
	ID        *string          `json:"id" doc:"null for a preview."`
	Preview   bool             `json:"preview"`
	Existing  bool             `json:"existing" doc:"An earlier request has started it; this one changed nothing."`
	Sent      int              `json:"sent" doc:"How many are sent again, at once or at their share; in a preview, how many would be."`
	Items     []ReplayItem     `json:"items" doc:"Of an event; for a filter see /replays/{id}/items."`
	Selection *ReplaySelection `json:"selection,omitempty" doc:"The preview of a filter."`
	Run       *ReplayView      `json:"run,omitempty" doc:"What a filter started."`
}

// ReplaySelection is what a filter selects now.
type ReplaySelection struct {
	Selected     int                          `json:"selected"`
	Complete     bool                         `json:"complete" doc:"false: there is more than could be counted in the time."`
	States       map[string]int               `json:"states"`
	Delivered    int                          `json:"already_delivered" doc:"Their receivers get a duplicate, under the same id."`
	Oldest       *time.Time                   `json:"oldest" doc:"When the oldest was made."`
	Newest       *time.Time                   `json:"newest"`
	Refused      map[string]int               `json:"refused" doc:"By reason."`
	Waiting      map[string]int               `json:"waiting" doc:"By reason: those wait until that has changed."`
	Destinations []ReplaySelectionDestination `json:"destinations" doc:"The 20 with the most."`
	TakesSeconds float64                      `json:"takes_seconds" doc:"At the share, if each is delivered at once."`
}

// ReplaySelectionDestination is one destination's part of it.
type ReplaySelectionDestination struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
	Count int    `json:"count"`
}

type replayOutput struct{ Body ReplayAnswer }

func (s *Server) apiReplay(ctx context.Context, in *replayInput) (*replayOutput, error) {
	var body replayBody
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	if body.Key == "" {
		body.Key = in.Key
	}
	if body.Share != nil && (*body.Share < 0.001 || *body.Share > 1) {
		return nil, invalid("share", "want a number from 0.001 to 1, such as 0.5")
	}
	body.Reason = strings.TrimSpace(body.Reason)
	if body.Reason != "" {
		if err := checkName("reason", body.Reason, 500); err != nil {
			return nil, err
		}
	}
	if body.Filter != nil {
		return s.apiReplayFilter(ctx, body)
	}
	return s.apiReplayEvent(ctx, body)
}

func (s *Server) apiReplayFilter(ctx context.Context, body replayBody) (*replayOutput, error) {
	if body.Event != "" || body.Destination != nil {
		return nil, invalid("filter", "give either an event or a filter; the filter can name event and destination, too")
	}
	filter, err := body.Filter.parse()
	if err != nil {
		return nil, inFilter(err)
	}
	run := jobs.ReplayRun{Filter: filter, Actor: "token " + callerName(ctx), Reason: body.Reason, Key: body.Key}
	if body.Share != nil {
		run.Share = *body.Share
	}
	if body.Preview {
		preview, err := s.Engine.PreviewReplay(ctx, run, jobs.PreviewTime)
		if err != nil {
			return nil, inFilter(err)
		}
		selection := selectionOf(preview)
		return &replayOutput{ReplayAnswer{Preview: true, Sent: preview.Sendable(), Items: []ReplayItem{}, Selection: &selection}}, nil
	}
	run.Also = s.auditReplayRun(run)
	id, existing, err := s.Engine.StartReplay(ctx, run)
	if err != nil {
		return nil, inFilter(err)
	}
	view, err := s.getReplay(ctx, id)
	if err != nil {
		return nil, err
	}
	return &replayOutput{ReplayAnswer{ID: &view.ID, Existing: existing, Sent: view.Counts.Sent + view.Counts.Waiting, Items: []ReplayItem{}, Run: &view}}, nil
}

// inFilter names a wrong field as the caller wrote it.
func inFilter(err error) error {
	var wrong *jobs.InvalidError
	if errors.As(err, &wrong) && wrong.Field != "share" && wrong.Field != "key" {
		return &jobs.InvalidError{Field: "filter." + wrong.Field, Problem: wrong.Problem}
	}
	return err
}

func selectionOf(p jobs.ReplayPreview) ReplaySelection {
	s := ReplaySelection{
		Selected: p.Selected, Complete: p.Complete, States: p.States, Delivered: p.States[jobs.StateDelivered], Oldest: orNil(p.Oldest), Newest: orNil(p.Newest),
		Refused: p.Refused, Waiting: p.Waiting, Destinations: []ReplaySelectionDestination{}, TakesSeconds: p.Takes.Seconds(),
	}
	for _, d := range p.Destinations[:min(20, len(p.Destinations))] {
		s.Destinations = append(s.Destinations, ReplaySelectionDestination{formatID(idDestination, d.ID), d.Name, d.State, d.Count})
	}
	return s
}

func (s *Server) apiReplayEvent(ctx context.Context, body replayBody) (*replayOutput, error) {
	request, err := replayRequest(body)
	if err != nil {
		return nil, err
	}
	request.Actor, request.Also = "token "+callerName(ctx), s.auditReplay
	result, err := s.Engine.Replay(ctx, request)
	if err != nil {
		return nil, err
	}
	if !body.Preview && result.Sent == 0 {
		return nil, replayRefused(result)
	}
	answer := ReplayAnswer{Preview: body.Preview, Existing: result.Existing, Sent: result.Sent, Items: make([]ReplayItem, len(result.Items))}
	if result.ID != 0 {
		answer.ID = orNil(formatID(idReplay, result.ID))
	}
	for i, item := range result.Items {
		answer.Items[i] = ReplayItem{
			DeliveryID: formatID(idDelivery, item.DeliveryID), DestinationID: formatID(idDestination, item.DestinationID), DestinationName: item.DestinationName,
			EventID: item.EventID, Type: item.Type, State: item.State, Refusal: item.Refusal,
		}
	}
	return &replayOutput{answer}, nil
}

func replayRequest(body replayBody) (jobs.ReplayRequest, error) {
	request := jobs.ReplayRequest{EventID: body.Event, Reason: body.Reason, Key: body.Key, DryRun: body.Preview}
	if body.Event == "" {
		return request, invalid("event", "is missing; want the id of an event, or a filter")
	}
	if err := checkText("event", body.Event); err != nil {
		return request, err
	}
	if body.Share != nil {
		request.Share = *body.Share
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

// auditReplayRun is the entry of a run, in the transaction that starts it.
func (s *Server) auditReplayRun(run jobs.ReplayRun) func(context.Context, pgx.Tx, int64) error {
	return func(ctx context.Context, tx pgx.Tx, id int64) error {
		row, err := s.queries.ReplayGet(ctx, tx, id)
		if err != nil {
			return fmt.Errorf("load replay: %w", err)
		}
		filter, err := replayFilterOf(row.Filter)
		if err != nil {
			return err
		}
		return s.audit(ctx, tx, auditEntry{
			action: "replay.start", object: auditObject{"replay", formatID(idReplay, id), ""}, after: facts{"filter": filter, "share": row.Share}, note: run.Reason,
		})
	}
}

// changeReplay pauses, resumes or stops a run, and records it.
func (s *Server) changeReplay(ctx context.Context, id int64, name, actor string, change func(context.Context, int64, string, ...jobs.Also) error) error {
	return change(ctx, id, actor, s.auditing(auditEntry{action: "replay." + name, object: auditObject{"replay", formatID(idReplay, id), ""}}))
}
