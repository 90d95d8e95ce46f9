package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/web/ui"
)

// What a forecast wants to have seen at least; below it says so and nothing else.
const (
	forecastDeliveries = 20
	forecastKnown      = 30 * time.Minute
)

// forecastModel is what a setting would have done to the last day, beside what the present one would have done and what happened.
type forecastModel struct {
	Now, From, To               time.Time
	Known                       time.Time // the first arrival that was counted
	TooLittle                   string    // the sentence that stands for all of it where too little is known
	Proposed, Present, Measured jobs.Forecast
	ProposedWords, PresentWords string
	Same                        bool // nothing that matters to it was changed
	Assumes                     []string
}

// tried is a checked setting as a forecast takes it.
func tried(p destinationPolicy, b laneBudget) jobs.Policy {
	limit := jobs.Limit{Burst: b.burst}
	if b.rate != nil {
		limit.Rate = *b.rate
	}
	if b.maxInFlight != nil {
		limit.MaxInFlight = *b.maxInFlight
	}
	return jobs.Policy{Limit: limit, Waits: p.schedule, TTL: p.ttl, Timeout: p.timeout}
}

// forecastDestination tries what of the input concerns pace and time on the last day of the destination's lane. Errors name the field.
func (s *Server) forecastDestination(ctx context.Context, id int64, in DestinationInput) (forecastModel, error) {
	row, err := s.queries.DestinationGetByID(ctx, s.Pool, id)
	if err != nil {
		return forecastModel{}, destinationError(id, err)
	}
	lane, err := s.queries.LaneGetByID(ctx, s.Pool, row.LaneID)
	if err != nil {
		return forecastModel{}, laneError(row.LaneID, err)
	}
	present, err := policyOf(row)
	if err != nil {
		return forecastModel{}, err
	}
	// The rest of the input is neither needed nor looked up.
	proposed, err := s.validate(ctx, DestinationInput{TTL: in.TTL, Timeout: in.Timeout, Retry: in.Retry}, present)
	if err != nil {
		return forecastModel{}, err
	}
	budget := budgetOf(lane)
	if in.Lane != nil {
		if budget, err = setBudget("lane.", *in.Lane, budget); err != nil {
			return forecastModel{}, err
		}
	}
	return s.forecast(ctx, lane.ID, tried(present, budgetOf(lane)), tried(proposed, budget))
}

// forecastLane tries a budget on the last day of a lane, with the schedule of its oldest destination.
func (s *Server) forecastLane(ctx context.Context, id int64, in LaneInput) (forecastModel, error) {
	lane, err := s.queries.LaneGetByID(ctx, s.Pool, id)
	if err != nil {
		return forecastModel{}, laneError(id, err)
	}
	budget, err := setBudget("", in, budgetOf(lane))
	if err != nil {
		return forecastModel{}, err
	}
	policy := destinationPolicy{timeout: defaultTimeout, ttl: defaultTTL, schedule: defaultSchedule()}
	rows, err := s.queries.DestinationListByLane(ctx, s.Pool, id, 1)
	if err != nil {
		return forecastModel{}, fmt.Errorf("list destinations of a lane: %w", err)
	}
	for _, row := range rows {
		if policy, err = policyOf(row); err != nil {
			return forecastModel{}, err
		}
	}
	return s.forecast(ctx, id, tried(policy, budgetOf(lane)), tried(policy, budget))
}

