package web

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
	"weir/jobs"
)

// updateDestination changes what was given and leaves the rest. It holds from the next attempt on.
func (s *Server) updateDestination(ctx context.Context, id int64, in DestinationInput) (Destination, error) {
	if in.Secret != nil {
		return Destination{}, invalid("secret", "cannot be set here; rotate it instead")
	}
	// The URL's host is looked up before anything is locked; so what was read may have changed by then.
	for range 3 {
		row, err := s.queries.DestinationGetByID(ctx, s.Pool, id)
		if err != nil {
			return Destination{}, destinationError(id, err)
		}
		base, err := policyOf(row)
		if err != nil {
			return Destination{}, err
		}
		policy, err := s.validate(ctx, in, base)
		if err != nil {
			return Destination{}, err
		}
		err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error { return s.storeDestination(ctx, tx, row, in, policy) })
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return Destination{}, err
		}
		return s.getDestination(ctx, id)
	}
	return Destination{}, &jobs.ConflictError{What: "destination", Problem: "somebody else is changing it; look at it and try again"}
}

// storeDestination writes a checked change of row, with its entry in the audit log. errChanged: the row is not what was read.
func (s *Server) storeDestination(ctx context.Context, tx pgx.Tx, row dbsqlc.Destination, in DestinationInput, p destinationPolicy) error {
	if in.Lane != nil && in.Lane.ID != nil && *in.Lane.ID != formatID(idLane, row.LaneID) {
		return invalid("lane.id", "a destination keeps the lane that it was created with")
	}
	// The lane before the destination, as everywhere: a settling that disables the destination holds its lane.
	if in.Lane != nil || p.ordering != row.Ordering {
		if err := s.queries.LaneLock(ctx, tx, []int64{row.LaneID}); err != nil {
			return fmt.Errorf("lock lane: %w", err)
		}
	}
	locked, err := s.queries.DestinationLock(ctx, tx, row.ID)
	if err != nil {
		return destinationError(row.ID, err)
	}
	if locked.Version != row.Version {
		return errChanged
	}
	before, _, err := s.destinationFacts(ctx, tx, row.ID)
	if err != nil {
		return err
	}
	if err := s.writeDestination(ctx, tx, row, in, p); err != nil {
		return err
	}
	after, name, err := s.destinationFacts(ctx, tx, row.ID)
	if err != nil {
		return err
	}
	hiddenChanges(before, after, in, row.Url, p.url)
	if sameFacts(before, after) {
		return nil
	}
	return s.audit(ctx, tx, auditEntry{action: "destination.update", object: auditedDestination(row.ID, name), before: before, after: after})
}

// writeDestination writes each part of a change; the caller holds the locks.
func (s *Server) writeDestination(ctx context.Context, tx pgx.Tx, row dbsqlc.Destination, in DestinationInput, p destinationPolicy) error {
	if in.Lane != nil {
		if _, err := s.updateLane(ctx, tx, row.LaneID, "lane.", *in.Lane); err != nil {
			return err
		}
	}
	_, err := s.queries.DestinationUpdate(ctx, tx, dbsqlc.DestinationUpdateParams{
		ID: row.ID, Name: p.name, Url: p.url, Tenant: p.tenant, TimeoutMs: int32(p.timeout.Milliseconds()), TtlS: int64(p.ttl.Seconds()),
		Ordering: p.ordering, RetryScheduleMs: milliseconds(p.schedule), RetryJitter: p.jitter, Responses: p.responsesJSON(),
	})
	if err != nil {
		return nameTaken(fmt.Errorf("update destination: %w", err))
	}
	if p.ordering != row.Ordering {
		if err := s.orderLane(ctx, tx, row.LaneID); err != nil {
			return err
		}
	}
	if in.Headers != nil {
		if err := s.replaceHeaders(ctx, tx, row.ID, in.Headers); err != nil {
			return err
		}
	}
	if p.subscriptions != nil {
		return s.replaceSubscriptions(ctx, tx, row.ID, p.subscriptions)
	}
	return nil
}

// orderLane makes the lane keep accounts, even without limits, as long as one of its destinations wants versions one after another. The
// caller holds the lane's lock, or has just made its first destination.
func (s *Server) orderLane(ctx context.Context, tx pgx.Tx, lane int64) error {
	if err := s.queries.LaneLock(ctx, tx, []int64{lane}); err != nil {
		return fmt.Errorf("lock lane: %w", err)
	}
	before, err := s.queries.LaneGetByID(ctx, tx, lane)
	if err != nil {
		return laneError(lane, err)
	}
	limited, err := s.queries.LaneSetSerial(ctx, tx, lane)
	if err != nil {
		return fmt.Errorf("update lane: %w", err)
	}
	if limited == before.Limited {
		return nil
	}
	if _, err := jobs.RecountLanes(ctx, tx, s.queries, []int64{lane}); err != nil {
		return fmt.Errorf("recount lane: %w", err)
	}
	return nil
}
