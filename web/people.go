package web

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/web/ui"
)

var errLastAdministrator = &jobs.ConflictError{What: "role", Problem: "this is the last administrator; make another one first"}

// changePerson does something to somebody whose row is locked. Where it may take an administrator away, all their rows are locked first,
// so that there is always one left: two who demote each other at once wait for each other.
func (s *Server) changePerson(ctx context.Context, id int64, change func(tx pgx.Tx, o dbsqlc.OperatorLockRow, last bool) error) error {
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		administrators, err := s.queries.OperatorLockAdministrators(ctx, tx)
		if err != nil {
			return fmt.Errorf("lock administrators: %w", err)
		}
		row, err := s.queries.OperatorLock(ctx, tx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return &jobs.NotFoundError{What: "person", ID: formatID(idPerson, id)}
		}
		if err != nil {
			return fmt.Errorf("lock operator: %w", err)
		}
		return change(tx, row, slices.Equal(administrators, []int64{id}))
	})
}

func personObject(o dbsqlc.OperatorLockRow) auditObject {
	return auditObject{"person", formatID(idPerson, o.ID), o.Name}
}

// setRole counts from the person's next request on.
func (s *Server) setRole(ctx context.Context, id int64, role ui.Role) (name string, err error) {
	err = s.changePerson(ctx, id, func(tx pgx.Tx, o dbsqlc.OperatorLockRow, last bool) error {
		name = o.Name
		if o.Role == role.String() {
			return nil
		}
		if last {
			return errLastAdministrator
		}
		if err := s.queries.OperatorSetRole(ctx, tx, role.String(), id); err != nil {
			return fmt.Errorf("set role: %w", err)
		}
		return s.audit(ctx, tx, auditEntry{action: "person.role", object: personObject(o), before: facts{"role": o.Role}, after: facts{"role": role.String()}})
	})
	return name, err
}

// setActive ends or restores somebody's access. Without it there are no sessions, and no links to a new password.
func (s *Server) setActive(ctx context.Context, id int64, active bool) (name string, err error) {
	err = s.changePerson(ctx, id, func(tx pgx.Tx, o dbsqlc.OperatorLockRow, last bool) error {
		name = o.Name
		if (o.DeactivatedAt == nil) == active {
			return nil
		}
		if last {
			return errLastAdministrator
		}
		if err := s.queries.OperatorSetActive(ctx, tx, active, id); err != nil {
			return fmt.Errorf("set active: %w", err)
		}
		e := auditEntry{action: "person.reactivate", object: personObject(o)}
		if !active {
			ended, err := s.queries.SessionRevokeByOperator(ctx, tx, id, "")
			if err != nil {
				return fmt.Errorf("end sessions: %w", err)
			}
			if err := s.queries.InvitationRevokeByOperator(ctx, tx, id); err != nil {
				return fmt.Errorf("revoke invitations: %w", err)
			}
			e.action, e.note = "person.deactivate", fmt.Sprintf("%d of their sessions ended", ended)
		}
		return s.audit(ctx, tx, e)
	})
	return name, err
}

// passwordLink makes a link with which somebody who forgot theirs chooses a new password; an older link stops working.
func (s *Server) passwordLink(ctx context.Context, id int64) (name string, link madeLink, err error) {
	err = s.changePerson(ctx, id, func(tx pgx.Tx, o dbsqlc.OperatorLockRow, _ bool) error {
		if name = o.Name; o.DeactivatedAt != nil {
			return &jobs.ConflictError{What: "person", Problem: "they are deactivated; let them in again first"}
		}
		if err := s.queries.InvitationRevokeByOperator(ctx, tx, id); err != nil {
			return fmt.Errorf("revoke invitations: %w", err)
		}
		role, _ := ui.ParseRole(o.Role)
		_, link, err = insertInvitation(ctx, tx, invitation{role: role, by: whoOf(ctx).name, operator: id, hours: passwordLinkHours})
		if err != nil {
			return err
		}
		return s.audit(ctx, tx, auditEntry{action: "person.password_link", object: personObject(o)})
	})
	return name, link, err
}

// changePassword takes the old password, counted like a sign-in, and ends the person's other sessions. false: the old one is wrong.
func (s *Server) changePassword(ctx context.Context, o operator, old, hash string) (bool, error) {
	_, ok, err := s.authenticate(ctx, o.Name, old)
	if err != nil || !ok {
		return false, err
	}
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		if err := s.queries.OperatorSetPassword(ctx, tx, hash, o.ID); err != nil {
			return fmt.Errorf("set password: %w", err)
		}
		ended, err := s.queries.SessionRevokeByOperator(ctx, tx, o.ID, s.sessionHash(ctx))
		if err != nil {
			return fmt.Errorf("end sessions: %w", err)
		}
		return s.audit(ctx, tx, auditEntry{action: "password.change", object: o.object(), note: fmt.Sprintf("%d other sessions ended", ended)})
	})
	return err == nil, err
}

// revokeSession ends one session, at once: of the owner alone, or anybody's where owner is 0.
func (s *Server) revokeSession(ctx context.Context, id, owner int64) (name string, err error) {
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		row, err := s.queries.SessionRevoke(ctx, tx, id, orNil(owner))
		if errors.Is(err, pgx.ErrNoRows) {
			return &jobs.NotFoundError{What: "session", ID: formatID(idSession, id)}
		}
		if err != nil {
			return fmt.Errorf("revoke session: %w", err)
		}
		name = row.Operator
		return s.audit(ctx, tx, auditEntry{
			action: "session.revoke", object: auditObject{"person", formatID(idPerson, row.OperatorID), row.Operator},
			before: facts{"address": row.Address, "user_agent": row.UserAgent},
		})
	})
	return name, err
}

// revokeOtherSessions ends all of the operator's sessions but the one that asks.
func (s *Server) revokeOtherSessions(ctx context.Context, o operator) (ended int64, err error) {
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		if ended, err = s.queries.SessionRevokeByOperator(ctx, tx, o.ID, s.sessionHash(ctx)); err != nil {
			return fmt.Errorf("end sessions: %w", err)
		}
		if ended == 0 {
			return nil
		}
		return s.audit(ctx, tx, auditEntry{action: "session.revoke", object: o.object(), note: fmt.Sprintf("%d sessions, all but the one that asked", ended)})
	})
	return ended, err
}
