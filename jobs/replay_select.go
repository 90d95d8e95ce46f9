package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/db/dbsqlc"
)

// ReplayFilter selects deliveries that have ended. Zero values do not filter, but for States: without any, it is what was not delivered
// in the end (dead-lettered and expired).
type ReplayFilter struct {
	States        []string   `json:"states,omitempty"`
	DestinationID int64      `json:"destination,omitempty"`
	EventID       string     `json:"event,omitempty"`
	Subject       string     `json:"subject,omitempty"`
	Type          string     `json:"type,omitempty"` // exact, or a pattern such as shipment.*
	Tenant        string     `json:"tenant,omitempty"`
	ErrorClass    string     `json:"error_class,omitempty"`
	Status        int32      `json:"status,omitempty"` // the last answer's
	Reason        string     `json:"reason,omitempty"` // is part of the delivery's reason, in any case
	CreatedFrom   *time.Time `json:"created_from,omitempty"`
	CreatedTo     *time.Time `json:"created_to,omitempty"`
	SettledFrom   *time.Time `json:"settled_from,omitempty"`
	SettledTo     *time.Time `json:"settled_to,omitempty"`
	Letters       int64      `json:"dead_letters,omitempty"` // what is open of this group of dead letters
	Deliveries    []int64    `json:"deliveries,omitempty"`   // chosen one by one, with Letters out of that group; at most MaxLettersChosen
}

// ReplayStates are those a delivery can be replayed from.
var ReplayStates = []string{StateDeadLettered, StateExpired, StateDelivered, StateSuperseded, StateCancelled}

// normalized checks the filter and brings it into the one form that its digest is made of.
func (f ReplayFilter) normalized() (ReplayFilter, error) {
	if len(f.States) == 0 {
		f.States = []string{StateDeadLettered, StateExpired}
	}
	f.States = slices.Clone(f.States)
	slices.Sort(f.States)
	f.States = slices.Compact(f.States)
	for _, state := range f.States {
		if !slices.Contains(ReplayStates, state) {
			return f, &InvalidError{"states", "want some of " + strings.Join(ReplayStates, ", ") + "; not " + printable(state)}
		}
	}
	for _, field := range []struct {
		name, value string
		most        int
	}{
		{"event", f.EventID, 400}, {"subject", f.Subject, 255}, {"type", f.Type, 255}, {"tenant", f.Tenant, 255}, {"error_class", f.ErrorClass, 100}, {"reason", f.Reason, 200},
	} {
		if err := checkText(field.name, field.value, field.most); err != nil {
			return f, err
		}
	}
	if len(f.Deliveries) > MaxLettersChosen {
		return f, &InvalidError{"deliveries", fmt.Sprintf("want %d at most", MaxLettersChosen)}
	}
	f.Deliveries = slices.Clone(f.Deliveries)
	slices.Sort(f.Deliveries)
	f.Deliveries = slices.Compact(f.Deliveries)
	if f.Status != 0 && (f.Status < 100 || f.Status > 999) {
		return f, &InvalidError{"status", "want the status of an answer, such as 503"}
	}
	for _, at := range []**time.Time{&f.CreatedFrom, &f.CreatedTo, &f.SettledFrom, &f.SettledTo} {
		if *at != nil {
			*at = new((*at).UTC().Truncate(time.Microsecond))
		}
	}
	if f.CreatedFrom != nil && f.CreatedTo != nil && !f.CreatedFrom.Before(*f.CreatedTo) {
		return f, &InvalidError{"created_to", "want a time after created_from"}
	}
	if f.SettledFrom != nil && f.SettledTo != nil && !f.SettledFrom.Before(*f.SettledTo) {
		return f, &InvalidError{"settled_to", "want a time after settled_from"}
	}
	return f, nil
}

// checkChosen refuses deliveries that are none of the group they are said to be chosen from: sent unseen, or left out unsaid, they would
// be somebody's surprise. Those that have left the group count; whether they can be sent is a matter of their states.
func (f ReplayFilter) checkChosen(ctx context.Context, queries *dbsqlc.Queries, conn dbsqlc.DBTX) error {
	if f.Letters == 0 || len(f.Deliveries) == 0 {
		return nil
	}
	foreign, err := queries.DeadLetterFirstForeign(ctx, conn, f.Deliveries, f.Letters)
	if err != nil {
		return fmt.Errorf("look chosen deliveries up: %w", err)
	}
	if foreign != 0 {
		return &InvalidError{"deliveries", fmt.Sprintf("want deliveries of the group dlg_%d of dead letters; dlv_%d does not belong to it", f.Letters, foreign)}
	}
	return nil
}

// encode is the filter as it is stored, and its digest: equal for equal selections.
func (f ReplayFilter) encode() (filter []byte, digest string, err error) {
	if filter, err = json.Marshal(f); err != nil {
		return nil, "", fmt.Errorf("encode replay filter: %w", err)
	}
	sum := sha256.Sum256(filter)
	return filter, hex.EncodeToString(sum[:16]), nil
}

