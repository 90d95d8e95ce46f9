package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"weir/jobs"
)

func (s *Server) mountDestinations(api huma.API) {
	create := operation(http.MethodPost, "/destinations", "create-destination", ScopeAdmin, "Create a destination")
	create.DefaultStatus = http.StatusCreated
	create.Errors = append(create.Errors, http.StatusConflict)
	registerBody[DestinationInput](s, api, create, s.apiCreateDestination)
	register(s, api, operation(http.MethodGet, "/destinations", "list-destinations", ScopeRead, "List destinations"), s.apiListDestinations)
	register(s, api, operation(http.MethodGet, "/destinations/{id}", "get-destination", ScopeRead, "Get a destination"), s.apiGetDestination)
	registerBody[DestinationInput](s, api, operation(http.MethodPatch, "/destinations/{id}", "update-destination", ScopeAdmin,
		"Change what is given of a destination"), s.apiUpdateDestination)
	registerBody[ForecastInput](s, api, operation(http.MethodPost, "/destinations/{id}/forecast", "forecast-destination", ScopeRead,
		"Say what a limit or a schedule would have done to the last 24 hours; nothing is changed"), s.apiForecastDestination)
	remove := operation(http.MethodDelete, "/destinations/{id}", "delete-destination", ScopeAdmin, "Delete a destination; what it is still owed is cancelled")
	remove.DefaultStatus = http.StatusNoContent
	register(s, api, remove, s.apiDeleteDestination)
	registerBody[pauseBody](s, api, operation(http.MethodPost, "/destinations/{id}/pause", "pause-destination", ScopeOperate,
		"Send nothing more; what comes in waits"), s.apiPauseDestination)
	register(s, api, operation(http.MethodPost, "/destinations/{id}/resume", "resume-destination", ScopeOperate, "Send again"), s.apiResumeDestination)
	registerBody[pauseBody](s, api, operation(http.MethodPost, "/destinations/{id}/disable", "disable-destination", ScopeOperate,
		"Send nothing more until somebody has mended what the reason names"), s.apiDisableDestination)
	registerBody[pauseBody](s, api, operation(http.MethodPost, "/destinations/{id}/drain", "drain-destination", ScopeOperate,
		"Take no new events; what is owed already is still delivered"), s.apiDrainDestination)
	register(s, api, operation(http.MethodPost, "/destinations/{id}/undrain", "undrain-destination", ScopeOperate, "Take new events again"), s.apiUndrainDestination)
	register(s, api, operation(http.MethodPost, "/destinations/{id}/test", "test-destination", ScopeOperate,
		"Send a test event, and wait for the answer"), s.apiTestDestination)
	registerBody[rotateBody](s, api, operation(http.MethodPost, "/destinations/{id}/secrets/rotate", "rotate-secret", ScopeAdmin,
		"Make a new signing secret; the old ones sign for the overlap"), s.apiRotateSecret)
}

// DestinationPath is exported, like all that inputs embed: huma passes over what is not.
type DestinationPath struct {
	ID string `path:"id" maxLength:"40"`
}

type destinationPathBody struct {
	DestinationPath
	RawInput
}

type destinationOutput struct{ Body Destination }

// createdDestination is the only place where a secret is shown.
type createdDestination struct {
	Destination
	Secret string `json:"secret" doc:"Shown only here: the receiver verifies signatures with it."`
}

type createDestinationOutput struct {
	Location string `header:"Location"`
	Body     createdDestination
}

func (s *Server) apiCreateDestination(ctx context.Context, in *RawInput) (*createDestinationOutput, error) {
	var body DestinationInput
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	destination, secret, err := s.createDestination(ctx, body)
	if err != nil {
		return nil, err
	}
	return &createDestinationOutput{apiPrefix + "/destinations/" + destination.ID, createdDestination{destination, secret}}, nil
}

type listDestinationsInput struct {
	PageInput
	Search string `query:"search" maxLength:"200" doc:"Part of the name or URL."`
}

func (s *Server) apiListDestinations(ctx context.Context, in *listDestinationsInput) (*pageOutput[Destination], error) {
	after, err := parseCursor(in.Cursor, 0)
	if err != nil {
		return nil, err
	}
	page, err := s.listDestinations(ctx, after, in.Search, in.Limit)
	if err != nil {
		return nil, err
	}
	return &pageOutput[Destination]{page}, nil
}

func (s *Server) apiGetDestination(ctx context.Context, in *DestinationPath) (*destinationOutput, error) {
	id, err := parseID(idDestination, in.ID)
	if err != nil {
		return nil, err
	}
	return s.answerDestination(ctx, id)
}

func (s *Server) answerDestination(ctx context.Context, id int64) (*destinationOutput, error) {
	destination, err := s.getDestination(ctx, id)
	if err != nil {
		return nil, err
	}
	return &destinationOutput{destination}, nil
}

func (s *Server) apiUpdateDestination(ctx context.Context, in *destinationPathBody) (*destinationOutput, error) {
	id, err := parseID(idDestination, in.ID)
	if err != nil {
		return nil, err
	}
	var body DestinationInput
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	destination, err := s.updateDestination(ctx, id, body)
	if err != nil {
		return nil, err
	}
	return &destinationOutput{destination}, nil
}

func (s *Server) apiDeleteDestination(ctx context.Context, in *DestinationPath) (*struct{}, error) {
	id, err := parseID(idDestination, in.ID)
	if err != nil {
		return nil, err
	}
	return nil, s.deleteDestination(ctx, id, "the destination was deleted")
}

