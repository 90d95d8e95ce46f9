package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/jobs/webhook"
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
		row, err := s.queries.DestinationInsert(ctx, tx, dbsqlc.DestinationInsertParams{
			Name: policy.name, Url: policy.url, Tenant: policy.tenant, LaneID: lane, TimeoutMs: int32(policy.timeout.Milliseconds()),
			TtlS: int64(policy.ttl.Seconds()), Ordering: policy.ordering, RetryScheduleMs: milliseconds(policy.schedule), RetryJitter: policy.jitter,
			Responses: policy.responsesJSON(),
		})
		if err != nil {
			return nameTaken(fmt.Errorf("insert destination: %w", err))
		}
		id = row.ID
		if err := s.orderLane(ctx, tx, lane); err != nil {
			return err
		}
		if err := s.insertSecret(ctx, tx, id, secret, key); err != nil {
			return err
		}
		if err := s.insertHeaders(ctx, tx, id, headers); err != nil {
			return err
		}
		if err := s.replaceSubscriptions(ctx, tx, id, policy.subscriptions); err != nil {
			return err
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

func newSecret(given *string) (string, webhook.Key, error) {
	text := webhook.NewSecret()
	if given != nil {
		text = *given
	}
	key, err := webhook.ParseSecret(text)
	if err != nil {
		return "", webhook.Key{}, invalid("secret", err.Error())
	}
	return text, key, nil
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

// insertSecret seals the secret. Its row's id is drawn first, because the seal is bound to it.
func (s *Server) insertSecret(ctx context.Context, tx pgx.Tx, destinationID int64, secret string, key webhook.Key) error {
	id, err := s.queries.SecretNextID(ctx, tx)
	if err != nil {
		return fmt.Errorf("draw secret id: %w", err)
	}
	sealed := s.Keyring.Seal([]byte(secret), fmt.Sprintf("secret/%d", id))
	err = s.queries.SecretInsert(ctx, tx, dbsqlc.SecretInsertParams{
		ID: id, DestinationID: destinationID, Scheme: key.Scheme(), Sealed: sealed, Hint: secret[len(secret)-4:],
	})
	if err != nil {
		return fmt.Errorf("insert secret: %w", err)
	}
	return nil
}

func (s *Server) insertHeaders(ctx context.Context, tx pgx.Tx, destinationID int64, headers map[string]string) error {
	for name, value := range headers {
		sealed := s.Keyring.Seal([]byte(value), fmt.Sprintf("header/%d/%s", destinationID, strings.ToLower(name)))
		err := s.queries.HeaderInsert(ctx, tx, dbsqlc.HeaderInsertParams{DestinationID: destinationID, Name: name, Sealed: sealed})
		if err != nil {
			return fmt.Errorf("insert header: %w", err)
		}
	}
	return nil
}

// splitHeaders gives the headers with a value, and the names of those whose stored value is to be kept.
func splitHeaders(in *map[string]*string) (headers map[string]string, kept []string) {
	headers = map[string]string{}
	if in == nil {
		return headers, nil
	}
	for name, value := range *in {
		if value == nil {
			kept = append(kept, name)
			continue
		}
		headers[name] = *value
	}
	return headers, kept
}

// replaceHeaders makes the set of headers what was given; a null keeps the stored value, under the stored spelling of the name.
func (s *Server) replaceHeaders(ctx context.Context, tx pgx.Tx, id int64, in *map[string]*string) error {
	headers, kept := splitHeaders(in)
	stored, err := s.queries.HeaderListName(ctx, tx, []int64{id}, 1000)
	if err != nil {
		return fmt.Errorf("list headers: %w", err)
	}
	have := map[string]bool{}
	for _, row := range stored {
		have[strings.ToLower(row.Name)] = true
	}
	keep := []string{}
	for _, name := range kept {
		if !have[strings.ToLower(name)] {
			return invalid("headers."+name, "has no value that could be kept")
		}
		keep = append(keep, strings.ToLower(name))
	}
	if err := s.queries.HeaderDeleteOthers(ctx, tx, id, keep); err != nil {
		return fmt.Errorf("delete headers: %w", err)
	}
	return s.insertHeaders(ctx, tx, id, headers)
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

func (s *Server) storeDestination(ctx context.Context, tx pgx.Tx, row dbsqlc.Destination, in DestinationInput, p destinationPolicy) error {
	// The lane before the destination, as everywhere: a settling that disables the destination holds its lane.
	if in.Lane != nil {
		if in.Lane.ID != nil && *in.Lane.ID != formatID(idLane, row.LaneID) {
			return invalid("lane.id", "a destination keeps the lane that it was created with")
		}
		if err := s.queries.LaneLock(ctx, tx, []int64{row.LaneID}); err != nil {
			return fmt.Errorf("lock lane: %w", err)
		}
	}
	if p.ordering != row.Ordering {
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
	if in.Lane != nil {
		if _, err := s.updateLane(ctx, tx, row.LaneID, "lane.", *in.Lane); err != nil {
			return err
		}
	}
	_, err = s.queries.DestinationUpdate(ctx, tx, dbsqlc.DestinationUpdateParams{
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
		if err := s.replaceSubscriptions(ctx, tx, row.ID, p.subscriptions); err != nil {
			return err
		}
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

// rotateSecret makes a new secret of the same scheme. The older ones go on signing for the overlap, so that the receiver can change over
// without losing a request; 0 ends them at once.
func (s *Server) rotateSecret(ctx context.Context, id int64, overlap time.Duration) (string, error) {
	if overlap < 0 || overlap > maxOverlap {
		return "", invalid("overlap", "want 0s to "+formatDuration(maxOverlap))
	}
	var secret string
	err := pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		if _, err := s.queries.DestinationLock(ctx, tx, id); err != nil {
			return destinationError(id, err)
		}
		before, name, err := s.destinationFacts(ctx, tx, id)
		if err != nil {
			return err
		}
		live, err := s.queries.SecretListHint(ctx, tx, []int64{id}, 100)
		if err != nil {
			return fmt.Errorf("list secrets: %w", err)
		}
		if len(live) >= maxSecrets && overlap > 0 {
			return &jobs.ConflictError{What: "secret", Problem: fmt.Sprintf("%d of them sign already; wait until one ends, or rotate with an overlap of 0s", len(live))}
		}
		secret = webhook.NewSecret()
		if len(live) > 0 && live[0].Scheme == webhook.SchemeEd25519 {
			secret = webhook.NewSigningKey()
		}
		key, err := webhook.ParseSecret(secret)
		if err != nil {
			return fmt.Errorf("read new secret: %w", err)
		}
		err = s.queries.SecretExpireByDestination(ctx, tx, id, overlap.Milliseconds())
		if err != nil {
			return fmt.Errorf("expire secrets: %w", err)
		}
		if err := s.insertSecret(ctx, tx, id, secret, key); err != nil {
			return err
		}
		if err := s.queries.DestinationBumpVersion(ctx, tx, id); err != nil {
			return fmt.Errorf("note the change: %w", err)
		}
		after, _, err := s.destinationFacts(ctx, tx, id)
		if err != nil {
			return err
		}
		return s.audit(ctx, tx, auditEntry{action: "secret.rotate", object: auditedDestination(id, name), before: before, after: after})
	})
	if err != nil {
		return "", err
	}
	return secret, nil
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
