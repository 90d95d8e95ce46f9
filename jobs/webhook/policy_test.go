package webhook

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJudgeByDefault(t *testing.T) {
	t.Parallel()

	for status, want := range map[int]struct {
		verdict Verdict
		class   string
	}{
		200: {Delivered, ""}, 201: {Delivered, ""}, 202: {Delivered, ""}, 204: {Delivered, ""}, 206: {Delivered, ""},
		207: {Delivered, ""}, 226: {Delivered, ""}, 299: {Delivered, ""},
		301: {Reject, "redirect"}, 302: {Reject, "redirect"}, 303: {Reject, "redirect"}, 304: {Reject, "redirect"},
		307: {Reject, "redirect"}, 308: {Reject, "redirect"},
		400: {Reject, "status_4xx"}, 401: {Reject, "status_4xx"}, 404: {Reject, "status_4xx"}, 409: {Reject, "status_4xx"},
		413: {Reject, "status_4xx"}, 415: {Reject, "status_4xx"}, 421: {Reject, "status_4xx"}, 422: {Reject, "status_4xx"},
		451: {Reject, "status_4xx"}, 499: {Reject, "status_4xx"},
		408: {Retry, "status_4xx"}, 425: {Retry, "status_4xx"},
		410: {Gone, "gone"}, 429: {Hold, "status_429"},
		500: {Retry, "status_5xx"}, 501: {Retry, "status_5xx"}, 503: {Retry, "status_5xx"}, 505: {Retry, "status_5xx"},
		507: {Retry, "status_5xx"}, 599: {Retry, "status_5xx"},
		0: {Retry, "protocol"}, 99: {Retry, "protocol"}, 101: {Retry, "protocol"}, 199: {Retry, "protocol"},
		600: {Retry, "protocol"}, 999: {Retry, "protocol"},
	} {
		o := judge(status, http.Header{}, nil, now)
		require.Equal(t, want.verdict, o.Verdict, status)
		require.Equal(t, want.class, o.ErrorClass, status)
		require.NotEmpty(t, o.Reason, status)
		require.Equal(t, status, o.Status)
	}
}

func TestJudgeHoldsOnlyOnAValidRetryAfter(t *testing.T) {
	t.Parallel()

	with := func(value string) http.Header { return http.Header{"Retry-After": {value}} }

	o := judge(503, with("7"), nil, now)
	require.Equal(t, Hold, o.Verdict)
	require.Equal(t, 7*time.Second, o.RetryAfter)

	o = judge(503, with("0"), nil, now)
	require.Equal(t, Hold, o.Verdict)
	require.True(t, o.HasRetryAfter)

	o = judge(503, with("soon"), nil, now)
	require.Equal(t, Retry, o.Verdict)
	require.False(t, o.HasRetryAfter)
	require.Equal(t, "soon", o.RetryAfterRaw)

	o = judge(429, http.Header{}, nil, now)
	require.Equal(t, Hold, o.Verdict)
	require.False(t, o.HasRetryAfter)

	o = judge(500, with("7"), nil, now)
	require.Equal(t, Retry, o.Verdict)
	require.Equal(t, 7*time.Second, o.RetryAfter)
}

func TestPolicyTheNarrowestRuleDecides(t *testing.T) {
	t.Parallel()

	policy, err := ParsePolicy([]byte(`[{"status":"4xx","verdict":"retry"},{"status":"404","verdict":"reject"},
		{"status":"409","verdict":"delivered"},{"status":"500-503","verdict":"hold"},{"status":"202","verdict":"retry"}]`))
	require.NoError(t, err)

	for status, want := range map[int]Verdict{400: Retry, 404: Reject, 409: Delivered, 410: Retry, 502: Hold, 504: Retry, 202: Retry, 200: Delivered} {
		require.Equal(t, want, judge(status, http.Header{}, policy, now).Verdict, status)
	}
	require.Equal(t, "status_2xx", judge(202, http.Header{}, policy, now).ErrorClass)
	require.Empty(t, judge(409, http.Header{}, policy, now).ErrorClass)
}

func TestParsePolicyNamesTheBadEntry(t *testing.T) {
	t.Parallel()

	for raw, wantErr := range map[string]string{
		``: "", `null`: "", `[]`: "",
		`[{"status":"409","verdict":"delivered"},{"status":"4x","verdict":"retry"}]`:   `entry 2: status "4x"`,
		`[{"status":"503-500","verdict":"retry"}]`:                                     `entry 1: status "503-500"`,
		`[{"status":"0xx","verdict":"retry"}]`:                                         `entry 1`,
		`[{"status":"099","verdict":"retry"}]`:                                         `entry 1`,
		`[{"status":"+40","verdict":"retry"}]`:                                         `entry 1`,
		`[{"status":"","verdict":"retry"}]`:                                            `entry 1`,
		`[{"status":"409","verdict":"ok"}]`:                                            `entry 1: verdict "ok"`,
		`[{"status":"409","verdict":"blocked"}]`:                                       `entry 1: the verdict blocked`,
		`[{"status":"4xx","verdict":"retry"},{"status":"400-499","verdict":"reject"}]`: `entry 2: status 400-499 has a verdict already, in entry 1`,
		`[{"status":409,"verdict":"retry"}]`:                                           `must be a list`,
		`[{"status":"409","verdict":"retry","why":1}]`:                                 `must be a list`,
		`{"409":"retry"}`: `must be a list`,
		`[] []`:           `must be one list`,
	} {
		_, err := ParsePolicy([]byte(raw))
		if wantErr == "" {
			require.NoError(t, err, raw)
			continue
		}
		require.ErrorContains(t, err, wantErr, raw)
	}
}

func TestDefaultRulesAreAValidPolicyAndACopy(t *testing.T) {
	t.Parallel()

	rules := DefaultRules()
	require.NoError(t, Policy(rules).Validate())
	rules[0].Verdict = Reject
	require.Equal(t, Delivered, DefaultRules()[0].Verdict)
}
