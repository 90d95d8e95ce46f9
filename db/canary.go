package db

import (
	"fmt"
	"strings"
)

const (
	canaryPlain = "weir canary"
	canaryAAD   = "canary"
)

// KeyMismatchError says that the database was set up with a key that the ring does not have. The program must not
// start: it could open no secret, and would seal new ones with another key.
type KeyMismatchError struct {
	DatabaseKeyID string   // the key that the database was set up with; empty when its mark cannot be read
	KeyIDs        []string // the keys of the ring
}

// Error is a sentence for the operator.
func (e *KeyMismatchError) Error() string {
	have := "key " + strings.Join(e.KeyIDs, ", ")
	if e.DatabaseKeyID == "" {
		return fmt.Sprintf("the database's key mark is damaged, so %s (%s) cannot be checked against it; restore it from a backup", settingSecretKey, have)
	}
	for _, id := range e.KeyIDs {
		if id == e.DatabaseKeyID {
			return fmt.Sprintf("%s has a key with the id %q, but it is not the key this database was set up with; set %s to the original key", settingSecretKey, id, settingSecretKey)
		}
	}

	return fmt.Sprintf("%s does not fit this database: its secrets are sealed with key %q, but only %s is set; add the original key to %s", settingSecretKey, e.DatabaseKeyID, have, settingSecretKey)
}

// NewCanary returns a value to be stored once, when a database is set up; see [Keyring.CheckCanary]. It is to be
// replaced when everything has been sealed again with a new first key.
func (k *Keyring) NewCanary() []byte { return k.Seal([]byte(canaryPlain), canaryAAD) }

// CheckCanary returns nil when the ring fits the database that sealed comes from, else a [*KeyMismatchError].
func (k *Keyring) CheckCanary(sealed []byte) error {
	plain, err := k.Open(sealed, canaryAAD)
	if err == nil && string(plain) == canaryPlain {
		return nil
	}
	id, _, _, _ := split(sealed) // "" when it cannot be read

	return &KeyMismatchError{DatabaseKeyID: id, KeyIDs: k.IDs()}
}
