package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()

	in20 := now.Add(20 * time.Second)

	for name, tt := range map[string]struct {
		values []string
		want   time.Duration
		ok     bool
	}{
		"absent":                {nil, 0, false},
		"seconds":               {[]string{"120"}, 2 * time.Minute, true},
		"zero":                  {[]string{"0"}, 0, true},
		"leading zeros":         {[]string{"005"}, 5 * time.Second, true},
		"blanks around":         {[]string{" 5\t"}, 5 * time.Second, true},
		"a day":                 {[]string{"86400"}, 24 * time.Hour, true},
		"largest that fits":     {[]string{"9223372036"}, 9223372036 * time.Second, true},
		"one more":              {[]string{"9223372037"}, 0, false},
		"4 KB of digits":        {[]string{strings.Repeat("9", 4096)}, 0, false},
		"negative":              {[]string{"-3"}, 0, false},
		"plus":                  {[]string{"+3"}, 0, false},
		"fraction":              {[]string{"1.5"}, 0, false},
		"junk behind":           {[]string{"120junk"}, 0, false},
		"exponent":              {[]string{"1e3"}, 0, false},
		"hexadecimal":           {[]string{"0x10"}, 0, false},
		"empty":                 {[]string{""}, 0, false},
		"list":                  {[]string{"5, 7"}, 0, false},
		"two lines":             {[]string{"5", "7"}, 0, false},
		"word":                  {[]string{"soon"}, 0, false},
		"parameter":             {[]string{"5;x=1"}, 0, false},
		"other digits":          {[]string{"٣"}, 0, false},
		"IMF-fixdate":           {[]string{in20.Format("Mon, 02 Jan 2006 15:04:05 GMT")}, 20 * time.Second, true},
		"RFC 850":               {[]string{in20.Format("Monday, 02-Jan-06 15:04:05 GMT")}, 20 * time.Second, true},
		"asctime":               {[]string{in20.Format(time.ANSIC)}, 20 * time.Second, true},
		"past":                  {[]string{"Wed, 21 Oct 2015 07:28:00 GMT"}, 0, true},
		"far future":            {[]string{"Fri, 31 Dec 9999 23:59:59 GMT"}, 1<<63 - 1, true},
		"numeric zone":          {[]string{in20.Format("Mon, 02 Jan 2006 15:04:05 +0000")}, 0, false},
		"RFC 850 in other zone": {[]string{in20.Format("Monday, 02-Jan-06 15:04:05 PST")}, 0, false},
		"RFC 3339":              {[]string{in20.Format(time.RFC3339)}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			wait, ok, raw := parseRetryAfter(tt.values, now)
			require.Equal(t, tt.ok, ok)
			require.Equal(t, tt.want, wait)
			require.LessOrEqual(t, len(raw), maxRawRetryAfter)
			if len(tt.values) > 0 && tt.values[0] != "" {
				require.NotEmpty(t, raw)
			}
		})
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{"0", "5", " 5 ", "-1", "+1", "1e9", "99999999999999999999", "Wed, 21 Oct 2015 07:28:00 GMT", "Sun Nov  6 08:49:37 1994", "\x00\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		wait, ok, raw := parseRetryAfter([]string{value}, now)
		if wait < 0 || (!ok && wait != 0) || len(raw) > maxRawRetryAfter {
			t.Fatalf("%q: %v %v %q", value, wait, ok, raw)
		}
		for i := range len(raw) {
			if raw[i] < ' ' || raw[i] > '~' {
				t.Fatalf("%q: raw %q is not printable", value, raw)
			}
		}
	})
}
