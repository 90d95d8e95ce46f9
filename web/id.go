package web

import (
	"strconv"
	"strings"
	"unicode"

	"weir/jobs"
)

// Ids in the API are a prefix and the row's number.
const (
	idDestination = "dst_"
	idLane        = "lane_"
	idDelivery    = "dlv_"
	idReplay      = "rpl_"
	idToken       = "tok_"
	idSearchKey   = "key_"
	idPerson      = "usr_"
	idSession     = "ses_"
	idInvitation  = "inv_"
	idLetters     = "dlg_"
)

var idNames = map[string]string{idDestination: "destination", idLane: "lane", idDelivery: "delivery", idReplay: "replay", idToken: "token", idSearchKey: "search key",
	idPerson: "person", idSession: "session", idInvitation: "invitation", idLetters: "group of dead letters"}

func formatID(prefix string, id int64) string { return prefix + strconv.FormatInt(id, 10) }

// parseID reads an id in a path: what cannot be an id belongs to nothing, so it is a *jobs.NotFoundError.
func parseID(prefix, text string) (int64, error) {
	digits, ok := strings.CutPrefix(text, prefix)
	id, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil || id == 0 || digits[0] == '0' {
		return 0, &jobs.NotFoundError{What: idNames[prefix], ID: printableID(text)}
	}
	return int64(id), nil
}

// parseIDField reads an id in a body or a query, where garbage is the caller's mistake: an *jobs.InvalidError.
func parseIDField(prefix, field, text string) (int64, error) {
	id, err := parseID(prefix, text)
	if err != nil {
		return 0, &jobs.InvalidError{Field: field, Problem: "want the id of a " + idNames[prefix] + ", such as " + prefix + "12"}
	}
	return id, nil
}

func printableID(text string) string {
	if len(text) > 40 {
		text = text[:40]
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '.'
		}
		return r
	}, text), ".")
}
