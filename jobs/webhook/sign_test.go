package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

func TestParseSecret(t *testing.T) {
	t.Parallel()

	b64 := func(n int) string { return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n))) }

	for name, tt := range map[string]struct{ secret, wantErr string }{
		"24 bytes":             {"whsec_" + b64(24), ""},
		"64 bytes":             {"whsec_" + b64(64), ""},
		"no prefix":            {b64(24), "must begin with whsec_"},
		"base64url":            {"whsec_" + base64.URLEncoding.EncodeToString([]byte(strings.Repeat("\xff\xfe\xfd", 8))), "base64url"},
		"newline at the end":   {"whsec_" + b64(24) + "\n", "line break"},
		"blank inside":         {"whsec_ " + b64(24), "blank"},
		"16 bytes":             {"whsec_" + b64(16), "too short"},
		"65 bytes":             {"whsec_" + b64(65), "too long"},
		"a signature's prefix": {"v1,whsec_" + b64(24), "begin a signature"},
		"no base64":            {"whsec_this.is.not.base64!", "not standard base64"},
		"no padding":           {"whsec_" + strings.TrimRight(b64(25), "="), "not standard base64"},
		"empty":                {"", "empty"},
		"blanks":               {"   ", "empty"},
		"only the prefix":      {"whsec_", "nothing after"},
		"upper-case prefix":    {"WHSEC_" + b64(24), "must begin with"},
		"public key":           {"whpk_" + b64(32), "cannot sign"},
		"ed25519 seed":         {"whsk_" + b64(32), ""},
		"ed25519 wrong length": {"whsk_" + b64(33), "32 or 64 bytes"},
		"ed25519 halves":       {"whsk_" + b64(64), "do not belong together"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			key, err := ParseSecret(tt.secret)
			if tt.wantErr == "" {
				require.NoError(t, err)
				require.NotEmpty(t, key.Scheme())
				return
			}
			require.ErrorContains(t, err, tt.wantErr)
			require.Empty(t, key.Scheme())
			if body := strings.Trim(tt.secret, " \n"); len(body) > 9 {
				require.NotContains(t, err.Error(), body[8:])
			}
		})
	}
}

func TestNewSecretAndSigningKeyParse(t *testing.T) {
	t.Parallel()

	first, second := NewSecret(), NewSecret()
	require.NotEqual(t, first, second)
	require.Equal(t, SchemeHMAC, mustKey(t, NewSecret()).Scheme())

	private := mustKey(t, NewSigningKey())
	require.Equal(t, SchemeEd25519, private.Scheme())
	public, err := ParsePublicKey(private.PublicKey())
	require.NoError(t, err)
	require.Equal(t, private.PublicKey(), public.PublicKey())
	require.Empty(t, mustKey(t, testSecret).PublicKey())
}

func TestKeyNeverPrintsItsSecret(t *testing.T) {
	t.Parallel()

	key := mustKey(t, testSecret)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		text := fmt.Sprintf(format, key) + fmt.Sprintf(format, &key) + fmt.Sprintf(format, []Key{key})
		require.NotContains(t, text, "MfKQ9r8G", format)
		require.NotContains(t, text, fmt.Sprintf("%x", key.secret), format)
		require.NotContains(t, text, fmt.Sprintf("%d", key.secret), format)
	}
	raw, err := json.Marshal(key)
	require.NoError(t, err)
	require.JSONEq(t, "{}", string(raw))
}

// The vector that the documentation shows, recomputed step by step.
func TestSignDocumentedVector(t *testing.T) {
	t.Parallel()

	const (
		id   = "msg_p5jXN8AQM9LWM0D4loKWxJek"
		unix = 1614265330
		body = `{"test": 2432232314}`
		want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	)

	secret, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	require.NoError(t, err)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + ".1614265330." + body))
	require.Equal(t, want, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))

	got, err := Sign([]Key{mustKey(t, testSecret)}, id, time.Unix(unix, 999_999_999), []byte(body))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestSignVerifiesWithTheStandardLibraryOfWebhooks(t *testing.T) {
	t.Parallel()

	for _, body := range []string{`{"price":136.0}`, `{"city":"Zürich","note":"配達済み 📦"}`, "", "\xff\x00not utf-8"} {
		old, fresh := mustKey(t, testSecret), mustKey(t, NewSecret())
		at := time.Now()
		signature, err := Sign([]Key{fresh, old}, "evt_1", at, []byte(body))
		require.NoError(t, err)
		require.Regexp(t, `^v1,[A-Za-z0-9+/=]{44} v1,[A-Za-z0-9+/=]{44}$`, signature)

		verifier, err := standardwebhooks.NewWebhook(testSecret)
		require.NoError(t, err)
		header := signedHeader("evt_1", at, signature)
		require.NoError(t, verifier.Verify([]byte(body), header))
		require.Error(t, verifier.Verify([]byte(body+" "), header))
		require.NoError(t, Verify([]Key{old}, header, []byte(body), at, time.Minute))
	}
}

