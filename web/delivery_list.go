package web

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/db/dbsqlc"
)

// deliveryFilter is what a list of deliveries is of; all of it has to hold. Zero values do not filter.
type deliveryFilter struct {
	State         string
	DestinationID int64
	LaneID        int64
	EventID       string
	Subject       string
	Type          string // exact, or "shipment.*" for everything below
	Tenant        string
	ErrorClass    string
	Status        statusRange
	From, Until   time.Time // when its event came: from the first on, before the second
	Cursor        string
	Limit         int
}

// statusRange is which last answers are meant; the zero value means any.
type statusRange struct{ Low, High int32 }

// noAnswer stands for a delivery whose last request, if there was any, got no status.
const noAnswer = -1

// The states of a delivery; those that the index on attention has.
var (
	deliveryStates  = []string{"pending", "retrying", "delivered", "expired", "dead_lettered", "superseded", "cancelled"}
	attentionStates = []string{"retrying", "expired", "dead_lettered", "superseded", "cancelled"}
)

// walk is how the ledger is read for a filter: along which index, and between which events.
type walk struct {
	filter    deliveryFilter
	low, high int64 // row ids of events
	nothing   bool  // no event can match
}

// pair says whether the walk goes by event and destination, and not by the delivery's own id.
func (f deliveryFilter) pair() bool {
	return f.EventID != "" || f.Subject != "" || (f.timed() && !slices.Contains(attentionStates, f.State))
}

func (f deliveryFilter) timed() bool { return !f.From.IsZero() || !f.Until.IsZero() }

// filtered says whether anything is left to filter by, once the walk has chosen its index.
func (f deliveryFilter) filtered() bool {
	rest := f
	switch {
	case f.EventID != "" || f.Subject != "":
		rest.EventID, rest.Subject = "", ""
	case slices.Contains(attentionStates, f.State):
		rest.State = ""
	case f.timed():
		rest.From, rest.Until = time.Time{}, time.Time{}
	default:
		rest.DestinationID = 0
	}
	rest.Cursor, rest.Limit = "", 0
	return rest != deliveryFilter{}
}

// plan looks up between which events the filter's deliveries are.
func (s *Server) plan(ctx context.Context, f deliveryFilter) (walk, error) {
	w := walk{filter: f, high: math.MaxInt64}
	if f.EventID != "" {
		event, err := s.findEvent(ctx, f.EventID)
		if isNotFound(err) || (err == nil && f.Subject != "" && event.Subject != f.Subject) {
			w.nothing = true
			return w, nil
		}
		w.low, w.high = event.RowID, event.RowID
		if err != nil || !f.timed() {
			return w, err
		}
		w.nothing = event.CreatedAt.Before(f.From) || (!f.Until.IsZero() && !event.CreatedAt.Before(f.Until))
		return w, nil
	}
	var err error
	if !f.From.IsZero() {
		if w.low, err = s.eventAt(ctx, f.From); err != nil {
			return w, err
		}
	}
	if !f.Until.IsZero() {
		before, err := s.eventAt(ctx, f.Until)
		w.high, w.nothing = before-1, before <= w.low
		return w, err
	}
	return w, nil
}

