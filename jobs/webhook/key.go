package webhook

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// Signature schemes of Standard Webhooks, as they stand before the comma in webhook-signature.
const (
	SchemeHMAC    = "v1"  // HMAC-SHA256, a secret that both sides know
	SchemeEd25519 = "v1a" // ed25519, the receiver knows only the public key
)

const (
	prefixSecret  = "whsec_"
	prefixPrivate = "whsk_"
	prefixPublic  = "whpk_"

	minSecret = 24 // bytes; the specification's limits
	maxSecret = 64
)

// Key signs messages, or only verifies them when it was made by [ParsePublicKey]. The zero Key does neither. It never
// shows its secret: not by %v, not by %#v, not in a log record.
type Key struct {
	scheme string
	secret []byte // HMAC secret, or an ed25519 private key; empty where only the public key is known
	public ed25519.PublicKey
	macs   *sync.Pool // of HMACs made with the secret
}

// newMACs keeps HMACs: one that is used again starts from the state that follows the key, instead of hashing it twice (a sixteenth of what a
// saturated sender computed).
func newMACs(secret []byte) *sync.Pool {
	return &sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}
}

// NewSecret returns a fresh HMAC secret: `whsec_` and 32 random bytes in base64.
func NewSecret() string {
	return prefixSecret + base64.StdEncoding.EncodeToString(randomBytes(32))
}

// NewSigningKey returns a fresh ed25519 private key: `whsk_` and its 32-byte seed in base64.
func NewSigningKey() string {
	return prefixPrivate + base64.StdEncoding.EncodeToString(randomBytes(ed25519.SeedSize))
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // crypto/rand.Read never fails: it ends the program instead

	return b
}

// ParseSecret reads a signing secret: `whsec_` and 24 to 64 bytes in standard base64, or `whsk_` and an ed25519 seed
// (32 bytes) or private key (64 bytes). Everything else is refused with a sentence that says what is wrong and never
// contains the secret. Nothing is trimmed or repaired: a receiver that was given the same text would not do so either.
func ParseSecret(s string) (Key, error) {
	switch {
	case strings.TrimSpace(s) == "":
		return Key{}, errors.New("the secret is empty")
	case strings.ContainsAny(s, " \t\r\n"):
		return Key{}, errors.New("the secret contains a blank or a line break; it may have been copied with it")
	case strings.HasPrefix(s, "v1,") || strings.HasPrefix(s, "v1a,"):
		return Key{}, errors.New("v1, and v1a, begin a signature, not a secret; a secret begins with whsec_")
	case strings.HasPrefix(s, prefixPublic):
		return Key{}, errors.New("whpk_ begins a public key, which cannot sign; the private key begins with whsk_")
	case strings.HasPrefix(s, prefixSecret):
		return parseHMAC(strings.TrimPrefix(s, prefixSecret))
	case strings.HasPrefix(s, prefixPrivate):
		return parsePrivate(strings.TrimPrefix(s, prefixPrivate))
	default:
		return Key{}, errors.New("the secret must begin with whsec_ (or with whsk_ for an ed25519 key)")
	}
}

func parseHMAC(encoded string) (Key, error) {
	raw, err := decodeSecret(encoded)
	if err != nil {
		return Key{}, err
	}
	if len(raw) < minSecret {
		return Key{}, fmt.Errorf("the secret is too short: %d bytes after whsec_, at least %d are needed", len(raw), minSecret)
	}
	if len(raw) > maxSecret {
		return Key{}, fmt.Errorf("the secret is too long: %d bytes after whsec_, at most %d are allowed", len(raw), maxSecret)
	}

	return Key{scheme: SchemeHMAC, secret: raw, macs: newMACs(raw)}, nil
}

func parsePrivate(encoded string) (Key, error) {
	raw, err := decodeSecret(encoded)
	if err != nil {
		return Key{}, err
	}

	var private ed25519.PrivateKey
	switch len(raw) {
	case ed25519.SeedSize:
		private = ed25519.NewKeyFromSeed(raw)
	case ed25519.PrivateKeySize:
		private = ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		if !bytes.Equal(private, raw) {
			return Key{}, errors.New("the two halves of the ed25519 key after whsk_ do not belong together")
		}
	default:
		return Key{}, fmt.Errorf("an ed25519 key has 32 or 64 bytes after whsk_, this has %d", len(raw))
	}

	public := private.Public().(ed25519.PublicKey) // documented by crypto/ed25519

	return Key{scheme: SchemeEd25519, secret: private, public: public}, nil
}

// ParsePublicKey reads `whpk_` and 32 bytes in standard base64, for a receiver that verifies v1a signatures.
func ParsePublicKey(s string) (Key, error) {
	encoded, ok := strings.CutPrefix(s, prefixPublic)
	if !ok {
		return Key{}, errors.New("a public key begins with whpk_")
	}
	raw, err := decodeSecret(encoded)
	if err != nil {
		return Key{}, err
	}
	if len(raw) != ed25519.PublicKeySize {
		return Key{}, fmt.Errorf("an ed25519 public key has 32 bytes after whpk_, this has %d", len(raw))
	}

	return Key{scheme: SchemeEd25519, public: raw}, nil
}

// decodeSecret decodes standard base64 with padding. The library's error is left out: it may quote the input.
func decodeSecret(encoded string) ([]byte, error) {
	if encoded == "" {
		return nil, errors.New("there is nothing after the secret's prefix")
	}
	if strings.ContainsAny(encoded, "-_") {
		return nil, errors.New("the secret is written in base64url; standard base64 (with + and /) is needed")
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil, errors.New("the secret is not standard base64 (with padding) after its prefix")
	}

	return raw, nil
}

// Scheme returns [SchemeHMAC] or [SchemeEd25519].
func (k Key) Scheme() string { return k.scheme }

// PublicKey returns `whpk_` and the ed25519 public key in base64, to be handed to the receiver; "" for HMAC.
func (k Key) PublicKey() string {
	if len(k.public) == 0 {
		return ""
	}

	return prefixPublic + base64.StdEncoding.EncodeToString(k.public)
}

// String, Format and LogValue keep the secret out of everything that prints a Key. Format is needed beside String
// because verbs such as %d do not ask for it.
func (k Key) String() string             { return "webhook.Key(" + k.scheme + ", redacted)" }
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }
func (k Key) LogValue() slog.Value       { return slog.StringValue(k.String()) }
