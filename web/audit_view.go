package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

// auditLineView is an entry as it is shown.
type auditLineView struct {
	ID       int64
	At       time.Time
	Kind     string // of the actor
	Actor    string
	Role     string
	Address  string
	Action   string
	Words    string // what was done, as a person says it
	ObjectID string
	Object   string // its kind and name
	Href     string // of the object's page, where it has one
	Note     string
	Changes  []auditChange
}

// auditChange is one setting; a side that has none is empty.
type auditChange struct{ Name, Before, After string }

// auditWords are the actions in the words of a person. An action that is not here is shown as it is.
var auditWords = map[string]string{ //nolint:gosec // words, no credentials
	"destination.create": "added the destination", "destination.update": "changed the destination", "destination.delete": "deleted the destination",
	"destination.disable": "disabled the destination", "destination.drain": "began to drain the destination",
	"destination.undrain": "let the destination take events again", "destination.forget_note": "removed a note of",
	"destination.pause": "paused the destination", "destination.resume": "resumed the destination", "destination.test": "sent a test event to",
	"secret.rotate": "rotated the signing secret of", "lane.update": "changed the lane", "replay.start": "started the replay", "replay.stop": "stopped the replay",
	"replay.pause": "paused the replay", "replay.resume": "resumed the replay", "payload.reveal": "revealed a payload", "person.invite": "invited", "person.uninvite": "withdrew the invitation of",
	"person.create": "made the account", "person.role": "changed the role of", "person.deactivate": "deactivated", "person.reactivate": "let in again",
	"person.password_link": "made a link to a new password for", "password.change": "changed the password of", "session.revoke": "ended a session of",
	"dead_letters.resolve": "resolved the dead letters", "dead_letters.resolve_some": "resolved some of the dead letters",
	"dead_letters.take_back": "took back the resolution of the dead letters", "dead_letters.snooze": "snoozed the dead letters",
	"dead_letters.wake": "ended the snooze of the dead letters", "dead_letters.note": "noted something on the dead letters", "dead_letters.assign": "assigned the dead letters",
	"search_key.create": "declared the search key", "search_key.delete": "removed the search key",
	"token.create": "made the API token", "token.revoke": "revoked the API token", "sign_in": "signed in", "sign_out": "signed out",
	"sign_in_failed": "was refused at the sign-in",
}

// auditGroups are the choices of the filter: a prefix stands for all that begin with it.
var auditGroups = []ui.Option{
	{Value: "", Label: "Anything"}, {Value: "destination.", Label: "Destinations"}, {Value: "secret.", Label: "Signing secrets"}, {Value: "lane.", Label: "Lanes"},
	{Value: "replay.", Label: "Replays"}, {Value: "dead_letters.", Label: "Dead letters"}, {Value: "payload.", Label: "Payloads revealed"}, {Value: "person.", Label: "People"}, {Value: "password.", Label: "Passwords"},
	{Value: "session.", Label: "Sessions ended"}, {Value: "token.", Label: "API tokens"}, {Value: "sign_in", Label: "Sign-ins"}, {Value: "sign_in_failed", Label: "Failed sign-ins"},
}

func auditLineOf(row dbsqlc.Audit) (auditLineView, error) {
	l := auditLineView{
		ID: row.ID, At: row.At, Kind: row.ActorKind, Actor: row.Actor, Role: row.Role, Address: row.Address, Action: row.Action, Words: auditWords[row.Action],
		ObjectID: row.ObjectID, Object: row.ObjectName, Note: row.Note,
	}
	if l.Words == "" {
		l.Words = row.Action
	}
	switch row.ObjectKind {
	case "destination":
		l.Href = "/destinations/" + row.ObjectID
	case "delivery":
		l.Href = "/deliveries/" + row.ObjectID
	case "dead_letters":
		l.Href = "/dead-letters/" + row.ObjectID
	}
	var err error
	l.Changes, err = changesOf(row.Before, row.After)
	return l, err
}

func changesOf(before, after []byte) ([]auditChange, error) {
	was, err := readFacts(before)
	if err != nil {
		return nil, err
	}
	is, err := readFacts(after)
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Keys(was))
	for name := range is {
		if _, ok := was[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	changes := make([]auditChange, len(names))
	for i, name := range names {
		changes[i] = auditChange{name, factText(was[name]), factText(is[name])}
	}
	return changes, nil
}

func readFacts(raw []byte) (facts, error) {
	f := facts{}
	if raw == nil {
		return f, nil
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("read audit entry: %w", err)
	}
	return f, nil
}

func factText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case []any:
		lines := make([]string, len(v))
		for i, part := range v {
			lines[i] = factText(part)
		}
		return strings.Join(lines, "\n")
	default:
		raw, err := json.Marshal(v)
		if err != nil {
			return "?" // what came out of JSON goes into it
		}
		return string(raw)
	}
}
