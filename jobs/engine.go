// Package jobs is what happens to an event: taken in, fanned out, paced, delivered, settled, replayed.
package jobs

import (
	"context"
	"errors"
)

// Engine is being written; see the signatures.
type Engine struct{}

type Receipt struct {
	ID        string
	Duplicate bool
}

type Result struct {
	Receipt Receipt
	Err     error
}

var errStub = errors.New("being written")

func (e *Engine) Publish(ctx context.Context, event Event) (Receipt, error) { return Receipt{}, errStub }
func (e *Engine) PublishMany(ctx context.Context, events []Event) []Result  { return nil }

type ReplayRequest struct {
	EventID       string
	DestinationID *int64
	Actor, Reason string
	DryRun        bool
}

type ReplayItem struct {
	DeliveryID, DestinationID int64
	DestinationName           string
	EventID, Type             string
	Bytes                     int
	State                     string
	Refusal                   string
}

type ReplayResult struct {
	ID    int64
	Items []ReplayItem
	Sent  int
}

func (e *Engine) Replay(ctx context.Context, req ReplayRequest) (ReplayResult, error) {
	return ReplayResult{}, errStub
}
func (e *Engine) PauseDestination(ctx context.Context, id int64, reason string) error { return errStub }
func (e *Engine) ResumeDestination(ctx context.Context, id int64) error               { return errStub }
func (e *Engine) DeleteDestination(ctx context.Context, id int64, reason string) error { return errStub }
func (e *Engine) SendTest(ctx context.Context, destinationID int64) (Receipt, error)  { return Receipt{}, errStub }
