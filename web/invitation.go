package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/web/ui"
)

const (
	firstLinkHours    = 24
	passwordLinkHours = 24
	maxLinkHours      = 7 * 24
	maxOpenLinks      = 100
)

// invitation is a one-time link: for the first administrator, for a colleague, or for somebody to choose a new password with.
type invitation struct {
	role     ui.Role
	note     string // whom it is for
	by       string // who made it; empty: the first administrator's
	operator int64  // whose password it changes; 0: it makes somebody
	hours    int
}

// madeLink is what its maker is shown, once.
type madeLink struct {
	Path      string
	ExpiresAt time.Time
}

// insertInvitation makes a link. Only its hash is kept.
func insertInvitation(ctx context.Context, tx dbsqlc.DBTX, in invitation) (int64, madeLink, error) {
	token := make([]byte, 32)
	_, _ = rand.Read(token) // never fails
	hash := sha256.Sum256(token)
	row, err := dbsqlc.New().InvitationInsert(ctx, tx, dbsqlc.InvitationInsertParams{
		TokenHash: hash[:], Hours: int32(in.hours), Role: in.role.String(), InvitedBy: orNil(in.by), Note: in.note, OperatorID: orNil(in.operator),
	})
	if err != nil {
		return 0, madeLink{}, fmt.Errorf("insert invitation: %w", err)
	}
	return row.ID, madeLink{"/welcome?token=" + base64.RawURLEncoding.EncodeToString(token), row.ExpiresAt}, nil
}

// InviteFirstAdministrator makes a one-time link for the first administrator and returns its path; "" where there is an operator already.
// The link works once and for a day; only its hash is kept.
func (s *Server) InviteFirstAdministrator(ctx context.Context) (string, error) {
	exists, err := s.queries.OperatorExists(ctx, s.Pool)
	if err != nil || exists {
		return "", err
	}
	_, link, err := insertInvitation(ctx, s.Pool, invitation{role: ui.Administrator, hours: firstLinkHours})
	return link.Path, err
}

// Invite makes a one-time link for somebody who gets the role ("viewer", "operator", "administrator"), and returns its path and when it
// stops working. note says whom it is for. What is wrong is a *jobs.InvalidError.
func Invite(ctx context.Context, pool *pgxpool.Pool, role, note string, hours int) (path string, expires time.Time, err error) {
	given, ok := ui.ParseRole(role)
	if !ok {
		return "", time.Time{}, invalid("role", "want viewer, operator or administrator")
	}
	note = strings.TrimSpace(note)
	if note != "" {
		if err := checkName("note", note, 200); err != nil {
			return "", time.Time{}, err
		}
	}
	if hours < 1 || hours > maxLinkHours {
		return "", time.Time{}, invalid("hours", fmt.Sprintf("want 1 to %d", maxLinkHours))
	}
	var link madeLink
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		var id int64
		if id, link, err = insertInvitation(ctx, tx, invitation{role: given, note: note, by: whoOf(ctx).name, hours: hours}); err != nil {
			return err
		}
		return recordAudit(ctx, tx, auditEntry{
			action: "person.invite", object: auditObject{"invitation", formatID(idInvitation, id), note}, after: facts{"role": role, "hours": hours},
		})
	})
	return link.Path, link.ExpiresAt, err
}

// revokeInvitation ends a link that nobody has used yet.
func (s *Server) revokeInvitation(ctx context.Context, id int64) error {
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		row, err := s.queries.InvitationRevoke(ctx, tx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return &jobs.ConflictError{What: "invitation", Problem: "it has been used, withdrawn, or has expired"}
		}
		if err != nil {
			return fmt.Errorf("revoke invitation: %w", err)
		}
		object := auditObject{"invitation", formatID(idInvitation, row.ID), row.Note}
		return s.audit(ctx, tx, auditEntry{action: "person.uninvite", object: object, before: facts{"role": row.Role}})
	})
}

