package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
)

// replayMax bounds one selection: an event's deliveries. So many of them are sent at once, without a share of the lane: a person waits.
const (
	replayMax    = 10000
	replayAtOnce = 100
)

// ReplayRequest selects deliveries to send again: all of one event, or the one to DestinationID. Actor and Reason are recorded.
type ReplayRequest struct {
	EventID       string
	DestinationID *int64
	Actor, Reason string
	Share         float64 // of each lane, above 0 to 1; 0: all of it for up to a hundred deliveries, else DefaultReplayShare
	Key           string  // the same key by the same actor is the same replay; may be empty
	DryRun        bool    // say what would be sent, change nothing
	// Also, if not nil, is done in the replay's transaction, once it has a number; not where nothing is sent.
	Also func(context.Context, pgx.Tx, ReplayResult) error
}

// ReplayItem is what the replay does, or would do, with one delivery. Refusal is empty where it sends.
type ReplayItem struct {
	DeliveryID, DestinationID int64
	DestinationName           string
	EventID, Type             string
	Bytes                     int
	State                     string // before the replay
	Refusal                   string
}

// ReplayResult tells what came of a request: Sent deliveries are owed again, or will be as their lanes' shares allow. ID is the run's
// number, 0 where nothing is sent. Existing: an earlier request with this key has started it.
type ReplayResult struct {
	ID       int64
	Items    []ReplayItem
	Sent     int
	Existing bool
}

// Replay makes settled deliveries owed again, under their original event id, with the stored bytes and today's URL and secrets, a fresh
// budget and a fresh time to live. What is still being delivered, or whose destination is deleted, paused or disabled, is refused with
// a reason and not touched; where all are, nothing is recorded. More than a hundred, or a share, make it a run that is fed. An unknown
// event is a *NotFoundError; one that is owed to nobody a *ConflictError.
func (e *Engine) Replay(ctx context.Context, req ReplayRequest) (result ReplayResult, err error) {
	run := ReplayRun{Filter: req.filter(), Share: req.Share, Actor: req.Actor, Reason: req.Reason, Key: req.Key}
	if err := run.check(); err != nil {
		return result, err
	}
	err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		result = ReplayResult{}
		if req.Key != "" && !req.DryRun {
			if found, err := e.replayByKey(ctx, tx, run, &result); found || err != nil {
				return err
			}
		}
		if err := e.queries.LaneLockByEvent(ctx, tx, req.EventID, req.DestinationID); err != nil {
			return fmt.Errorf("lock lanes: %w", err)
		}
		rows, err := e.queries.DeliveryReplayCandidates(ctx, tx, dbsqlc.DeliveryReplayCandidatesParams{
			EventID: req.EventID, DestinationID: req.DestinationID, Max: replayMax,
		})
		if err != nil {
			return fmt.Errorf("select deliveries: %w", err)
		}
		if len(rows) == 0 {
			return e.explainNothing(ctx, tx, req)
		}
		for _, row := range rows {
			item := replayItem(row)
			if result.Items = append(result.Items, item); item.Refusal == "" {
				result.Sent++
			}
		}
		if req.DryRun || result.Sent == 0 {
			return nil
		}
		if err := e.replay(ctx, tx, run, rows, &result); err != nil || req.Also == nil {
			return err
		}
		return req.Also(ctx, tx, result)
	})
	return result, err
}

func (req ReplayRequest) filter() ReplayFilter {
	f := ReplayFilter{EventID: req.EventID}
	if req.DestinationID != nil {
		f.DestinationID = *req.DestinationID
	}
	return f
}

func (e *Engine) explainNothing(ctx context.Context, tx pgx.Tx, req ReplayRequest) error {
	if _, err := e.queries.EventGetByEventID(ctx, tx, req.EventID); err != nil {
		return &NotFoundError{"event", req.EventID}
	}
	if req.DestinationID != nil {
		return &ConflictError{"replay", "this event was never owed to that destination"}
	}
	return &ConflictError{"replay", "this event was owed to no destination: none was subscribed to it when it came"}
}

