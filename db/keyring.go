package db

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

const (
	settingSecretKey = "WEIR_SECRET_KEY"

	sealVersion = 1  // first byte of everything sealed
	keySize     = 32 // bytes; AES-256
	maxKeyID    = 32 // bytes
)

// ErrCannotOpen is what [Keyring.Open] returns for a sealed value that is damaged, belongs to another row, or was
// sealed with a key that the ring does not have. The message says which; none of them holds key or plaintext.
var ErrCannotOpen = errors.New("cannot open the stored secret")

// Keyring seals secrets before they are stored, and opens them. The first key seals, all keys open, so a key is
// rotated by putting a new one in front and sealing everything again. It is safe for concurrent use and never prints
// a key.
type Keyring struct {
	keys []ringKey
}

type ringKey struct {
	id   string
	aead cipher.AEAD // with a random nonce in front of each ciphertext
}

// GenerateKey returns a fresh key as WEIR_SECRET_KEY takes it: 32 random bytes in base64, without an id.
func GenerateKey() string {
	raw := make([]byte, keySize)
	rand.Read(raw) // crypto/rand.Read never fails: it ends the program instead

	return base64.StdEncoding.EncodeToString(raw)
}

// ParseKeyring reads WEIR_SECRET_KEY: one or more keys separated by commas, each `id:base64` or only base64, of 32
// bytes. A key without an id gets one that is derived from it. Ids are lower-case letters, digits, '-' and '_'. Errors
// name the entry by its number, counted from 1, and never repeat it.
func ParseKeyring(s string) (*Keyring, error) {
	if strings.TrimSpace(s) == "" {
		return nil, fmt.Errorf("%s is empty; `openssl rand -base64 32` makes a key", settingSecretKey)
	}

	ring := &Keyring{}
	for i, entry := range strings.Split(s, ",") {
		key, err := parseKey(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("%s, key %d: %w", settingSecretKey, i+1, err)
		}
		if ring.find(key.id) != nil {
			return nil, fmt.Errorf("%s, key %d: its id is used twice", settingSecretKey, i+1)
		}
		ring.keys = append(ring.keys, key)
	}

	return ring, nil
}

func parseKey(entry string) (ringKey, error) {
	id, encoded, named := strings.Cut(entry, ":")
	if !named {
		id, encoded = "", entry
	}

	raw, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return ringKey{}, errors.New("not standard base64") // err may quote the key
	}
	if len(raw) != keySize {
		return ringKey{}, fmt.Errorf("a key has %d bytes, this has %d; `openssl rand -base64 32` makes one", keySize, len(raw))
	}
	if !named {
		if id, err = deriveID(raw); err != nil {
			return ringKey{}, err
		}
	}
	if id == "" || len(id) > maxKeyID || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return ringKey{}, fmt.Errorf("its id must have 1 to %d lower-case letters, digits, '-' or '_'", maxKeyID)
	}

	aead, err := newAEAD(raw)
	if err != nil {
		return ringKey{}, err
	}

	return ringKey{id: id, aead: aead}, nil
}

// deriveID returns an id that tells keys apart and nothing about them: 8 hexadecimal digits of a hash of an HKDF
// output (RFC 5869) that serves no other purpose.
func deriveID(raw []byte) (string, error) {
	derived, err := hkdf.Key(sha256.New, raw, nil, "weir key id v1", keySize)
	if err != nil {
		return "", fmt.Errorf("derive key id: %w", err)
	}
	sum := sha256.Sum256(derived)

	return hex.EncodeToString(sum[:4]), nil
}

// newAEAD returns AES-256-GCM under a key derived for this one purpose. Random 96-bit nonces are safe for some 2^32
// values per key (NIST SP 800-38D §8.3), far more than there are secrets.
func newAEAD(raw []byte) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, raw, nil, "weir secrets at rest v1", keySize)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("set up cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("set up cipher: %w", err)
	}

	return aead, nil
}

// Seal returns plain sealed with the first key. aad names the place where the result will be stored, such as
// "destination_secret:dst_1"; the same text is needed to open it, so a value copied into another row stays shut.
//
// The form is: version (1 byte), length of the key id (1 byte), key id, nonce (12 bytes), ciphertext with tag.
func (k *Keyring) Seal(plain []byte, aad string) []byte {
	key := k.keys[0]
	header := append([]byte{sealVersion, byte(len(key.id))}, key.id...)

	return key.aead.Seal(header, nil, plain, bind(header, aad))
}

// Open returns what Seal was given. Any failure is an [ErrCannotOpen].
func (k *Keyring) Open(sealed []byte, aad string) ([]byte, error) {
	id, header, ciphertext, err := split(sealed)
	if err != nil {
		return nil, err
	}
	key := k.find(id)
	if key == nil {
		return nil, fmt.Errorf("%w: it was sealed with key %q, which %s does not list", ErrCannotOpen, id, settingSecretKey)
	}
	plain, err := key.aead.Open(nil, nil, ciphertext, bind(header, aad))
	if err != nil {
		return nil, fmt.Errorf("%w: it is damaged, belongs to another row, or key %q has changed", ErrCannotOpen, id)
	}

	return plain, nil
}

// SealedWithFirst reports whether sealed needs no new sealing after a rotation.
func (k *Keyring) SealedWithFirst(sealed []byte) bool {
	id, _, _, err := split(sealed)

	return err == nil && id == k.keys[0].id
}

// split takes a sealed value apart. The key id is checked, because it goes into error texts.
func split(sealed []byte) (id string, header, ciphertext []byte, err error) {
	if len(sealed) < 2 || sealed[0] != sealVersion || len(sealed) < 2+int(sealed[1]) {
		return "", nil, nil, fmt.Errorf("%w: it is not in the form that Weir writes", ErrCannotOpen)
	}
	end := 2 + int(sealed[1])

	return string(sealed[2:end]), sealed[:end], sealed[end:], nil
}

// bind returns the associated data: the header, whose length it states itself, and the row.
func bind(header []byte, aad string) []byte {
	return append(append(make([]byte, 0, len(header)+len(aad)), header...), aad...)
}

func (k *Keyring) find(id string) *ringKey {
	for i := range k.keys {
		if k.keys[i].id == id {
			return &k.keys[i]
		}
	}

	return nil
}

// IDs returns the ids of the keys, the sealing one first.
func (k *Keyring) IDs() []string {
	ids := make([]string, len(k.keys))
	for i, key := range k.keys {
		ids[i] = key.id
	}

	return ids
}

// String, Format and LogValue show the ids only. Format is needed because verbs such as %d do not ask String.
func (k *Keyring) String() string             { return "db.Keyring(" + strings.Join(k.IDs(), ", ") + ")" }
func (k *Keyring) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }
func (k *Keyring) LogValue() slog.Value       { return slog.StringValue(k.String()) }
