package ui

// Role is what an operator may do in the panel. Roles are ordered: each may do what those before it may, so a page asks for the least role
// that something needs.
type Role int

// The roles. The zero value is nobody, who may do nothing.
const (
	Nobody        Role = iota
	Viewer             // looks at everything but people, tokens, settings and the audit log
	Operator           // and pauses, resumes, tests, retries, replays, reveals payloads
	Administrator      // and configures: destinations, lanes, people, tokens, settings
)

// Roles are those that can be given, from the least.
var Roles = []Role{Viewer, Operator, Administrator}

func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	case Administrator:
		return "administrator"
	default:
		return "nobody"
	}
}

// Meaning says in a few words what the role may do.
func (r Role) Meaning() string {
	switch r {
	case Viewer:
		return "looks at everything, changes nothing"
	case Operator:
		return "also pauses, resumes, tests, replays and reveals payloads"
	case Administrator:
		return "also configures: destinations, limits, people, tokens"
	default:
		return "may do nothing"
	}
}

// ParseRole reads what String writes. Anything else is Nobody and false.
func ParseRole(text string) (Role, bool) {
	for _, r := range Roles {
		if r.String() == text {
			return r, true
		}
	}
	return Nobody, false
}

// Can tells whether who is signed in has at least this role. Whatever a page does not offer is refused by its route as well.
func (f Frame) Can(least Role) bool { return f.Role >= least }
