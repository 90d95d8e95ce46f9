package web

import (
	"context"
	"time"

	"weir/jobs"
)

// ForecastInput is what of a destination a forecast can try; what is left out is as it is now.
type ForecastInput struct {
	Lane    *LaneInput  `json:"lane,omitempty" doc:"rate, burst and max_in_flight."`
	Timeout *string     `json:"timeout,omitempty"`
	TTL     *string     `json:"ttl,omitempty"`
	Retry   *RetryInput `json:"retry,omitempty"`
}

// Forecast is what a setting would have done to the last 24 hours, beside what the present one would have done.
type Forecast struct {
	From        time.Time     `json:"from"`
	To          time.Time     `json:"to"`
	TooLittle   string        `json:"too_little_history" doc:"Why nothing can be said; empty: it can. The rest is then zero."`
	Sentence    string        `json:"sentence"`
	Proposed    ForecastSide  `json:"proposed"`
	Present     ForecastSide  `json:"present"`
	Assumptions []string      `json:"assumptions"`
	Measured    ForecastFacts `json:"measured" doc:"What really happened."`
}

// ForecastFacts are what was counted.
type ForecastFacts struct {
	Arrived      int64 `json:"arrived"`
	Requests     int64 `json:"requests"`
	Delivered    int64 `json:"delivered"`
	Expired      int64 `json:"expired"`
	DeadLettered int64 `json:"dead_lettered"`
}

// ForecastSide is one setting's figures.
type ForecastSide struct {
	ForecastFacts
	Waiting     int64      `json:"waiting" doc:"At the end of the 24 hours: due, and not yet sent."`
	Retrying    int64      `json:"retrying" doc:"At the end: to be tried again later."`
	LongestWait string     `json:"longest_wait" doc:"For its turn; to the minute."`
	PeakWaiting int64      `json:"peak_waiting"`
	PeakAt      *time.Time `json:"peak_at"`
	DrainedAt   *time.Time `json:"drained_at" doc:"When the peak had been worked off; null: not within the 24 hours, or there was none."`
}

func factsOf(f jobs.Forecast) ForecastFacts {
	return ForecastFacts{f.Arrived, f.Requests, f.Delivered, f.Expired, f.DeadLettered}
}

func sideOf(f jobs.Forecast) ForecastSide {
	return ForecastSide{
		ForecastFacts: factsOf(f), Waiting: f.Waiting, Retrying: f.Retrying, LongestWait: formatDuration(f.LongestWait), PeakWaiting: f.Peak,
		PeakAt: orNil(f.PeakAt), DrainedAt: orNil(f.DrainedAt),
	}
}

type forecastOutput struct{ Body Forecast }

func (s *Server) apiForecastDestination(ctx context.Context, in *destinationPathBody) (*forecastOutput, error) {
	id, err := parseID(idDestination, in.ID)
	if err != nil {
		return nil, err
	}
	var body ForecastInput
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	m, err := s.forecastDestination(ctx, id, DestinationInput{Lane: body.Lane, Timeout: body.Timeout, TTL: body.TTL, Retry: body.Retry})
	if err != nil {
		return nil, err
	}
	return answerForecast(m), nil
}

func (s *Server) apiForecastLane(ctx context.Context, in *laneUpdateInput) (*forecastOutput, error) {
	id, err := parseID(idLane, in.ID)
	if err != nil {
		return nil, err
	}
	var body LaneInput
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	m, err := s.forecastLane(ctx, id, body)
	if err != nil {
		return nil, err
	}
	return answerForecast(m), nil
}

func answerForecast(m forecastModel) *forecastOutput {
	f := Forecast{From: m.From, To: m.To, TooLittle: m.TooLittle, Measured: factsOf(m.Measured), Proposed: sideOf(m.Proposed), Present: sideOf(m.Present), Assumptions: m.Assumes}
	if f.Sentence = m.TooLittle; f.Sentence == "" {
		f.Sentence = forecastSentence(m.ProposedWords, m.Proposed, m.Now)
	}
	if f.Assumptions == nil {
		f.Assumptions = []string{}
	}
	return &forecastOutput{f}
}