func replayItem(row dbsqlc.DeliveryReplayCandidatesRow) ReplayItem {
	item := ReplayItem{
		DeliveryID: row.ID, DestinationID: row.DestinationID, DestinationName: row.DestinationName, EventID: row.EventID,
		Type: row.Type, Bytes: int(row.Bytes), State: row.State,
	}
	switch {
	case row.State == StatePending || row.State == StateRetrying:
		item.Refusal = "it is still being delivered (" + row.State + ")"
	case row.DestinationState == "deleted":
		item.Refusal = "its destination was deleted"
	case row.DestinationState != "active":
		item.Refusal = "its destination is " + row.DestinationState + ": resume it first"
	}
	return item
}

// replay records the run and its items, and sends them where they are few.
func (e *Engine) replay(ctx context.Context, tx pgx.Tx, run ReplayRun, rows []dbsqlc.DeliveryReplayCandidatesRow, result *ReplayResult) error {
	atOnce := run.Share == 0 && result.Sent <= replayAtOnce
	if run.Share == 0 {
		if run.Share = DefaultReplayShare; atOnce {
			run.Share = 1
		}
	}
	filter, _, err := run.Filter.encode()
	if err != nil {
		return err
	}
	row, err := e.queries.ReplayInsert(ctx, tx, dbsqlc.ReplayInsertParams{Actor: run.Actor, Reason: run.Reason, Filter: filter, Share: run.Share, Key: run.Key})
	if errors.Is(err, pgx.ErrNoRows) {
		return &ConflictError{"replay", "the same request is just being taken; ask again"}
	}
	if err != nil {
		return fmt.Errorf("record replay: %w", err)
	}
	result.ID = row.ID
	record := dbsqlc.ReplayItemInsertManyParams{ReplayID: row.ID}
	var send, refused []replaySend
	var refusals []string
	for i, row := range rows {
		record.DeliveryIds, record.DestinationIds = append(record.DeliveryIds, row.ID), append(record.DestinationIds, row.DestinationID)
		record.LaneIds, record.PreviousStates = append(record.LaneIds, row.LaneID), append(record.PreviousStates, row.State)
		item := replaySend{row.ID, row.DestinationID, row.LaneID, row.Try, row.Priority}
		if refusal := result.Items[i].Refusal; refusal != "" {
			refused, refusals = append(refused, item), append(refusals, refusal)
		} else {
			send = append(send, item)
		}
	}
	if _, err := e.feeder.selected(ctx, tx, record); err != nil {
		return err
	}
	if err := e.feeder.refuse(ctx, tx, result.ID, refused, refusals); err != nil || !atOnce {
		return err
	}
	return e.feeder.send(ctx, tx, result.ID, send)
}

// replayByKey finds what an earlier request with the same key has started.
func (e *Engine) replayByKey(ctx context.Context, tx pgx.Tx, run ReplayRun, result *ReplayResult) (bool, error) {
	row, err := e.queries.ReplayGetByKey(ctx, tx, run.Actor, run.Key)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find replay: %w", err)
	}
	if !run.selects(row.Filter) {
		return false, &ConflictError{"replay", "this key has started the replay of another selection"}
	}
	items, err := e.queries.ReplayItemList(ctx, tx, dbsqlc.ReplayItemListParams{ReplayID: row.ID, Max: replayMax})
	if err != nil {
		return false, fmt.Errorf("load replay items: %w", err)
	}
	*result = ReplayResult{ID: row.ID, Existing: true}
	for _, item := range items {
		if item.Refusal == "" {
			result.Sent++
		}
		result.Items = append(result.Items, ReplayItem{
			DeliveryID: item.DeliveryID, DestinationID: item.DestinationID, DestinationName: item.DestinationName, EventID: item.EventID, Type: item.Type,
			Bytes: int(item.Bytes), State: item.PreviousState, Refusal: item.Refusal,
		})
	}
	return true, nil
}
