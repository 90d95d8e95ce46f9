package webhook

import (
	"io"
	"log"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// net/http reports surplus bytes on the standard logger, with their text.
	log.SetOutput(io.Discard)

	goleak.VerifyTestMain(m)
}

// now is the tests' clock.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// loopback lets the guard through to receivers of the tests.
var loopback = Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}

// testSecret is 24 bytes, the shortest that is allowed.
const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func mustKey(t testing.TB, secret string) Key {
	t.Helper()

	key, err := ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}

	return key
}
