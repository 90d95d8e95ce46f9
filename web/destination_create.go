package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weir/db/dbsqlc"
	"weir/jobs"
)

// createDestination makes a destination with its lane, secret, headers and subscriptions, in one transaction. The secret is returned here
// and never again.
func (s *Server) createDestination(ctx context.Context, in DestinationInput) (Destination, string, error) {
	everything := []SubscriptionInput{{Types: []string{"*"}}}
	policy, err := s.validate(ctx, in, destinationPolicy{
		timeout: defaultTimeout, ttl: defaultTTL, ordering: defaultOrdering, schedule: defaultSchedule(), jitter: defaultJitter, subscriptions: everything,
	})
	if err != nil {
		return Destination{}, "", err
	}
	secret, key, err := newSecret(in.Secret)
	if err != nil {
		return Destination{}, "", err
	}
	headers, kept := splitHeaders(in.Headers)
	if len(kept) > 0 {
		return Destination{}, "", invalid("headers."+kept[0], "has no value that could be kept")
	}
	laneID, budget, err := newLane(in.Lane)
	if err != nil {
		return Destination{}, "", err
	}

	var id int64
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		lane, err := s.insertLane(ctx, tx, laneID, budget, policy.name)
		if err != nil {
			return err
		}
		row, err := s.queries.DestinationInsert(ctx, tx, policy.insertParams(lane))
		if err != nil {
			return nameTaken(fmt.Errorf("insert destination: %w", err))
		}
		id = row.ID
		for _, step := range []func() error{
			func() error { return s.orderLane(ctx, tx, lane) },
			func() error { return s.insertSecret(ctx, tx, id, secret, key) },
			func() error { return s.insertHeaders(ctx, tx, id, headers) },
			func() error { return s.replaceSubscriptions(ctx, tx, id, policy.subscriptions) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		made, name, err := s.destinationFacts(ctx, tx, id)
		if err != nil {
			return err
		}
		return s.audit(ctx, tx, auditEntry{action: "destination.create", object: auditedDestination(id, name), after: made})
	})
	if err != nil {
		return Destination{}, "", err
	}
	destination, err := s.getDestination(ctx, id)
	return destination, secret, err
}

func (p destinationPolicy) insertParams(lane int64) dbsqlc.DestinationInsertParams {
	return dbsqlc.DestinationInsertParams{
		Name: p.name, Url: p.url, Tenant: p.tenant, LaneID: lane, TimeoutMs: int32(p.timeout.Milliseconds()), TtlS: int64(p.ttl.Seconds()),
		Ordering: p.ordering, RetryScheduleMs: milliseconds(p.schedule), RetryJitter: p.jitter, Responses: p.responsesJSON(),
	}
}

// newLane reads which lane a new destination gets: an id to join, or the budget of its own.
func newLane(in *LaneInput) (id int64, budget laneBudget, err error) {
	if in == nil {
		return 0, defaultBudget(), nil
	}
	if in.ID != nil {
		if in.Name != nil || in.Rate.Set || in.Burst != nil || in.MaxInFlight.Set || in.Learning != nil {
			return 0, laneBudget{}, invalid("lane.id", "joins a lane as it is; its budget is changed at /lanes/{id}")
		}
		id, err = parseIDField(idLane, "lane.id", *in.ID)
		return id, laneBudget{}, err
	}
	budget, err = setBudget("lane.", *in, defaultBudget())
	return 0, budget, err
}

func (s *Server) insertLane(ctx context.Context, tx pgx.Tx, id int64, b laneBudget, name string) (int64, error) {
	if id != 0 {
		if _, err := s.queries.LaneGetByID(ctx, tx, id); errors.Is(err, pgx.ErrNoRows) {
			return 0, invalid("lane.id", "there is no such lane")
		} else if err != nil {
			return 0, fmt.Errorf("load lane: %w", err)
		}
		return id, nil
	}
	if b.name != nil {
		name = *b.name
	}
	lane, err := s.queries.LaneInsert(ctx, tx, dbsqlc.LaneInsertParams{Name: name, Rate: b.rate, Burst: int32(b.burst), MaxInFlight: int32Of(b.maxInFlight), Learning: b.learning})
	if err != nil {
		return 0, fmt.Errorf("insert lane: %w", err)
	}
	return lane.ID, nil
}

func (s *Server) replaceSubscriptions(ctx context.Context, tx pgx.Tx, id int64, subscriptions []SubscriptionInput) error {
	if err := s.queries.SubscriptionDeleteByDestination(ctx, tx, id); err != nil {
		return fmt.Errorf("delete subscriptions: %w", err)
	}
	for _, sub := range subscriptions {
		err := s.queries.SubscriptionInsert(ctx, tx, dbsqlc.SubscriptionInsertParams{DestinationID: id, Types: sub.Types, Tenant: sub.Tenant.Value})
		if err != nil {
			return fmt.Errorf("insert subscription: %w", err)
		}
	}
	return nil
}

func (p destinationPolicy) responsesJSON() []byte {
	if len(p.responses) == 0 {
		return []byte("[]")
	}
	data, _ := json.Marshal(p.responses) // strings always can be
	return data
}

func milliseconds(waits []time.Duration) []int64 {
	ms := make([]int64, len(waits))
	for i, wait := range waits {
		ms[i] = wait.Milliseconds()
	}
	return ms
}

func int32Of(n *int64) *int32 {
	if n == nil {
		return nil
	}
	small := int32(*n) // checked by setBudget
	return &small
}

func nameTaken(err error) error {
	var database *pgconn.PgError
	if errors.As(err, &database) && database.ConstraintName == "destination_name_key" {
		return &jobs.ConflictError{What: "name", Problem: "another destination has this name"}
	}
	return err
}
