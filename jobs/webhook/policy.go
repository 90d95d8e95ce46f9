package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Rule gives a status, or a range of statuses, a verdict.
type Rule struct {
	Status  string  `json:"status"` // "409", "4xx" or "500-503"
	Verdict Verdict `json:"verdict"`
}

// Policy is a destination's own list of rules. It comes before [DefaultRules]; where several rules match, the one
// with the narrowest range decides, whatever the order: "404" before "4xx".
type Policy []Rule

// maxRules bounds a policy; a hundred rules are more than anybody can review.
const maxRules = 100

// DefaultRules returns the verdicts that apply where a destination has no rule of its own, for the documentation and
// the panel. Two things do not fit a table of statuses: a 503 with a valid Retry-After is a [Hold], and statuses that
// it does not list (1xx, 600 and above) are a [Retry] of class "protocol".
func DefaultRules() []Rule {
	return []Rule{
		{"2xx", Delivered},
		{"3xx", Reject},
		{"408", Retry},
		{"410", Gone},
		{"425", Retry},
		{"429", Hold},
		{"4xx", Reject},
		{"5xx", Retry},
	}
}

// defaultRules is DefaultRules made once: judge runs for every response.
var defaultRules = Policy(DefaultRules())

// ParsePolicy reads a JSON list of rules, strictly, and validates it. Empty input and null are an empty policy.
func ParsePolicy(raw []byte) (Policy, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}

	var policy Policy
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&policy); err != nil {
		return nil, fmt.Errorf(`responses must be a list such as [{"status": "409", "verdict": "delivered"}]: %w`, err)
	}
	if decoder.More() {
		return nil, fmt.Errorf("responses must be one list, but something follows it")
	}

	return policy, policy.Validate()
}

// Validate returns an error that names the first bad entry, counted from 1, or nil.
func (p Policy) Validate() error {
	if len(p) > maxRules {
		return fmt.Errorf("responses has %d entries, at most %d are allowed", len(p), maxRules)
	}

	seen := map[[2]int]int{}
	for i, rule := range p {
		low, high, err := rule.bounds()
		if err != nil {
			return fmt.Errorf("responses, entry %d: %w", i+1, err)
		}
		switch rule.Verdict {
		case Delivered, Retry, Hold, Reject, Gone:
		case Blocked:
			return fmt.Errorf("responses, entry %d: the verdict blocked is for connections that were refused, not for statuses", i+1)
		default:
			return fmt.Errorf("responses, entry %d: verdict %q is none of delivered, retry, hold, reject, gone", i+1, printable(string(rule.Verdict), 40))
		}
		if first, ok := seen[[2]int{low, high}]; ok {
			return fmt.Errorf("responses, entry %d: status %s has a verdict already, in entry %d", i+1, rule.Status, first)
		}
		seen[[2]int{low, high}] = i + 1
	}

	return nil
}

// bounds returns the first and the last status that the rule covers.
func (r Rule) bounds() (low, high int, err error) {
	if len(r.Status) == 3 && strings.EqualFold(r.Status[1:], "xx") && r.Status[0] >= '1' && r.Status[0] <= '9' {
		class := int(r.Status[0]-'0') * 100
		return class, class + 99, nil
	}

	first, last, isRange := strings.Cut(r.Status, "-")
	if !isRange {
		last = first
	}
	if len(first) == 3 && len(last) == 3 && isDigits(first) && isDigits(last) {
		low, _ = strconv.Atoi(first) // three digits
		high, _ = strconv.Atoi(last)
		if 100 <= low && low <= high {
			return low, high, nil
		}
	}

	// Made only here: this runs for every rule at every response.
	return 0, 0, fmt.Errorf(`status %q is not a status such as "409", a class such as "4xx" or a range such as "500-503"`, printable(r.Status, 40))
}

// verdict returns the verdict of the narrowest rule that covers status; of equally narrow ones the first. Rules that
// cannot be read are passed over: a policy is validated when it is saved.
func (p Policy) verdict(status int) (Verdict, bool) {
	var found Verdict
	width := -1
	for _, rule := range p {
		low, high, err := rule.bounds()
		if err != nil || status < low || status > high {
			continue
		}
		if width < 0 || high-low < width {
			found, width = rule.Verdict, high-low
		}
	}

	return found, width >= 0
}

// judge turns a status into the part of the outcome that follows from it. Only the status decides: the body is never
// looked at. now is our clock, for a Retry-After that is a date.
func judge(status int, header http.Header, policy Policy, now time.Time) Outcome {
	o := Outcome{Status: status}
	o.RetryAfter, o.HasRetryAfter, o.RetryAfterRaw = parseRetryAfter(header["Retry-After"], now)

	verdict, own := policy.verdict(status)
	if !own {
		var known bool
		if verdict, known = defaultRules.verdict(status); !known {
			verdict = Retry
		}
		if status == http.StatusServiceUnavailable && o.HasRetryAfter {
			verdict = Hold
		}
	}

	o.Verdict = verdict
	o.ErrorClass, o.Reason = describeStatus(status, verdict)
	if own && verdict != Delivered {
		o.Reason += "; the destination's own rule says " + string(verdict)
	}

	return o
}

// describeStatus returns the error class and the reason of a response.
func describeStatus(status int, verdict Verdict) (class, reason string) {
	answered := "the receiver answered " + strconv.Itoa(status)
	if text := http.StatusText(status); text != "" {
		answered += " " + text
	}

	switch {
	case verdict == Delivered:
		return "", answered
	case status == http.StatusTooManyRequests:
		return ClassStatus429, answered
	case status == http.StatusGone:
		return ClassGone, answered
	case status >= 200 && status < 300:
		return ClassStatus2xx, answered
	case status >= 300 && status < 400:
		return ClassRedirect, answered + "; redirects are not followed"
	case status >= 400 && status < 500:
		return ClassStatus4xx, answered
	case status >= 500 && status < 600:
		return ClassStatus5xx, answered
	default:
		return ClassProtocol, answered + ", which is not a final status of HTTP"
	}
}
