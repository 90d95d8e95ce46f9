package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
)

// How a lane follows what its receiver says: down at once and by a share, up slowly and by a fixed step, so that it comes to rest just
// below what the receiver takes.
const (
	learnShare     = 0.02                   // of 429s is too many, of at least learnAnswers answers,
	learnAnswers   = 5                      //
	learnRefusals  = 3                      // or so many of any number
	learnLess      = 0.7                    // times the rate, then
	learnCalmer    = 0.85                   // times the rate, when answers take learnSlower times as long as usual,
	learnSlower    = 2.0                    //
	learnLatency   = 200 * time.Millisecond // and longer than this,
	learnTimed     = 20                     // over so many of them
	learnStep      = 0.05                   // of the ceiling more, when all is well
	learnUsed      = 0.5                    // and at least so much of the allowance was used
	learnPause     = 30 * time.Second       // between two changes down
	learnUsual     = 30                     // windows before a lane has a usual latency
	learnMemory    = 360                    // windows that the usual latency looks back over: an hour
	learnPage      = 500                    // lanes judged at a time
	floorShare     = 100                    // a learned rate is never below this part of the ceiling,
	floorPerSecond = 1.0 / 3600             // or one an hour
)

// learn looks at what the receivers of learning lanes answered lately and changes their pace, or suggests to.
func (s *sweeper) learn(ctx context.Context) error {
	for after := int64(0); ; {
		rows, err := s.queries.LaneListLearning(ctx, s.pool, after, learnPage)
		if err != nil {
			return fmt.Errorf("list learning lanes: %w", err)
		}
		usual := dbsqlc.LaneLatencySetParams{}
		for _, row := range rows {
			after = row.ID
			if err := s.learnOne(ctx, row); err != nil {
				return err
			}
			if row.Answers >= learnAnswers {
				usual.LaneIds = append(usual.LaneIds, row.ID)
				usual.BaselinesUs = append(usual.BaselinesUs, usualLatency(row))
				usual.Windows = append(usual.Windows, min(row.Windows+1, learnMemory))
			}
		}
		if err := s.queries.LaneLatencySet(ctx, s.pool, usual); err != nil {
			return fmt.Errorf("keep usual latencies: %w", err)
		}
		if len(rows) < learnPage {
			return nil
		}
	}
}

// usualLatency is the slow mean with one more window in it, in microseconds.
func usualLatency(row dbsqlc.LaneListLearningRow) int64 {
	mean := row.TookUs / row.Answers
	return row.BaselineUs + (mean-row.BaselineUs)/int64(min(row.Windows+1, learnMemory))
}

// learnOne judges one lane and applies or records what follows.
func (s *sweeper) learnOne(ctx context.Context, row dbsqlc.LaneListLearningRow) error {
	pace := row.Rate
	if row.LearnedRate != nil {
		pace = *row.LearnedRate
	}
	rate, why := judgePace(row, pace)
	if rate == pace || (row.Learning == "suggest" && ((rate < pace && row.SuggestedLess) || (rate > pace && row.SuggestedMore))) {
		return nil
	}
	change := dbsqlc.LaneChangeInsertParams{
		LaneID: row.ID, Kind: "learned", RateBefore: &pace, RateAfter: &rate, Reason: fmt.Sprintf("%s: %s → %s", why, SpellRate(pace), SpellRate(rate)),
	}
	if rate == row.Rate {
		change.Reason += ", the rate that was set"
	}
	if row.Learning == "suggest" {
		change.Kind = "suggested"
		if err := s.queries.LaneChangeInsert(ctx, s.pool, change); err != nil {
			return fmt.Errorf("record suggestion: %w", err)
		}
		return nil
	}
	applied := false
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := s.queries.LaneLock(ctx, tx, []int64{row.ID}); err != nil {
			return fmt.Errorf("lock lane: %w", err)
		}
		lane, err := s.queries.LaneGetByID(ctx, tx, row.ID)
		if err != nil {
			return fmt.Errorf("load lane: %w", err)
		}
		if lane.Learning != row.Learning || lane.Rate == nil || *lane.Rate != row.Rate || !samePace(lane.LearnedRate, row.LearnedRate) {
			return nil // somebody changed it meanwhile: that holds
		}
		applied = true
		return setLearnedRate(ctx, tx, s.queries, lane, change)
	})
	if err != nil {
		return fmt.Errorf("change a lane's pace: %w", err)
	}
	if applied {
		s.log.InfoContext(ctx, "lane learned", "lane", row.ID, "reason", change.Reason)
	}
	return nil
}