// eventAt is the row id of the first event that came at a moment or later; one past the last where there is none. Rows get their ids in
// the order of their coming, but for those of transactions that ran side by side: a boundary is exact to within a second or so, and the
// same for everybody who asks.
func (s *Server) eventAt(ctx context.Context, at time.Time) (int64, error) {
	last, err := s.queries.EventLast(ctx, s.Pool)
	if err != nil {
		return 0, fmt.Errorf("find events by time: %w", err)
	}
	low, high := int64(1), last+1 // the answer is in [low, high]
	for low < high {
		middle := low + (high-low)/2
		row, err := s.queries.EventFrom(ctx, s.Pool, middle)
		if err != nil {
			return 0, fmt.Errorf("find events by time: %w", err)
		}
		if row.CreatedAt.Before(at) {
			low = row.ID + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// listDeliveries is one page, newest first.
func (s *Server) listDeliveries(ctx context.Context, f deliveryFilter) (Page[Delivery], error) {
	w, err := s.plan(ctx, f)
	if err != nil {
		return Page[Delivery]{}, err
	}
	page, err := s.walkDeliveries(ctx, w, clampLimit(f.Limit), scanTime)
	if err != nil {
		return Page[Delivery]{}, err
	}
	items, err := s.viewDeliveries(ctx, page.IDs)
	return Page[Delivery]{Items: items, NextCursor: page.cursor(), SearchedTo: page.SearchedTo}, err
}

func (s *Server) walkDeliveries(ctx context.Context, w walk, limit int, budget time.Duration) (walked, error) {
	from, err := parsePlace(w.filter.Cursor, w.filter.pair())
	if err != nil || w.nothing {
		return walked{}, err
	}
	page, err := walkPage(from, limit, w.filter.filtered(), budget, func(before place, length, limit int32) (stretch, error) {
		return s.scanDeliveries(ctx, w, before, length, limit)
	})
	if err != nil {
		return walked{}, fmt.Errorf("list deliveries: %w", err)
	}
	return page, nil
}

// scanDeliveries reads one stretch along the index that the filter has.
func (s *Server) scanDeliveries(ctx context.Context, w walk, before place, length, limit int32) (stretch, error) {
	f := w.filter
	p := dbsqlc.DeliveryPageParams{
		Before: before.Major, Stretch: length, State: orNil(f.State), DestinationID: orNil(f.DestinationID), LaneID: orNil(f.LaneID),
		LowEvent: w.low, HighEvent: w.high, StatusLow: f.Status.Low, StatusHigh: f.Status.High, ErrorClass: orNil(f.ErrorClass),
		Type: orNil(f.Type), Tenant: orNil(f.Tenant), Max: limit,
	}
	if f.pair() {
		return s.scanPairs(ctx, p, f, before)
	}
	var row dbsqlc.DeliveryPageRow
	var err error
	switch {
	case slices.Contains(attentionStates, f.State):
		var r dbsqlc.DeliveryPageByAttentionRow
		r, err = s.queries.DeliveryPageByAttention(ctx, s.Pool, dbsqlc.DeliveryPageByAttentionParams{
			Attention: f.State, Before: p.Before, Stretch: p.Stretch, State: p.State, DestinationID: p.DestinationID, LaneID: p.LaneID,
			LowEvent: p.LowEvent, HighEvent: p.HighEvent, StatusLow: p.StatusLow, StatusHigh: p.StatusHigh, ErrorClass: p.ErrorClass,
			Type: p.Type, Tenant: p.Tenant, Max: p.Max,
		})
		row = dbsqlc.DeliveryPageRow(r)
	case f.DestinationID != 0:
		var r dbsqlc.DeliveryPageByDestinationRow
		r, err = s.queries.DeliveryPageByDestination(ctx, s.Pool, dbsqlc.DeliveryPageByDestinationParams{
			OfDestination: f.DestinationID, Before: p.Before, Stretch: p.Stretch, State: p.State, DestinationID: p.DestinationID, LaneID: p.LaneID,
			LowEvent: p.LowEvent, HighEvent: p.HighEvent, StatusLow: p.StatusLow, StatusHigh: p.StatusHigh, ErrorClass: p.ErrorClass,
			Type: p.Type, Tenant: p.Tenant, Max: p.Max,
		})
		row = dbsqlc.DeliveryPageRow(r)
	default:
		row, err = s.queries.DeliveryPage(ctx, s.Pool, p)
	}
	part := stretchOf(row)
	part.Floor.Minor = -1
	for i, id := range row.Ids {
		part.Places[i] = place{id, -1}
	}
	return part, err
}

// scanPairs goes by event and destination: an event's deliveries, a subject's, or those of a time.
func (s *Server) scanPairs(ctx context.Context, p dbsqlc.DeliveryPageParams, f deliveryFilter, before place) (stretch, error) {
	if f.Subject != "" && f.EventID == "" {
		r, err := s.queries.DeliveryPageBySubject(ctx, s.Pool, dbsqlc.DeliveryPageBySubjectParams{
			Subject: f.Subject, Before: p.Before, BeforeDestination: before.Minor, Stretch: p.Stretch, State: p.State, DestinationID: p.DestinationID,
			LaneID: p.LaneID, LowEvent: p.LowEvent, HighEvent: p.HighEvent, StatusLow: p.StatusLow, StatusHigh: p.StatusHigh,
			ErrorClass: p.ErrorClass, Type: p.Type, Tenant: p.Tenant, Max: p.Max,
		})
		return stretchOf(dbsqlc.DeliveryPageRow(r)), err
	}
	if p.HighEvent < p.Before {
		p.Before, before.Minor = p.HighEvent, math.MaxInt64
	}
	r, err := s.queries.DeliveryPageByEventRange(ctx, s.Pool, dbsqlc.DeliveryPageByEventRangeParams{
		Before: p.Before, BeforeDestination: before.Minor, Stretch: p.Stretch, State: p.State, DestinationID: p.DestinationID,
		LaneID: p.LaneID, LowEvent: p.LowEvent, HighEvent: p.HighEvent, StatusLow: p.StatusLow, StatusHigh: p.StatusHigh,
		ErrorClass: p.ErrorClass, Type: p.Type, Tenant: p.Tenant, Max: p.Max,
	})
	return stretchOf(dbsqlc.DeliveryPageRow(r)), err
}

func stretchOf(row dbsqlc.DeliveryPageRow) stretch {
	part := stretch{Scanned: row.Scanned, Floor: place{row.Floor, row.FloorDestination}, FloorAt: row.FloorAt, IDs: row.Ids, Places: make([]place, len(row.Ids))}
	for i := range row.Ids {
		part.Places[i] = place{row.EventIds[i], row.DestinationIds[i]}
	}
	return part
}

// deliveryCount is how many deliveries a filter has, as far as could be found out in little time.
type deliveryCount struct {
	N        int64
	More     bool       // there are more than that
	Estimate bool       // by the statistics
	Since    *time.Time // counted back to this moment; nil: all of them
}

// countLimit is how far is counted.
const countLimit = 10_000

// countDeliveries never counts all of a large table: up to countLimit, within countTime; without a filter the statistics know.
func (s *Server) countDeliveries(ctx context.Context, f deliveryFilter) (deliveryCount, error) {
	f.Cursor, f.Limit = "", 0
	w, err := s.plan(ctx, f)
	if err != nil {
		return deliveryCount{}, err
	}
	page, err := s.walkDeliveries(ctx, w, countLimit, countTime)
	if err != nil {
		return deliveryCount{}, err
	}
	count := deliveryCount{N: int64(len(page.IDs)), More: page.Next != nil, Since: page.SearchedTo}
	if count.More && count.Since == nil && f == (deliveryFilter{}) {
		n, err := s.queries.DeliveryEstimate(ctx, s.Pool)
		if err != nil {
			return deliveryCount{}, fmt.Errorf("estimate deliveries: %w", err)
		}
		if n > count.N {
			return deliveryCount{N: n, Estimate: true}, nil
		}
	}
	return count, nil
}