var (
	errInvitationUsed = errors.New("invitation is used")
	errNameTaken      = errors.New("name is taken")
)

// useInvitation spends the link and makes the operator, or gives one a new password: both or neither.
func (s *Server) useInvitation(ctx context.Context, token, name, passwordHash string) (made operator, err error) {
	hash, ok := invitationHash(token)
	if !ok {
		return operator{}, errInvitationUsed
	}
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		used, err := s.queries.InvitationUse(ctx, tx, hash)
		if errors.Is(err, pgx.ErrNoRows) {
			return errInvitationUsed
		}
		if err != nil {
			return fmt.Errorf("use invitation: %w", err)
		}
		if used.OperatorID != nil {
			made, err = s.resetPassword(ctx, tx, *used.OperatorID, passwordHash)
			return err
		}
		role, _ := ui.ParseRole(used.Role)
		id, err := s.queries.OperatorInsert(ctx, tx, dbsqlc.OperatorInsertParams{Name: name, PasswordHash: passwordHash, Role: used.Role})
		var unique *pgconn.PgError
		if errors.As(err, &unique) && unique.Code == pgerrcode.UniqueViolation {
			if used.InvitedBy == "" {
				return errInvitationUsed // somebody came first, by another link
			}
			return errNameTaken
		}
		if err != nil {
			return fmt.Errorf("insert operator: %w", err)
		}
		made = operator{id, name, role}
		note := ""
		if used.InvitedBy != "" {
			note = "invited by " + used.InvitedBy
		}
		return s.audit(made.asWho(ctx), tx, auditEntry{action: "person.create", object: made.object(), after: facts{"role": used.Role}, note: note})
	})
	return made, err
}

// resetPassword ends the sessions that the old password had opened.
func (s *Server) resetPassword(ctx context.Context, tx pgx.Tx, id int64, passwordHash string) (operator, error) {
	row, err := s.queries.OperatorLock(ctx, tx, id)
	if err != nil {
		return operator{}, fmt.Errorf("lock operator: %w", err)
	}
	if row.DeactivatedAt != nil {
		return operator{}, errInvitationUsed
	}
	if err := s.queries.OperatorSetPassword(ctx, tx, passwordHash, id); err != nil {
		return operator{}, fmt.Errorf("set password: %w", err)
	}
	if _, err := s.queries.SessionRevokeByOperator(ctx, tx, id, ""); err != nil {
		return operator{}, fmt.Errorf("end sessions: %w", err)
	}
	role, _ := ui.ParseRole(row.Role)
	o := operator{id, row.Name, role}
	return o, s.audit(o.asWho(ctx), tx, auditEntry{action: "password.change", object: o.object(), note: "with a link"})
}

// checkInvitation says in m what its link is good for, and what is wrong with it, if anything is.
func (s *Server) checkInvitation(ctx context.Context, m *welcomeModel) error {
	var err error
	if m.HasOperator, err = s.queries.OperatorExists(ctx, s.Pool); err != nil {
		return err
	}
	m.Problem = "This link is not complete, or not one of this installation."
	hash, ok := invitationHash(m.Token)
	if !ok {
		return nil
	}
	found, err := s.queries.InvitationGet(ctx, s.Pool, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load invitation: %w", err)
	}
	m.First, m.By = found.First, found.InvitedBy
	m.Role, _ = ui.ParseRole(found.Role)
	if found.Operator != "" {
		m.Name, m.NewPassword = found.Operator, true
	}
	switch {
	case found.Used:
		m.Problem = "This link has been used. It works only once."
	case found.Revoked:
		m.Problem = "This link was withdrawn."
	case found.Expired:
		m.Problem = "This link has expired."
	case found.First && m.HasOperator:
		m.Problem = "There is an administrator already, so this link does nothing any more."
	default:
		m.Problem = ""
	}
	return nil
}

func invitationHash(token string) ([]byte, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) != 32 {
		return nil, false
	}
	hash := sha256.Sum256(raw)
	return hash[:], true
}