func samePace(a, b *float64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// setLearnedRate gives a lane, whose lock the caller holds, the rate of the change and records it.
func setLearnedRate(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, lane dbsqlc.Lane, change dbsqlc.LaneChangeInsertParams) error {
	if _, err := queries.LaneSetLearnedRate(ctx, tx, *change.RateAfter, lane.ID); err != nil {
		return fmt.Errorf("set learned rate: %w", err)
	}
	if err := RescaleLane(ctx, tx, queries, lane); err != nil {
		return err
	}
	if err := queries.LaneChangeInsert(ctx, tx, change); err != nil {
		return fmt.Errorf("record change: %w", err)
	}
	return nil
}

// RecordLanePolicy records that somebody changed a lane's rate or its learning, under the lane's lock; where neither changed it does nothing.
func RecordLanePolicy(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, before, after dbsqlc.Lane, actor string) error {
	var said []string
	if !samePace(before.Rate, after.Rate) {
		said = append(said, fmt.Sprintf("rate %s → %s", spellLimit(before.Rate), spellLimit(after.Rate)))
	}
	if before.Learning != after.Learning {
		said = append(said, fmt.Sprintf("learning %s → %s", before.Learning, after.Learning))
	}
	if len(said) == 0 {
		return nil
	}
	if before.LearnedRate != nil && after.LearnedRate == nil {
		said = append(said, fmt.Sprintf("the learned rate of %s is forgotten", SpellRate(*before.LearnedRate)))
	}
	err := queries.LaneChangeInsert(ctx, tx, dbsqlc.LaneChangeInsertParams{
		LaneID: after.ID, Kind: "policy", RateBefore: before.Rate, RateAfter: after.Rate, Actor: actor, Reason: strings.Join(said, ", "),
	})
	if err != nil {
		return fmt.Errorf("record change: %w", err)
	}
	return nil
}

func spellLimit(rate *float64) string {
	if rate == nil {
		return "not limited"
	}
	return SpellRate(*rate)
}

// RescaleLane is called after a lane's rate or burst was changed, under the lock taken before it, with the lane as it was: what is left of
// the allowance, in requests, stays the same, so that no change lets a burst through.
func RescaleLane(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, before dbsqlc.Lane) error {
	err := queries.LaneRescale(ctx, tx, dbsqlc.LaneRescaleParams{ID: before.ID, TauBeforeUs: before.TauUs, PeriodBeforeUs: before.PeriodUs})
	if err != nil {
		return fmt.Errorf("rescale lane: %w", err)
	}
	return nil
}

// judgePace says which pace a lane should have after its last window, and why; the same pace where nothing speaks for another.
func judgePace(row dbsqlc.LaneListLearningRow, pace float64) (rate float64, why string) {
	window := spell(time.Duration(row.SeenS * float64(time.Second)).Round(time.Second))
	share := float64(row.RateLimited) / float64(max(1, row.Answers))
	mean := time.Duration(row.TookUs/max(1, row.Answers)) * time.Microsecond
	usual := time.Duration(row.BaselineUs) * time.Microsecond
	slower := row.Windows >= learnUsual && row.Answers >= learnTimed && mean > learnLatency && float64(mean) > learnSlower*float64(usual)
	mayFall := row.UnchangedS >= learnPause.Seconds()
	switch {
	case row.RateLimited >= learnRefusals || (row.Answers >= learnAnswers && share >= learnShare):
		if !mayFall {
			return pace, ""
		}
		why = fmt.Sprintf("429 on %s %% of %d answers in the last %s", strconv.FormatFloat(100*share, 'g', 2, 64), row.Answers, window)
		return lower(row.Rate, pace, learnLess), why
	case slower:
		if !mayFall {
			return pace, ""
		}
		why = fmt.Sprintf("answers took %s on average in the last %s, usually %s", spell(mean), window, spell(usual))
		return lower(row.Rate, pace, learnCalmer), why
	case row.RateLimited > 0 || row.Failed > 0 || row.Slow || row.Parked == 0 || pace >= row.Rate:
		return pace, ""
	case row.UnchangedS < row.WindowS || float64(row.Requests) < learnUsed*pace*row.SeenS || row.Requests == 0:
		return pace, ""
	}
	rate = min(row.Rate, threeDigits(pace+max(learnStep*row.Rate, floorPerSecond/4)))
	return rate, fmt.Sprintf("all %d answers in the last %s were clean and %d deliveries wait", row.Answers, window, row.Parked)
}

// lower is the pace times the factor, but not below the floor; a pace that is there already stays.
func lower(ceiling, pace, factor float64) float64 {
	floor := min(ceiling, max(ceiling/floorShare, floorPerSecond))
	return min(pace, max(floor, threeDigits(pace*factor)))
}

// threeDigits rounds to that many: 7, not 6.999999.
func threeDigits(rate float64) float64 {
	scale := math.Pow(10, 2-math.Floor(math.Log10(rate)))
	return math.Round(rate*scale) / scale
}

// SpellRate writes a rate in the unit in which it is a number that one can think of.
func SpellRate(rate float64) string {
	number := func(f float64) string { return strconv.FormatFloat(threeDigits(f), 'f', -1, 64) }
	switch {
	case rate >= 0.5:
		return number(rate) + "/s"
	case rate*60 >= 0.5:
		return number(rate*60) + "/min"
	default:
		return number(rate*3600) + "/h"
	}
}

// AdoptRate gives a lane the pace that was suggested for it last, within the hour and since its last change: the lane's own rate stays as it is,
// the ceiling. Without such a suggestion it is a *ConflictError; an unknown lane is a *NotFoundError.
func (e *Engine) AdoptRate(ctx context.Context, laneID int64, actor string, also ...Also) error {
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		if err := e.queries.LaneLock(ctx, tx, []int64{laneID}); err != nil {
			return fmt.Errorf("lock lane: %w", err)
		}
		lane, err := e.queries.LaneGetByID(ctx, tx, laneID)
		if errors.Is(err, pgx.ErrNoRows) {
			return &NotFoundError{"lane", fmt.Sprintf("lane_%d", laneID)}
		}
		if err != nil {
			return fmt.Errorf("load lane: %w", err)
		}
		suggested, err := e.queries.LaneGetSuggestion(ctx, tx, laneID)
		if errors.Is(err, pgx.ErrNoRows) || (err == nil && (lane.Rate == nil || suggested.RateAfter == nil || *suggested.RateAfter > *lane.Rate)) {
			return &ConflictError{"adopt rate", "nothing was suggested for this lane within the last hour that has not been decided about"}
		}
		if err != nil {
			return fmt.Errorf("load suggestion: %w", err)
		}
		if lane.Learning == "off" {
			return &ConflictError{"adopt rate", "this lane does not learn: set learning to suggest or on, or change its rate"}
		}
		err = setLearnedRate(ctx, tx, e.queries, lane, dbsqlc.LaneChangeInsertParams{
			LaneID: laneID, Kind: "learned", RateBefore: suggested.RateBefore, RateAfter: suggested.RateAfter, Actor: actor, Reason: "adopted: " + suggested.Reason,
		})
		if err != nil {
			return err
		}
		return do(ctx, tx, also)
	})
}
