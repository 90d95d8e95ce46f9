package web

import (
	"context"

	"github.com/jackc/pgx/v5"

	"weir/jobs"
)

// What is done to a destination, from the panel and the API alike, each with its entry in the audit log.

func (s *Server) pauseDestination(ctx context.Context, id int64, reason string) error {
	return s.changeState(ctx, id, "destination.pause", reason, "paused", func(also jobs.Also) error {
		return s.Engine.PauseDestination(ctx, id, reason, also)
	})
}

func (s *Server) resumeDestination(ctx context.Context, id int64) error {
	return s.changeState(ctx, id, "destination.resume", "", "active", func(also jobs.Also) error {
		return s.Engine.ResumeDestination(ctx, id, also)
	})
}

// disableDestination needs a reason: whoever mends it has to know what.
func (s *Server) disableDestination(ctx context.Context, id int64, reason string) error {
	if reason == "" {
		return invalid("reason", "is missing; say what has to be mended before it may be resumed")
	}
	return s.changeState(ctx, id, "destination.disable", reason, "disabled", func(also jobs.Also) error {
		return s.Engine.DisableDestination(ctx, id, reason, also)
	})
}

func (s *Server) drainDestination(ctx context.Context, id int64, reason string) error {
	return s.changeDraining(ctx, id, "destination.drain", reason, func(also jobs.Also) error {
		return s.Engine.DrainDestination(ctx, id, reason, also)
	})
}

func (s *Server) undrainDestination(ctx context.Context, id int64) error {
	return s.changeDraining(ctx, id, "destination.undrain", "", func(also jobs.Also) error {
		return s.Engine.UndrainDestination(ctx, id, also)
	})
}

// changeDraining is changeState for whether new events are taken.
func (s *Server) changeDraining(ctx context.Context, id int64, action, note string, change func(jobs.Also) error) error {
	row, err := s.queries.DestinationGetByID(ctx, s.Pool, id)
	if err != nil {
		return destinationError(id, err)
	}
	was := row.DrainingSince != nil
	return change(s.auditing(auditEntry{
		action: action, object: auditedDestination(id, row.Name), before: facts{"draining": was}, after: facts{"draining": !was}, note: note,
	}))
}

// changeState does what moves the destination to another state. An unknown destination is a *jobs.NotFoundError.
func (s *Server) changeState(ctx context.Context, id int64, action, note, state string, change func(jobs.Also) error) error {
	row, err := s.queries.DestinationGetByID(ctx, s.Pool, id)
	if err != nil {
		return destinationError(id, err)
	}
	return change(s.auditing(auditEntry{
		action: action, object: auditedDestination(id, row.Name), before: facts{"state": row.State}, after: facts{"state": state}, note: note,
	}))
}

// deleteDestination ends a destination for good; the audit log keeps what it was.
func (s *Server) deleteDestination(ctx context.Context, id int64, reason string) error {
	before, name, err := s.destinationFacts(ctx, s.Pool, id)
	if err != nil {
		return err
	}
	return s.Engine.DeleteDestination(ctx, id, reason, s.auditing(auditEntry{action: "destination.delete", object: auditedDestination(id, name), before: before}))
}

// sendTest sends a test event. Its entry follows it: the intake commits by itself.
func (s *Server) sendTest(ctx context.Context, id int64, name string) (jobs.Receipt, error) {
	receipt, err := s.Engine.SendTest(ctx, id)
	if err != nil {
		return receipt, err
	}
	return receipt, s.audit(ctx, s.Pool, auditEntry{action: "destination.test", object: auditedDestination(id, name), note: "event " + receipt.ID})
}

// RecordReplay writes the entry of a replay in the audit log, in its transaction: give it as jobs.ReplayRequest.Also. A replay that sends
// nothing leaves none.
func RecordReplay(ctx context.Context, tx pgx.Tx, result jobs.ReplayResult) error {
	if result.Sent == 0 {
		return nil
	}
	after := facts{"deliveries": result.Sent, "event": result.Items[0].EventID}
	if len(result.Items) == 1 {
		after["destination"] = result.Items[0].DestinationName
	}
	return recordAudit(ctx, tx, auditEntry{action: "replay.start", object: auditObject{"replay", formatID(idReplay, result.ID), ""}, after: after})
}

func (s *Server) auditReplay(ctx context.Context, tx pgx.Tx, result jobs.ReplayResult) error {
	return RecordReplay(ctx, tx, result)
}
