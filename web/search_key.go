package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weir/db/dbsqlc"
	"weir/jobs"
)

// SearchKey says that a value of the payloads of some events can be searched for.
type SearchKey struct {
	ID        string    `json:"id"`
	Type      string    `json:"type" example:"shipment.*" doc:"Of which events: exact, shipment.* for everything below, or * for all."`
	Path      string    `json:"path" example:"tracking.number" doc:"Where the value stands: keys with dots between them, [] for every element of a list."`
	Label     string    `json:"label" example:"tracking" doc:"What it is called in a search; several keys may share one."`
	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`
}

func searchKeyOf(row dbsqlc.SearchKey) SearchKey {
	return SearchKey{formatID(idSearchKey, row.ID), row.TypePattern, row.Path, row.Label, row.CreatedBy, row.CreatedAt}
}

func (s *Server) listSearchKeys(ctx context.Context) ([]SearchKey, error) {
	rows, err := s.queries.SearchKeyList(ctx, s.Pool)
	if err != nil {
		return nil, fmt.Errorf("list search keys: %w", err)
	}
	keys := make([]SearchKey, len(rows))
	for i, row := range rows {
		keys[i] = searchKeyOf(row)
	}
	return keys, nil
}

// createSearchKey declares one. Events that came before are not looked into.
func (s *Server) createSearchKey(ctx context.Context, pattern, path, label string) (SearchKey, error) {
	pattern, path, label = strings.TrimSpace(pattern), strings.TrimSpace(path), strings.TrimSpace(label)
	if err := jobs.CheckSearchKey(pattern, path, label); err != nil {
		return SearchKey{}, err
	}
	count, err := s.queries.SearchKeyCount(ctx, s.Pool)
	if err != nil {
		return SearchKey{}, fmt.Errorf("count search keys: %w", err)
	}
	if count >= jobs.MaxSearchKeys {
		return SearchKey{}, &jobs.ConflictError{What: "search key", Problem: fmt.Sprintf("there are %d already, which is the most there can be", count)}
	}
	var key SearchKey
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		who := whoOf(ctx)
		row, err := s.queries.SearchKeyInsert(ctx, tx, dbsqlc.SearchKeyInsertParams{TypePattern: pattern, Path: path, Label: label, CreatedBy: who.kind + " " + who.name})
		if err != nil {
			return err
		}
		key = searchKeyOf(row)
		return s.audit(ctx, tx, auditEntry{action: "search_key.create", object: key.object(), after: key.facts()})
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "23505" {
		return SearchKey{}, &jobs.ConflictError{What: "search key", Problem: "this type, path and label are declared already"}
	}
	if err != nil {
		return SearchKey{}, fmt.Errorf("declare search key: %w", err)
	}
	return key, nil
}

func (k SearchKey) object() auditObject { return auditObject{"search_key", k.ID, k.Label} }

func (k SearchKey) facts() facts { return facts{"type": k.Type, "path": k.Path, "label": k.Label} }

// deleteSearchKey ends looking for it; what was found so far stays searchable for as long as its events stay.
func (s *Server) deleteSearchKey(ctx context.Context, id int64) error {
	err := pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		row, err := s.queries.SearchKeyDelete(ctx, tx, id)
		if err != nil {
			return err
		}
		key := searchKeyOf(row)
		return s.audit(ctx, tx, auditEntry{action: "search_key.delete", object: key.object(), before: key.facts()})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return &jobs.NotFoundError{What: "search key", ID: formatID(idSearchKey, id)}
	}
	if err != nil {
		return fmt.Errorf("remove search key: %w", err)
	}
	return nil
}