type pauseBody struct {
	Reason string `json:"reason,omitempty" doc:"Shown with the destination and its deliveries."`
}

func (s *Server) apiPauseDestination(ctx context.Context, in *destinationPathBody) (*destinationOutput, error) {
	return s.apiChangeState(ctx, in, s.pauseDestination)
}

func (s *Server) apiDisableDestination(ctx context.Context, in *destinationPathBody) (*destinationOutput, error) {
	return s.apiChangeState(ctx, in, s.disableDestination)
}

func (s *Server) apiDrainDestination(ctx context.Context, in *destinationPathBody) (*destinationOutput, error) {
	return s.apiChangeState(ctx, in, s.drainDestination)
}

// apiChangeState reads the reason, does what changes the destination, and answers with what it is now.
func (s *Server) apiChangeState(ctx context.Context, in *destinationPathBody, change func(context.Context, int64, string) error) (*destinationOutput, error) {
	id, err := parseID(idDestination, in.ID)
	if err != nil {
		return nil, err
	}
	var body pauseBody
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	if body.Reason != "" {
		if err := checkName("reason", body.Reason, 500); err != nil {
			return nil, err
		}
	}
	if err := change(ctx, id, body.Reason); err != nil {
		return nil, err
	}
	return s.answerDestination(ctx, id)
}

func (s *Server) apiResumeDestination(ctx context.Context, in *DestinationPath) (*destinationOutput, error) {
	id, err := parseID(idDestination, in.ID)
	if err != nil {
		return nil, err
	}
	if err := s.resumeDestination(ctx, id); err != nil {
		return nil, err
	}
	return s.answerDestination(ctx, id)
}

func (s *Server) apiUndrainDestination(ctx context.Context, in *DestinationPath) (*destinationOutput, error) {
	id, err := parseID(idDestination, in.ID)
	if err != nil {
		return nil, err
	}
	if err := s.undrainDestination(ctx, id); err != nil {
		return nil, err
	}
	return s.answerDestination(ctx, id)
}

type rotateBody struct {
	Overlap *string `json:"overlap,omitempty" doc:"How long the old secrets go on signing: 0s to 168h, 24h if left out."`
}

type rotateOutput struct {
	Body struct {
		Secret string `json:"secret" doc:"Shown only here."`
	}
}

func (s *Server) apiRotateSecret(ctx context.Context, in *destinationPathBody) (*rotateOutput, error) {
	id, err := parseID(idDestination, in.ID)
	if err != nil {
		return nil, err
	}
	var body rotateBody
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	overlap := defaultOverlap
	if body.Overlap != nil {
		if overlap, err = parseDuration("overlap", *body.Overlap); err != nil {
			return nil, err
		}
	}
	out := &rotateOutput{}
	out.Body.Secret, err = s.rotateSecret(ctx, id, overlap)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// TestResult is what came of a test event.
type TestResult struct {
	EventID  string         `json:"event_id"`
	Delivery DeliveryDetail `json:"delivery"`
	Attempt  *Attempt       `json:"attempt" doc:"null when no request was answered in time; waiting_for then says why."`
}

type testOutput struct{ Body TestResult }

func (s *Server) apiTestDestination(ctx context.Context, in *DestinationPath) (*testOutput, error) {
	id, err := parseID(idDestination, in.ID)
	if err != nil {
		return nil, err
	}
	result, err := s.testDestination(ctx, id)
	if err != nil {
		return nil, err
	}
	return &testOutput{result}, nil
}

// testDestination sends a test event and waits for the answer to its first request, at most five seconds longer than that may take.
func (s *Server) testDestination(ctx context.Context, id int64) (TestResult, error) {
	row, err := s.queries.DestinationGetByID(ctx, s.Pool, id)
	if err != nil {
		return TestResult{}, destinationError(id, err)
	}
	receipt, err := s.sendTest(ctx, id, row.Name)
	if err != nil {
		return TestResult{}, err
	}
	result := TestResult{EventID: receipt.ID}
	deadline := time.After(time.Duration(row.TimeoutMs)*time.Millisecond + 5*time.Second)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		page, err := s.listDeliveries(ctx, deliveryFilter{EventID: receipt.ID, DestinationID: id, Limit: 1})
		if err != nil {
			return TestResult{}, err
		}
		if len(page.Items) > 0 && (page.Items[0].Attempts > 0 || page.Items[0].SettledAt != nil) {
			return s.finishTest(ctx, result, page.Items[0].RowID)
		}
		select {
		case <-ctx.Done():
			return TestResult{}, fmt.Errorf("wait for the test: %w", ctx.Err())
		case <-ticker.C:
		case <-deadline:
			if len(page.Items) == 0 {
				return TestResult{}, errors.New("the test event has no delivery")
			}
			return s.finishTest(ctx, result, page.Items[0].RowID)
		}
	}
}

func (s *Server) finishTest(ctx context.Context, result TestResult, deliveryID int64) (TestResult, error) {
	detail, err := s.getDelivery(ctx, deliveryID)
	var missing *jobs.NotFoundError
	if err != nil && !errors.As(err, &missing) {
		return TestResult{}, err
	}
	result.Delivery = detail
	for i := range detail.AttemptLog {
		if detail.AttemptLog[i].Verdict != nil {
			result.Attempt = &detail.AttemptLog[i]
		}
	}
	return result, nil
}
