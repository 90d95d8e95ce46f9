package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// temper is how a path misbehaves. The zero temper is good behaviour.
type temper struct {
	// What to answer. Status 0 is 200. An event is applied only where the answer is a 2xx.
	Status     int
	RetryAfter string // sent as it is, right or wrong
	Location   string
	Body       string

	Delay            time.Duration // wait before the event is applied and answered
	Drip             time.Duration // answer one byte per interval
	Hang             bool          // read the request, never answer
	Close            string        // reset the connection: "before" reading the body or "after" it
	ApplyThenTimeout time.Duration // apply the event whatever the status, then wait this long before answering
	Die              bool          // read the request, then end the process

	// Which requests: all of them, or those that pass each of these.
	Every       int     // each Nth request of the path
	Probability float64 // by chance
	Times       int     // no more than so many in all
}

const (
	closeBefore = "before"
	closeAfter  = "after"

	temperMaxWait = time.Hour
	temperMaxBody = 1 << 20
)

// temperError says which field is wrong and what it must be.
type temperError struct {
	Field  string
	Reason string
}

func (e *temperError) Error() string { return "temper: " + e.Field + ": " + e.Reason }

// temperFields is read by all three ways of writing a temper: flag, JSON and query. Each setter refuses what is not of its
// kind, and the zero that would mean "not set"; validate does the rest.
var temperFields = []struct {
	name string
	set  func(t *temper, value string) error
}{
	{"status", func(t *temper, v string) error { return setTemperInt(&t.Status, v) }},
	{"retry_after", func(t *temper, v string) error { t.RetryAfter = v; return nil }},
	{"location", func(t *temper, v string) error { t.Location = v; return nil }},
	{"body", func(t *temper, v string) error { t.Body = v; return nil }},
	{"delay", func(t *temper, v string) error { return setTemperDuration(&t.Delay, v) }},
	{"drip", func(t *temper, v string) error { return setTemperDuration(&t.Drip, v) }},
	{"hang", func(t *temper, v string) error { return setTemperBool(&t.Hang, v) }},
	{"close", func(t *temper, v string) error {
		if t.Close = v; v == "" {
			return fmt.Errorf("must be %q or %q", closeBefore, closeAfter)
		}
		return nil
	}},
	{"apply_then_timeout", func(t *temper, v string) error { return setTemperDuration(&t.ApplyThenTimeout, v) }},
	{"die", func(t *temper, v string) error { return setTemperBool(&t.Die, v) }},
	{"every", func(t *temper, v string) error { return setTemperInt(&t.Every, v) }},
	{"probability", func(t *temper, v string) error {
		var err error
		if t.Probability, err = strconv.ParseFloat(v, 64); err != nil || t.Probability == 0 {
			return fmt.Errorf("must be a number above 0 and at most 1, not %q", v)
		}
		return nil
	}},
	{"times", func(t *temper, v string) error { return setTemperInt(&t.Times, v) }},
}

func setTemperInt(field *int, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return fmt.Errorf("must be a whole number above 0, not %q", value)
	}
	*field = n
	return nil
}

func setTemperDuration(field *time.Duration, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return fmt.Errorf("must be a duration such as 300ms or 5s, not %q", value)
	}
	*field = d
	return nil
}

// setTemperBool takes the bare name as true: --temper /acme=hang, /acme?hang.
func setTemperBool(field *bool, value string) error {
	if value == "" {
		*field = true
		return nil
	}
	b, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("must be true or false, not %q", value)
	}
	*field = b
	return nil
}

// buildTemper reads the known fields out of values. Names that no temper has are an error, or left alone where strange
// ones are to be expected: a destination's URL may have parameters of its own.
func buildTemper(values map[string]string, strangers bool) (temper, error) {
	var t temper
	known := 0
	for _, field := range temperFields {
		value, ok := values[field.name]
		if !ok {
			continue
		}
		known++
		if err := field.set(&t, value); err != nil {
			return temper{}, &temperError{Field: field.name, Reason: err.Error()}
		}
	}
	if known < len(values) && !strangers {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if !isTemperField(name) {
				return temper{}, &temperError{Field: name, Reason: "there is no such field"}
			}
		}
	}
	return t, t.validate()
}

func isTemperField(name string) bool {
	for _, field := range temperFields {
		if field.name == name {
			return true
		}
	}
	return false
}

// parseTemperFlag reads "status:500,every:3", or JSON where a value has a comma in it.
func parseTemperFlag(text string) (temper, error) {
	if strings.HasPrefix(text, "{") {
		return parseTemperJSON([]byte(text))
	}
	values := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(pair, ":")
		values[name] = value
	}
	return buildTemper(values, false)
}