func TestSignEd25519(t *testing.T) {
	t.Parallel()

	key := mustKey(t, NewSigningKey())
	signature, err := Sign([]Key{key, mustKey(t, testSecret)}, "evt_1", now, []byte("body"))
	require.NoError(t, err)

	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.Fields(signature)[0], "v1a,"))
	require.NoError(t, err)
	require.True(t, ed25519.Verify(key.public, []byte("evt_1."+strconv.FormatInt(now.Unix(), 10)+".body"), raw))

	public, err := ParsePublicKey(key.PublicKey())
	require.NoError(t, err)
	header := signedHeader("evt_1", now, signature)
	require.NoError(t, Verify([]Key{public}, header, []byte("body"), now, 0))
	require.ErrorIs(t, Verify([]Key{public}, header, []byte("bodY"), now, 0), ErrNoMatch)

	_, err = Sign([]Key{public}, "evt_1", now, nil)
	require.ErrorIs(t, err, errCannotSignPublic)
}

func TestSignRefusesToSignWithNothing(t *testing.T) {
	t.Parallel()

	for _, keys := range [][]Key{nil, {}, {{}}, {mustKey(t, testSecret), {}}} {
		signature, err := Sign(keys, "evt_1", now, []byte("body"))
		require.ErrorIs(t, err, ErrNoKeys)
		require.Empty(t, signature)
	}
	require.ErrorIs(t, Verify(nil, http.Header{}, nil, now, time.Minute), ErrNoKeys)
	require.ErrorIs(t, Verify([]Key{{}}, signedHeader("evt_1", now, "v1,"), nil, now, time.Minute), ErrNoMatch)
}

func TestVerifyRefusals(t *testing.T) {
	t.Parallel()

	keys := []Key{mustKey(t, testSecret)}
	good, err := Sign(keys, "evt_1", now, []byte("body"))
	require.NoError(t, err)

	for name, tt := range map[string]struct {
		change func(http.Header)
		at     time.Time
		want   error
	}{
		"as sent":               {func(http.Header) {}, now, nil},
		"unknown scheme beside": {func(h http.Header) { h.Set(HeaderSignature, "v9,abc "+good) }, now, nil},
		"at the tolerance":      {func(http.Header) {}, now.Add(5 * time.Minute), nil},
		"too old":               {func(http.Header) {}, now.Add(5*time.Minute + time.Second), ErrTimestampTooOld},
		"too new":               {func(http.Header) {}, now.Add(-5*time.Minute - time.Second), ErrTimestampTooNew},
		"other id":              {func(h http.Header) { h.Set(HeaderID, "evt_2") }, now, ErrNoMatch},
		"leading zero":          {func(h http.Header) { h.Set(HeaderTimestamp, "0"+h.Get(HeaderTimestamp)) }, now, ErrNoMatch},
		"signed timestamp":      {func(h http.Header) { h.Set(HeaderTimestamp, "+"+h.Get(HeaderTimestamp)) }, now, ErrMissingHeaders},
		"endless timestamp":     {func(h http.Header) { h.Set(HeaderTimestamp, "9223372036854775807") }, now, ErrMissingHeaders},
		"no signature":          {func(h http.Header) { h.Del(HeaderSignature) }, now, ErrMissingHeaders},
		"only a scheme":         {func(h http.Header) { h.Set(HeaderSignature, "v1,") }, now, ErrNoMatch},
		"scheme swapped":        {func(h http.Header) { h.Set(HeaderSignature, "v1a"+strings.TrimPrefix(good, "v1")) }, now, ErrNoMatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			header := signedHeader("evt_1", now, good)
			tt.change(header)
			require.ErrorIs(t, Verify(keys, header, []byte("body"), tt.at, 5*time.Minute), tt.want)
		})
	}
}

func FuzzVerify(f *testing.F) {
	keys := []Key{mustKey(f, testSecret), mustKey(f, NewSigningKey())}
	good, err := Sign(keys, "evt_1", now, []byte("body"))
	require.NoError(f, err)
	f.Add("evt_1", strconv.FormatInt(now.Unix(), 10), good, []byte("body"))
	f.Add("", "-1", ", ,v1a,=", []byte{})
	f.Add("a.b", "99999999999999999999", "v1 v1,", []byte("\xff"))

	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		header := http.Header{HeaderID: {id}, HeaderTimestamp: {timestamp}, HeaderSignature: {signature}}
		if Verify(keys, header, body, now, time.Hour) != nil {
			return
		}
		if id != "evt_1" || string(body) != "body" { // nothing else was ever signed
			t.Fatalf("accepted id %q body %q", id, body)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	keys, body := []Key{mustKey(b, testSecret)}, []byte(strings.Repeat("x", 2048))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Sign(keys, "evt_01JX", now, body); err != nil {
			b.Fatal(err)
		}
	}
}

func signedHeader(id string, at time.Time, signature string) http.Header {
	return http.Header{HeaderID: {id}, HeaderTimestamp: {strconv.FormatInt(at.Unix(), 10)}, HeaderSignature: {signature}}
}
