package jobs

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// staleTables are those that grew by half since they were last analyzed. A plan made for an empty table and then cached makes the first
// burst of a fresh installation collapse (River's fetch: 1.2 s instead of 1 ms), and autovacuum looks only once a minute; ANALYZE
// throws cached plans away.
const staleTables = `SELECT relname FROM pg_stat_user_tables
	WHERE schemaname = current_schema() AND relname IN ('river_job', 'delivery', 'attempt', 'event', 'outbox')
		AND n_mod_since_analyze > 1000 + n_live_tup / 2`

func (s *sweeper) analyze(ctx context.Context) error {
	rows, err := s.pool.Query(ctx, staleTables)
	if err != nil {
		return err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, table := range tables {
		if _, err := s.pool.Exec(ctx, "ANALYZE "+pgx.Identifier{table}.Sanitize()); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweeper) prune(ctx context.Context) error {
	if err := s.queries.DiscoveryRunDeleteBefore(ctx, s.pool, time.Now().Add(-7*24*time.Hour)); err != nil {
		return err
	}
	if err := s.queries.LaneFlowPrune(ctx, s.pool); err != nil {
		return err
	}
	return s.queries.ProcessDeleteBefore(ctx, s.pool)
}

// pruneTally drops statistics, samples and changes of lanes that have had their time, a page at a time.
func (s *sweeper) pruneTally(ctx context.Context) error {
	for {
		n, err := s.queries.TallyDeleteOld(ctx, s.pool, 5000)
		if err != nil {
			return err
		}
		if n < 5000 {
			break
		}
	}
	if err := s.queries.LaneSampleDeleteBefore(ctx, s.pool); err != nil {
		return err
	}
	_, err := s.queries.LaneChangeDeleteOld(ctx, s.pool, 5000)
	return err
}
