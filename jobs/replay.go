package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"weir/db/dbsqlc"
)

// replayMax bounds one selection: an event's deliveries.
const replayMax = 10000

// ReplayRequest selects deliveries to send again: all of one event, or the one to DestinationID. Actor and Reason are recorded.
type ReplayRequest struct {
	EventID       string
	DestinationID *int64
	Actor, Reason string
	DryRun        bool // say what would be sent, change nothing
	// Also, if not nil, is done in the replay's transaction, once it has a number; not in a dry run.
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

// ReplayResult tells what came of a request: Sent deliveries are owed again. ID is the record's number, 0 for a dry run.
type ReplayResult struct {
	ID    int64
	Items []ReplayItem
	Sent  int
}

// Replay makes settled deliveries owed again, under their original event id, with the stored bytes and today's URL and secrets, a fresh
// budget and a fresh time to live. What is still being delivered, or whose destination is deleted, paused or disabled, is refused with
// a reason and not touched. An unknown event is a *NotFoundError; one that is owed to nobody a *ConflictError.
func (e *Engine) Replay(ctx context.Context, req ReplayRequest) (result ReplayResult, err error) {
	if req.Actor == "" {
		return result, &InvalidError{"actor", "is missing: a replay is recorded with who asked for it"}
	}
	if err := checkText("reason", req.Reason, 500); err != nil {
		return result, err
	}
	err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
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
		result = ReplayResult{}
		for _, row := range rows {
			item := replayItem(row)
			if result.Items = append(result.Items, item); item.Refusal == "" {
				result.Sent++
			}
		}
		if req.DryRun {
			return nil
		}
		if err := e.replay(ctx, tx, req, rows, &result); err != nil || req.Also == nil {
			return err
		}
		return req.Also(ctx, tx, result)
	})
	return result, err
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

func (e *Engine) replay(ctx context.Context, tx pgx.Tx, req ReplayRequest, rows []dbsqlc.DeliveryReplayCandidatesRow, result *ReplayResult) error {
	id, err := e.queries.ReplayInsert(ctx, tx, req.Actor, req.Reason)
	if err != nil {
		return fmt.Errorf("record replay: %w", err)
	}
	result.ID = id
	record := dbsqlc.ReplayItemInsertManyParams{ReplayID: id}
	reopen := dbsqlc.DeliveryReopenParams{ReplayID: &id}
	parked := map[int64]int32{}
	var params []river.InsertManyParams
	for i, row := range rows {
		record.DeliveryIds = append(record.DeliveryIds, row.ID)
		record.PreviousStates = append(record.PreviousStates, row.State)
		record.PreviousReasons = append(record.PreviousReasons, row.Reason)
		record.Refusals = append(record.Refusals, result.Items[i].Refusal)
		if result.Items[i].Refusal != "" {
			continue
		}
		reopen.Ids = append(reopen.Ids, row.ID)
		parked[row.LaneID]++
		params = append(params, river.InsertManyParams{
			Args: DeliverArgs{DeliveryID: row.ID, Try: row.Try + 1}, InsertOpts: &river.InsertOpts{Pending: true, Priority: int(row.Priority)},
		})
	}
	if err := e.queries.ReplayItemInsertMany(ctx, tx, record); err != nil {
		return fmt.Errorf("record replay: %w", err)
	}
	if len(params) == 0 {
		return nil
	}
	jobs, err := e.client.InsertManyTx(ctx, tx, params)
	if err != nil {
		return fmt.Errorf("insert replay jobs: %w", err)
	}
	for _, job := range jobs {
		reopen.JobIds = append(reopen.JobIds, job.Job.ID)
	}
	if err := e.queries.DeliveryReopen(ctx, tx, reopen); err != nil {
		return fmt.Errorf("reopen deliveries: %w", err)
	}
	lanes := make([]int64, 0, len(parked))
	for lane := range parked {
		lanes = append(lanes, lane)
	}
	if err := addToLanes(ctx, tx, e.queries, nil, parked); err != nil {
		return err
	}
	return promoteLanes(ctx, tx, lanes)
}
