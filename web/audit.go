package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
)

// Kinds of who can act.
const (
	actorOperator = "operator" // signed in to the panel
	actorToken    = "token"    // at the API
	actorCLI      = "cli"      // a command of weir
	actorVisitor  = "visitor"  // at the panel, not signed in
)

// who is who asked for what is being done, for the audit log.
type who struct {
	kind    string
	id      int64 // of the operator or the token
	name    string
	role    string // of the operator; a token's scopes
	address string
}

type whoKey struct{}

func withWho(ctx context.Context, w who) context.Context { return context.WithValue(ctx, whoKey{}, w) }

// whoOf is who asked; the command line where no request says otherwise.
func whoOf(ctx context.Context) who {
	if w, ok := ctx.Value(whoKey{}).(who); ok {
		return w
	}
	return who{kind: actorCLI, name: "command line"}
}

// AsCommand marks what is done with ctx as asked for on the command line, by the person with this name.
func AsCommand(ctx context.Context, name string) context.Context {
	return withWho(ctx, who{kind: actorCLI, name: name})
}

// auditObject is what an entry is about; its id is written as the API writes it, dst_1.
type auditObject struct{ kind, id, name string }

func auditedDestination(id int64, name string) auditObject {
	return auditObject{"destination", formatID(idDestination, id), name}
}

// facts are an object's settings by name, as JSON: what the API shows of it, so nothing secret.
type facts map[string]any

// auditEntry is one line of the audit log. Its action is the object's kind and a verb: destination.update. before and after may hold all
// there is: only what differs is kept, and for a new or a deleted object, everything.
type auditEntry struct {
	action        string
	object        auditObject
	before, after facts
	note          string // why, in the words of who did it; or what came of it
}

// audit writes an entry for who asked, in the transaction that makes the change: both are there, or neither.
func (s *Server) audit(ctx context.Context, tx dbsqlc.DBTX, e auditEntry) error {
	return recordAudit(ctx, tx, e)
}

// auditing is audit for the engine, which calls it at the end of its transaction.
func (s *Server) auditing(e auditEntry) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error { return recordAudit(ctx, tx, e) }
}

func recordAudit(ctx context.Context, tx dbsqlc.DBTX, e auditEntry) error {
	w := whoOf(ctx)
	before, after := difference(e.before, e.after)
	p := dbsqlc.AuditInsertParams{
		ActorKind: w.kind, ActorID: orNil(w.id), Actor: w.name, Role: w.role, Action: e.action, ObjectKind: e.object.kind, ObjectID: e.object.id,
		ObjectName: e.object.name, Note: e.note, Address: w.address,
	}
	var err error
	if p.Before, err = before.json(); err != nil {
		return err
	}
	if p.After, err = after.json(); err != nil {
		return err
	}
	if err := dbsqlc.New().AuditInsert(ctx, tx, p); err != nil {
		return fmt.Errorf("write audit entry: %w", err)
	}
	return nil
}

// json is nil for no facts. A NUL, which jsonb cannot hold, is in none of them: every field refuses control characters.
func (f facts) json() ([]byte, error) {
	if f == nil {
		return nil, nil
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("write audit entry: %w", err)
	}
	return raw, nil
}

// difference leaves of both what the other has not, or has otherwise. Where one is nil, the other stays whole.
func difference(before, after facts) (facts, facts) {
	if before == nil || after == nil {
		return before, after
	}
	was, is := facts{}, facts{}
	for name, value := range before {
		if other, ok := after[name]; !ok || !reflect.DeepEqual(value, other) {
			was[name] = value
		}
	}
	for name, value := range after {
		if other, ok := before[name]; !ok || !reflect.DeepEqual(value, other) {
			is[name] = value
		}
	}
	return was, is
}

// sameFacts tells whether nothing changed.
func sameFacts(before, after facts) bool {
	was, is := difference(before, after)
	return len(was) == 0 && len(is) == 0
}

const redacted = "…"

// redactURL shows of a URL what tells two apart, but not what may be a secret: a user's password, and the values of the query.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return redacted
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), "redacted")
	}
	if u.RawQuery != "" {
		var names []string
		for name := range u.Query() {
			names = append(names, url.QueryEscape(name)+"=redacted")
		}
		slices.Sort(names)
		u.RawQuery = strings.Join(names, "&")
	}
	return u.String()
}