// DecodeReplayFilter reads a filter as a run has stored it.
func DecodeReplayFilter(stored []byte) (f ReplayFilter, err error) {
	if err = json.Unmarshal(stored, &f); err != nil {
		return f, fmt.Errorf("decode replay filter: %w", err)
	}
	return f, nil
}

// stages are the walks that together meet everything the filter may match: along one index, or one state after the other.
func (f ReplayFilter) stages() []string {
	if f.Letters != 0 || len(f.Deliveries) > 0 || f.EventID != "" || f.Subject != "" || slices.Contains(f.States, StateDelivered) {
		return []string{""}
	}
	return f.States
}

// replayCursor is where a walk stands.
type replayCursor struct {
	stage int
	id    int64
	done  bool
}

// replayReader walks through what a filter selects.
type replayReader struct {
	queries *dbsqlc.Queries
	filter  ReplayFilter
	by      time.Time // what has not ended by then is not selected
}

// next reads on from at: at most stretch rows of the ledger, of which those that match are returned.
func (r *replayReader) next(ctx context.Context, conn dbsqlc.DBTX, at replayCursor, stretch int32) ([]dbsqlc.DeliveryListSelectedRow, replayCursor, error) {
	stages := r.filter.stages()
	if at.stage >= len(stages) {
		return nil, replayCursor{stage: at.stage, done: true}, nil
	}
	ids, last, err := r.stretch(ctx, conn, stages[at.stage], at.id, stretch)
	if err != nil {
		return nil, at, fmt.Errorf("read ledger: %w", err)
	}
	if len(ids) < int(stretch) {
		at = replayCursor{stage: at.stage + 1, done: at.stage+1 >= len(stages)}
	} else {
		at.id = last
	}
	if len(ids) == 0 {
		return nil, at, nil
	}
	rows, err := r.queries.DeliveryListSelected(ctx, conn, r.params(ids))
	if err != nil {
		return nil, at, fmt.Errorf("select deliveries: %w", err)
	}
	return rows, at, nil
}

// stretch reads the next ids of a walk, and where it stands after them.
func (r *replayReader) stretch(ctx context.Context, conn dbsqlc.DBTX, stage string, after int64, limit int32) (ids []int64, last int64, err error) {
	if r.filter.Letters != 0 && len(r.filter.Deliveries) == 0 {
		return r.letters(ctx, conn, after, limit)
	}
	if ids, err = r.ledger(ctx, conn, stage, after, limit); err == nil && len(ids) > 0 {
		last = ids[len(ids)-1]
	}
	return ids, last, err
}

// letters walks along a group of the inbox, in the order in which they came in.
func (r *replayReader) letters(ctx context.Context, conn dbsqlc.DBTX, after int64, limit int32) (ids []int64, last int64, err error) {
	rows, err := r.queries.DeadLetterStretch(ctx, conn, dbsqlc.DeadLetterStretchParams{GroupID: r.filter.Letters, After: after, Max: limit})
	for _, row := range rows {
		ids, last = append(ids, row.DeliveryID), row.Seq
	}
	return ids, last, err
}

func (r *replayReader) ledger(ctx context.Context, conn dbsqlc.DBTX, stage string, after int64, limit int32) ([]int64, error) {
	f, q := r.filter, r.queries
	switch {
	case len(f.Deliveries) > 0:
		from, _ := slices.BinarySearch(f.Deliveries, after+1)
		return f.Deliveries[from:min(from+int(limit), len(f.Deliveries))], nil
	case f.EventID != "":
		return q.DeliveryStretchByEvent(ctx, conn, dbsqlc.DeliveryStretchByEventParams{EventID: f.EventID, After: after, Max: limit})
	case f.Subject != "":
		return q.DeliveryStretchBySubject(ctx, conn, dbsqlc.DeliveryStretchBySubjectParams{Subject: f.Subject, After: after, Max: limit})
	case stage != "":
		return q.DeliveryStretchByAttention(ctx, conn, dbsqlc.DeliveryStretchByAttentionParams{Attention: stage, After: after, Max: limit})
	case f.DestinationID != 0:
		return q.DeliveryStretchByDestination(ctx, conn, dbsqlc.DeliveryStretchByDestinationParams{DestinationID: f.DestinationID, After: after, Max: limit})
	}
	return q.DeliveryStretch(ctx, conn, after, limit)
}

func (r *replayReader) params(ids []int64) dbsqlc.DeliveryListSelectedParams {
	f := r.filter
	return dbsqlc.DeliveryListSelectedParams{
		Ids: ids, States: f.States, SettledBy: &r.by, DestinationID: orNull(f.DestinationID), ErrorClass: orNull(f.ErrorClass), Status: orNull(f.Status),
		Reason: orNull(f.Reason), CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo, SettledFrom: f.SettledFrom, SettledTo: f.SettledTo,
		OfEvent: f.EventID != "" || f.Subject != "" || f.Tenant != "" || f.Type != "",
		EventID: orNull(f.EventID), Subject: orNull(f.Subject), Tenant: orNull(f.Tenant), Type: orNull(f.Type),
	}
}

func orNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