func (s *Server) forecast(ctx context.Context, laneID int64, present, proposed jobs.Policy) (forecastModel, error) {
	now := time.Now().UTC()
	history, err := jobs.LoadHistory(ctx, s.Pool, s.queries, laneID, now)
	if err != nil {
		return forecastModel{}, err
	}
	sharing, err := s.queries.DestinationListByLane(ctx, s.Pool, laneID, maxWaiting)
	if err != nil {
		return forecastModel{}, fmt.Errorf("list destinations of a lane: %w", err)
	}
	m := forecastModel{
		Now: now, From: history.From, To: history.From.Add(time.Duration(len(history.Minutes)) * time.Minute), Known: history.First, TooLittle: tooLittle(history),
		ProposedWords: policyWords(proposed, present), PresentWords: policyWords(present, present), Measured: history.Measured(), Same: samePolicy(present, proposed),
	}
	if m.TooLittle != "" {
		return m, nil
	}
	m.Proposed, m.Present = jobs.Simulate(history.From, history.Minutes, proposed), jobs.Simulate(history.From, history.Minutes, present)
	m.Assumes = forecastAssumptions(m, sharing)
	return m, nil
}

func tooLittle(h jobs.History) string {
	known := h.From.Add(time.Duration(len(h.Minutes)) * time.Minute).Sub(h.First)
	switch {
	case h.Arrived == 0:
		return "Nothing came for it in the last 24 h, so there is nothing to try the setting on."
	case h.Arrived < forecastDeliveries:
		return fmt.Sprintf("Too little is known to tell: in the last 24 h it was owed %s.", plural(int32(h.Arrived), "delivery", "deliveries"))
	case known < forecastKnown:
		return fmt.Sprintf("Too little is known to tell: the first delivery that was counted came %s ago. Half an hour is the least.", ui.Span(known))
	}
	return ""
}

func forecastAssumptions(m forecastModel, sharing []dbsqlc.Destination) []string {
	assumes := []string{
		"The receiver would have answered as it did at that time, whatever the pace: the same share of failures, refusals and 429s, in the same time.",
		"Nothing waited when the 24 h began. Pauses, holds, learned rates, replays and the events' own expiry are left out, in both columns.",
		"It reckons in minutes: a shorter wait counts as none.",
	}
	if m.Known.Sub(m.From) > time.Hour {
		assumes = append(assumes, "Nothing was counted before "+dayClock(m.Known, m.Now)+".")
	}
	if len(sharing) > 1 {
		assumes = append(assumes, fmt.Sprintf("%d destinations share the lane: the figures are those of all of them, each tried again by the same schedule.", len(sharing)))
	}
	return assumes
}

func samePolicy(a, b jobs.Policy) bool {
	return a.Limit == b.Limit && a.TTL == b.TTL && slices.Equal(a.Waits, b.Waits)
}

// policyWords names a setting: its limit, and of the rest what differs from the present one.
func policyWords(p, present jobs.Policy) string {
	words := []string{"no rate limit"}
	if p.Limit.Rate > 0 {
		words[0] = number(p.Limit.Rate) + "/s, burst " + ui.Number(p.Limit.Burst)
	}
	if p.Limit.MaxInFlight > 0 {
		words = append(words, ui.Number(p.Limit.MaxInFlight)+" in flight")
	}
	if p.TTL != present.TTL {
		words = append(words, "time to live "+formatDuration(p.TTL))
	}
	if !slices.Equal(p.Waits, present.Waits) {
		words = append(words, fmt.Sprintf("%d attempts", len(p.Waits)+1))
	}
	return strings.Join(words, ", ")
}

// forecastSentence says what would have happened, the worst first.
func forecastSentence(words string, f jobs.Forecast, now time.Time) string {
	var parts []string
	hour := fmt.Sprintf("the busiest hour (%s–%s, %s)", f.BusiestFrom.Format("15:04"), f.BusiestFrom.Add(time.Hour).Format("15:04"), deliveriesText(f.BusiestArrived))
	if f.BusiestWait >= time.Minute {
		parts = append(parts, hour+" would have waited up to "+longSpan(f.BusiestWait))
	} else {
		parts = append(parts, hour+" would not have waited for a minute")
	}
	if f.Expired > 0 {
		parts = append(parts, ui.Number(f.Expired)+" would have expired")
	}
	if f.DeadLettered > 0 {
		parts = append(parts, ui.Number(f.DeadLettered)+" would have been dead-lettered")
	}
	if f.Peak > 0 {
		parts = append(parts, fmt.Sprintf("at most %s would have waited at once, at %s", ui.Number(f.Peak), dayClock(f.PeakAt, now)))
	}
	switch {
	case f.Waiting > 0:
		parts = append(parts, fmt.Sprintf("%s would be waiting now, %s", ui.Number(f.Waiting), drainWords(f.DrainsIn)))
	case !f.DrainedAt.IsZero():
		parts = append(parts, "the backlog would have drained by "+dayClock(f.DrainedAt, now))
	}
	return "At " + words + ", " + strings.Join(parts, "; ") + "."
}

