package web

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/jobs/webhook"
)

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

// rotateSecret makes a new secret of the same scheme. The older ones go on signing for the overlap, so that the receiver can change over
// without losing a request; 0 ends them at once.
func (s *Server) rotateSecret(ctx context.Context, id int64, overlap time.Duration) (secret string, err error) {
	if overlap < 0 || overlap > maxOverlap {
		return "", invalid("overlap", "want 0s to "+formatDuration(maxOverlap))
	}
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		if _, err := s.queries.DestinationLock(ctx, tx, id); err != nil {
			return destinationError(id, err)
		}
		before, name, err := s.destinationFacts(ctx, tx, id)
		if err != nil {
			return err
		}
		if secret, err = s.replaceSecret(ctx, tx, id, overlap); err != nil {
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

// replaceSecret adds a secret of the newest one's scheme and lets the others run out. The caller holds the destination's lock.
func (s *Server) replaceSecret(ctx context.Context, tx pgx.Tx, id int64, overlap time.Duration) (string, error) {
	live, err := s.queries.SecretListHint(ctx, tx, []int64{id}, 100)
	if err != nil {
		return "", fmt.Errorf("list secrets: %w", err)
	}
	if len(live) >= maxSecrets && overlap > 0 {
		return "", &jobs.ConflictError{What: "secret", Problem: fmt.Sprintf("%d of them sign already; wait until one ends, or rotate with an overlap of 0s", len(live))}
	}
	secret := webhook.NewSecret()
	if len(live) > 0 && live[0].Scheme == webhook.SchemeEd25519 {
		secret = webhook.NewSigningKey()
	}
	key, err := webhook.ParseSecret(secret)
	if err != nil {
		return "", fmt.Errorf("read new secret: %w", err)
	}
	if err := s.queries.SecretExpireByDestination(ctx, tx, id, overlap.Milliseconds()); err != nil {
		return "", fmt.Errorf("expire secrets: %w", err)
	}
	return secret, s.insertSecret(ctx, tx, id, secret, key)
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
