package webhook

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRawRetryAfter is how much of a Retry-After value is kept for display, in bytes.
const maxRawRetryAfter = 100

// parseRetryAfter reads the Retry-After header (RFC 9110 §10.2.3). values are the header's lines, now is our clock.
//
// Accepted are a whole number of seconds (digits only) and the three forms of an HTTP-date (RFC 9110 §5.6.7), of which
// the first two must end in GMT. A date in the past is a wait of zero, never a negative one. Dates are measured
// against our clock; the response's own Date header is not consulted, so a receiver whose clock is off by ten minutes
// gets a wait that is off by ten minutes, within the caller's cap.
//
// Anything else is malformed: ok is false and the caller falls back to its own backoff. So are two header lines,
// because no rule says which one counts. raw is what was sent, cut and made printable.
func parseRetryAfter(values []string, now time.Time) (wait time.Duration, ok bool, raw string) {
	if len(values) == 0 {
		return 0, false, ""
	}
	raw = printable(strings.Join(values, ", "), maxRawRetryAfter)
	if len(values) > 1 {
		return 0, false, raw
	}

	value := strings.Trim(values[0], " \t")
	if isDigits(value) {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(math.MaxInt64/time.Second) {
			return 0, false, raw
		}

		return time.Duration(seconds) * time.Second, true, raw
	}

	at, ok := parseHTTPDate(value)
	if !ok {
		return 0, false, raw
	}

	return max(0, at.Sub(now)), true, raw
}

// parseHTTPDate reads an HTTP-date. http.ParseTime alone is too generous: for the RFC 850 form it takes any zone
// abbreviation and reads an unknown one as UTC.
func parseHTTPDate(value string) (time.Time, bool) {
	at, err := http.ParseTime(value)
	if err != nil {
		return time.Time{}, false
	}
	if strings.HasSuffix(value, " GMT") {
		return at, true
	}
	if _, err := time.Parse(time.ANSIC, value); err == nil { // asctime() has no zone; it is UTC by definition
		return at, true
	}

	return time.Time{}, false
}

// isDigits reports whether s is one or more ASCII digits. strconv alone would also take a sign.
func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}

	return s != ""
}

// printable returns at most limit bytes of s, with everything but printable ASCII replaced by '?'.
func printable(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}

	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}

		return r
	}, s)
}