func drainWords(d time.Duration) string {
	if d < 0 {
		return "and for more than a year to come"
	}
	return "for another " + longSpan(max(d, time.Minute)) + " if nothing more came"
}

func deliveriesText(n int64) string {
	if n == 1 {
		return "1 delivery"
	}
	return ui.Number(n) + " deliveries"
}

// longSpan is a length of time in minutes, hours and minutes, or days.
func longSpan(d time.Duration) string {
	minutes := int(d / time.Minute)
	switch {
	case minutes < 1:
		return "less than a minute"
	case minutes < 60 || minutes%60 == 0 || minutes >= 48*60:
		return ui.Span(d)
	default:
		return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
	}
}

// dayClock is a time of day to the minute, with its date where that is another.
func dayClock(at, now time.Time) string {
	if at, now = at.UTC(), now.UTC(); at.YearDay() != now.YearDay() {
		return at.Format("2 Jan 15:04")
	}
	return at.Format("15:04")
}

// forecastRow is one figure of the comparison.
type forecastRow struct {
	Label                       string
	Measured, Present, Proposed string
	Tone                        string // of the proposed one against the present: good, bad, or neither
}

func (m forecastModel) rows() []forecastRow {
	count := func(label string, of func(jobs.Forecast) int64, more string, measured bool) forecastRow {
		r := forecastRow{Label: label, Measured: "–", Present: ui.Number(of(m.Present)), Proposed: ui.Number(of(m.Proposed))}
		if measured {
			r.Measured = ui.Number(of(m.Measured))
		}
		if of(m.Proposed) > of(m.Present) {
			r.Tone = more
		} else if of(m.Proposed) < of(m.Present) {
			r.Tone = map[string]string{"good": "bad", "bad": "good"}[more]
		}
		return r
	}
	wait := forecastRow{Label: "Longest wait", Measured: longSpan(m.Measured.LongestWait), Present: longSpan(m.Present.LongestWait), Proposed: longSpan(m.Proposed.LongestWait)}
	if d := m.Proposed.LongestWait - m.Present.LongestWait; d > 0 {
		wait.Tone = "bad"
	} else if d < 0 {
		wait.Tone = "good"
	}
	return []forecastRow{
		count("Delivered", func(f jobs.Forecast) int64 { return f.Delivered }, "good", true),
		count("Expired", func(f jobs.Forecast) int64 { return f.Expired }, "bad", true),
		count("Dead-lettered", func(f jobs.Forecast) int64 { return f.DeadLettered }, "bad", true),
		wait,
		count("Most waiting at once", func(f jobs.Forecast) int64 { return f.Peak }, "bad", false),
		{Label: "Backlog drained by", Measured: "–", Present: drained(m.Present, m.Now), Proposed: drained(m.Proposed, m.Now)},
		count("Waiting at the end", func(f jobs.Forecast) int64 { return f.Waiting }, "bad", false),
		count("To be tried again at the end", func(f jobs.Forecast) int64 { return f.Retrying }, "", false),
		count("Requests", func(f jobs.Forecast) int64 { return f.Requests }, "", true),
	}
}

func drained(f jobs.Forecast, now time.Time) string {
	switch {
	case f.Peak == 0:
		return "none piled up"
	case f.DrainedAt.IsZero():
		return "not yet"
	}
	return dayClock(f.DrainedAt, now)
}
