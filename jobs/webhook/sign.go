package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Errors of [Verify]. None carries anything of the request.
var (
	ErrNoKeys           = errors.New("webhook: no signing key")
	ErrMissingHeaders   = errors.New("webhook: webhook-id, webhook-timestamp or webhook-signature is missing or malformed")
	ErrTimestampTooOld  = errors.New("webhook: webhook-timestamp is too old")
	ErrTimestampTooNew  = errors.New("webhook: webhook-timestamp is in the future")
	ErrNoMatch          = errors.New("webhook: no signature matches")
	errCannotSignPublic = errors.New("webhook: a public key cannot sign")
)

// Sign returns the value of webhook-signature for one attempt: one signature per key, joined by single spaces, over
// `id.timestamp.body` (Standard Webhooks, "Signature scheme"). Several keys are in use while a secret is rotated.
//
// id must be the value of webhook-id exactly as it is sent. ts counts in whole seconds. Without a key it returns
// [ErrNoKeys]: nothing is ever signed with an empty key or sent unsigned.
func Sign(keys []Key, id string, ts time.Time, body []byte) (string, error) {
	if len(keys) == 0 {
		return "", ErrNoKeys
	}

	prefix := id + "." + strconv.FormatInt(ts.Unix(), 10) + "."
	signatures := make([]string, 0, len(keys))
	for _, key := range keys {
		signature, err := key.sign(prefix, body)
		if err != nil {
			return "", err
		}
		signatures = append(signatures, signature)
	}

	return strings.Join(signatures, " "), nil
}

// sign returns `v1,<base64>` or `v1a,<base64>` over prefix followed by body.
func (k Key) sign(prefix string, body []byte) (string, error) {
	switch {
	case k.scheme == SchemeHMAC && len(k.secret) >= minSecret:
		mac := k.macs.Get().(hash.Hash)
		defer k.macs.Put(mac)
		mac.Reset()
		mac.Write([]byte(prefix))
		mac.Write(body)
		signature := make([]byte, 0, 64)
		signature = append(signature, SchemeHMAC+","...)

		return string(base64.StdEncoding.AppendEncode(signature, mac.Sum(nil))), nil

	case k.scheme == SchemeEd25519 && len(k.secret) == ed25519.PrivateKeySize:
		signature := ed25519.Sign(ed25519.PrivateKey(k.secret), signedContent(prefix, body))

		return SchemeEd25519 + "," + base64.StdEncoding.EncodeToString(signature), nil

	case k.scheme == SchemeEd25519:
		return "", errCannotSignPublic

	default:
		return "", ErrNoKeys // the zero Key
	}
}

// Verify checks a received request as a receiver should: the three headers are there, the timestamp is not further
// than tolerance from now in either direction, and at least one signature matches at least one key. body is the raw
// body. Signatures of unknown schemes are passed over, as the specification asks.
func Verify(keys []Key, header http.Header, body []byte, now time.Time, tolerance time.Duration) error {
	if len(keys) == 0 {
		return ErrNoKeys
	}

	id, timestamp, signatures := header.Get(HeaderID), header.Get(HeaderTimestamp), header.Get(HeaderSignature)
	if id == "" || timestamp == "" || signatures == "" {
		return ErrMissingHeaders
	}

	seconds, err := strconv.ParseUint(timestamp, 10, 40) // 40 bits: no overflow below, and 34,000 years
	if err != nil {
		return fmt.Errorf("%w: the timestamp is not a whole number of seconds", ErrMissingHeaders)
	}
	age := now.Sub(time.Unix(int64(seconds), 0))
	if age > tolerance {
		return ErrTimestampTooOld
	}
	if age < -tolerance {
		return ErrTimestampTooNew
	}

	// The text of the header is signed, not the number: "0123" and "123" are different messages.
	prefix := id + "." + timestamp + "."
	for _, signature := range strings.Split(signatures, " ") {
		for _, key := range keys {
			if key.matches(signature, prefix, body) {
				return nil
			}
		}
	}

	return ErrNoMatch
}

// matches reports whether signature (`scheme,base64`) is the key's over prefix and body, in constant time for HMAC.
func (k Key) matches(signature, prefix string, body []byte) bool {
	scheme, encoded, ok := strings.Cut(signature, ",")
	if !ok || scheme != k.scheme {
		return false
	}

	if k.scheme == SchemeHMAC {
		want, err := k.sign(prefix, body)
		return err == nil && hmac.Equal([]byte(want), []byte(signature))
	}

	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(k.public) != ed25519.PublicKeySize {
		return false
	}

	return ed25519.Verify(k.public, signedContent(prefix, body), raw)
}

func signedContent(prefix string, body []byte) []byte {
	content := make([]byte, 0, len(prefix)+len(body))
	content = append(content, prefix...)

	return append(content, body...)
}