func parseTemperJSON(text []byte) (temper, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return temper{}, fmt.Errorf("temper: not a JSON object: %w", err)
	}
	values := make(map[string]string, len(raw))
	for name, value := range raw {
		switch value[0] {
		case '"':
			var s string
			if err := json.Unmarshal(value, &s); err != nil {
				return temper{}, &temperError{Field: name, Reason: err.Error()}
			}
			values[name] = s
		case '{', '[', 'n':
			return temper{}, &temperError{Field: name, Reason: "must be a string, a number or a boolean"}
		default:
			values[name] = string(value)
		}
	}
	return buildTemper(values, false)
}

// parseTemperQuery reads the temper in a destination's own URL; found is false where there is none.
func parseTemperQuery(query url.Values) (t temper, found bool, err error) {
	values := map[string]string{}
	for name := range query {
		if isTemperField(name) {
			values[name] = query.Get(name)
		}
	}
	if len(values) == 0 {
		return temper{}, false, nil
	}
	t, err = buildTemper(values, true)
	return t, true, err
}

func (t temper) validate() error {
	wrong := func(field, format string, args ...any) error {
		return &temperError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	if t.Status != 0 && (t.Status < 200 || t.Status > 599) {
		return wrong("status", "must be from 200 to 599, not %d", t.Status)
	}
	for _, header := range []struct{ field, value string }{{"retry_after", t.RetryAfter}, {"location", t.Location}} {
		if !httpguts.ValidHeaderFieldValue(header.value) || len(header.value) > 2048 {
			return wrong(header.field, "cannot be sent as a header")
		}
	}
	if len(t.Body) > temperMaxBody {
		return wrong("body", "must be at most %d bytes", temperMaxBody)
	}
	for _, wait := range []struct {
		field string
		value time.Duration
	}{{"delay", t.Delay}, {"drip", t.Drip}, {"apply_then_timeout", t.ApplyThenTimeout}} {
		if wait.value < 0 || wait.value > temperMaxWait {
			return wrong(wait.field, "must be above 0 and at most %s, not %s", temperMaxWait, wait.value)
		}
	}
	if t.Close != "" && t.Close != closeBefore && t.Close != closeAfter {
		return wrong("close", "must be %q or %q, not %q", closeBefore, closeAfter, t.Close)
	}
	if t.Every < 0 {
		return wrong("every", "must be a whole number above 0, not %d", t.Every)
	}
	if !(t.Probability >= 0 && t.Probability <= 1) { // so written that NaN is refused too
		return wrong("probability", "must be a number above 0 and at most 1, not %v", t.Probability)
	}
	if t.Times < 0 {
		return wrong("times", "must be a whole number above 0, not %d", t.Times)
	}
	// Each of these ends the request in its own way, so there can be only one.
	ends := ""
	for _, end := range []struct {
		field string
		set   bool
	}{
		{"hang", t.Hang},
		{"close", t.Close != ""},
		{"die", t.Die},
		{"apply_then_timeout", t.ApplyThenTimeout > 0},
	} {
		if end.set && ends != "" {
			return wrong(end.field, "cannot be combined with %s", ends)
		}
		if end.set {
			ends = end.field
		}
	}
	return nil
}

// picks says whether this temper spoils the request that comes now. p.mu is held; seen has already counted the request.
func (p *receiverPath) picks(t temper) bool {
	switch {
	case t == temper{}:
		return false
	case t.Every > 0 && p.seen%int64(t.Every) != 0:
		return false
	case t.Probability > 0 && rand.Float64() >= t.Probability:
		return false
	case t.Times > 0 && p.spoiled >= int64(t.Times):
		return false
	}
	p.spoiled++
	return true
}

// applies says whether the event takes effect: an honest subscriber does what it acknowledges.
func (t temper) applies() bool {
	return t.Status == 0 || t.Status/100 == 2 || t.ApplyThenTimeout > 0
}

// waits says whether the server's own timeouts must stand back.
func (t temper) waits() bool {
	return t.Hang || t.Delay > 0 || t.Drip > 0 || t.ApplyThenTimeout > 0
}

// reply is what the temper makes of the answer that good behaviour would give.
func (t temper) reply(good reply) reply {
	if t.Status != 0 && t.Status != http.StatusOK {
		good.status = t.Status
		if !t.applies() {
			good.outcome = outcomeTempered
			good.body = []byte("answering " + strconv.Itoa(t.Status) + ", as told to\n")
		}
	}
	if t.Body != "" {
		good.body = []byte(t.Body)
	}
	good.retryAfter, good.location, good.drip = t.RetryAfter, t.Location, t.Drip
	if good.status == http.StatusNoContent || good.status == http.StatusNotModified { // these have no body
		good.body, good.drip = nil, 0
	}
	return good
}
