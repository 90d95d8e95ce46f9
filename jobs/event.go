package jobs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// MaxPayload is the default limit of a payload, in bytes of what will be sent.
const MaxPayload = 256 << 10

// DefaultPriority is in the middle of 1 (first) to 4 (last).
const DefaultPriority = 2

// Event is something that happened, once. ID may be empty: it is then made from type, subject and version, or at random without a
// version. Payload holds the exact bytes to deliver and is never changed. The zero times mean: now, and each destination's time to live.
type Event struct {
	ID         string
	Tenant     string
	Type       string
	Subject    string
	Version    *int64
	Payload    []byte
	OccurredAt time.Time
	ExpiresAt  time.Time
	Priority   int16

	onlyDestination int64 // a test event: for this destination, whatever it subscribes to
}

// ParseEvent reads one event from its JSON envelope: {id?, type, tenant?, subject, version?, payload, occurred_at?, expires_at?, priority?}.
//
// The payload's bytes are those between the colon and the comma or brace that ends the member, without leading white space: white space
// after the value stays, so that a file which ends in a newline comes out as it went in. Where the payload cannot stand in a line of
// NDJSON as it is, payload_base64 takes its place. An unknown or repeated field, or a value of the wrong kind, is an *InvalidError.
func ParseEvent(data []byte) (Event, error) {
	var e Event
	if !utf8.Valid(data) {
		return e, &InvalidError{"body", "is not valid UTF-8; JSON has to be (RFC 8259, section 8.1)"}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return e, &InvalidError{"body", "want one JSON object {\"type\": …, \"subject\": …, \"payload\": …}"}
	}
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return e, syntaxError("body", err)
		}
		name, _ := tok.(string)
		if seen[name] {
			return e, &InvalidError{name, "is given twice"}
		}
		seen[name] = true
		if err := e.setField(dec, data, name); err != nil {
			return e, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return e, syntaxError("body", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return e, &InvalidError{"body", "has something after the JSON object"}
	}
	if seen["payload"] && seen["payload_base64"] {
		return e, &InvalidError{"payload_base64", "give either payload or payload_base64"}
	}
	if !seen["payload"] && !seen["payload_base64"] {
		return e, &InvalidError{"payload", "is missing"}
	}
	return e, nil
}

func (e *Event) setField(dec *json.Decoder, data []byte, name string) error {
	switch name {
	case "id":
		return decodeField(dec, name, "a string", &e.ID)
	case "tenant":
		return decodeField(dec, name, "a string", &e.Tenant)
	case "type":
		return decodeField(dec, name, "a string", &e.Type)
	case "subject":
		return decodeField(dec, name, "a string", &e.Subject)
	case "version":
		return decodeField(dec, name, "a whole number", &e.Version)
	case "priority":
		return decodeField(dec, name, "a whole number from 1 (first) to 4 (last)", &e.Priority)
	case "occurred_at":
		return decodeTime(dec, name, &e.OccurredAt)
	case "expires_at":
		return decodeTime(dec, name, &e.ExpiresAt)
	case "payload":
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return syntaxError(name, err)
		}
		end := int(dec.InputOffset())
		start := end - len(raw)
		for end < len(data) && (data[end] == ' ' || data[end] == '\t' || data[end] == '\r' || data[end] == '\n') {
			end++
		}
		e.Payload = bytes.Clone(data[start:end])
		return nil
	case "payload_base64":
		var text string
		if err := decodeField(dec, name, "a string", &text); err != nil {
			return err
		}
		payload, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return &InvalidError{name, "is not standard base64 (RFC 4648, section 4)"}
		}
		e.Payload = payload
		return nil
	default:
		return &InvalidError{printable(name), "is not a field of an event; known are id, type, tenant, subject, version, payload, payload_base64, occurred_at, expires_at, priority"}
	}
}

func decodeField(dec *json.Decoder, name, want string, into any) error {
	err := dec.Decode(into)
	var typeError *json.UnmarshalTypeError
	if errors.As(err, &typeError) {
		return &InvalidError{name, "want " + want}
	}
	if err != nil {
		return syntaxError(name, err)
	}
	return nil
}

func decodeTime(dec *json.Decoder, name string, into *time.Time) error {
	var text *string
	if err := decodeField(dec, name, "an RFC 3339 time such as \"2026-11-30T14:03:00Z\"", &text); err != nil || text == nil {
		return err
	}
	at, err := time.Parse(time.RFC3339Nano, *text)
	if err != nil {
		return &InvalidError{name, "want an RFC 3339 time with a zone, such as \"2026-11-30T14:03:00Z\""}
	}
	*into = at
	return nil
}

// syntaxError says where the JSON breaks, without quoting it: the text around may be payload.
func syntaxError(field string, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return &InvalidError{field, fmt.Sprintf("is not valid JSON near byte %d: %s", syntax.Offset, syntax.Error())}
	}
	return &InvalidError{field, "is not valid JSON: it ends too early"}
}

// normalize fills in what was left out and checks the rest; limit is the payload's, in bytes. now is the time of intake.
func (e *Event) normalize(now time.Time, limit int) error {
	if err := checkType(e.Type); err != nil {
		return err
	}
	if err := checkText("tenant", e.Tenant, 100); err != nil {
		return err
	}
	if strings.ContainsAny(e.Tenant, "/ ") {
		return &InvalidError{"tenant", "must not contain a slash or a space"}
	}
	if err := checkText("subject", e.Subject, 255); err != nil {
		return err
	}
	if e.Version != nil && *e.Version < 0 {
		return &InvalidError{"version", "must not be negative"}
	}
	if e.Priority == 0 {
		e.Priority = DefaultPriority
	}
	if e.Priority < 1 || e.Priority > 4 {
		return &InvalidError{"priority", "want 1 (first) to 4 (last)"}
	}
	if err := e.checkTimes(now); err != nil {
		return err
	}
	if err := checkPayload(e.Payload, limit); err != nil {
		return err
	}
	if e.ID == "" {
		e.ID = e.derivedID()
	}
	return checkID(e.ID)
}

func (e *Event) checkTimes(now time.Time) error {
	if e.OccurredAt.IsZero() {
		e.OccurredAt = now
	}
	if y := e.OccurredAt.Year(); y < 1 || y > 9999 {
		return &InvalidError{"occurred_at", "want a year from 0001 to 9999"}
	}
	if e.ExpiresAt.IsZero() {
		return nil
	}
	if !e.ExpiresAt.After(now) {
		return &InvalidError{"expires_at", "is in the past, so the event would never be sent"}
	}
	if e.ExpiresAt.Sub(now) > 366*24*time.Hour {
		return &InvalidError{"expires_at", "want at most a year from now"}
	}
	return nil
}

// derivedID is type:subject:vN, after tenant/ where there is one (neither tenant nor type can hold a slash or a colon, so two facts never
// share an id), and random without a version.
func (e *Event) derivedID() string {
	if e.Version == nil {
		return "evt_" + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")
	}
	id := fmt.Sprintf("%s:%s:v%d", e.Type, e.Subject, *e.Version)
	if e.Tenant != "" {
		id = e.Tenant + "/" + id
	}
	// The id is an HTTP header, and part of what is signed.
	return escapeID(id)
}

// escapeID percent-encodes what a header cannot carry, and the percent sign, so that two ids never become one.
func escapeID(id string) string {
	var b strings.Builder
	for _, c := range []byte(id) {
		if c < '!' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

func checkType(t string) error {
	if t == "" {
		return &InvalidError{"type", "is missing; want something like \"shipment.updated\""}
	}
	if len(t) > 100 {
		return &InvalidError{"type", "is longer than 100 characters"}
	}
	for part := range strings.SplitSeq(t, ".") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return &InvalidError{"type", "want letters, digits, _ and - in parts joined by dots, such as \"shipment.updated\""}
		}
	}
	return nil
}

// CheckPattern says whether p can be a subscription's type pattern: "*", a type, or a type's beginning and ".*".
func CheckPattern(p string) error {
	if p == "*" {
		return nil
	}
	if err := checkType(strings.TrimSuffix(p, ".*")); err != nil {
		return &InvalidError{"types", "want \"*\", a type such as \"shipment.updated\", or \"shipment.*\" for all below it"}
	}
	return nil
}

func checkText(field, s string, limit int) error {
	if !utf8.ValidString(s) {
		return &InvalidError{field, "is not valid UTF-8"}
	}
	if len(s) > limit {
		return &InvalidError{field, fmt.Sprintf("is longer than %d bytes", limit)}
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return &InvalidError{field, "must not contain control characters"}
	}
	return nil
}

func checkID(id string) error {
	if len(id) > 400 {
		return &InvalidError{"id", "is longer than 400 bytes"}
	}
	for _, c := range []byte(id) {
		if c < '!' || c > '~' {
			return &InvalidError{"id", "want printable ASCII without spaces: it is sent as the webhook-id header"}
		}
	}
	return nil
}

func checkPayload(payload []byte, limit int) error {
	if len(payload) == 0 {
		return &InvalidError{"payload", "is missing"}
	}
	if len(payload) > limit {
		return &InvalidError{"payload", fmt.Sprintf("is %d bytes, the limit is %d", len(payload), limit)}
	}
	if bytes.HasPrefix(payload, []byte("\xef\xbb\xbf")) {
		return &InvalidError{"payload", "starts with a byte order mark, which JSON must not (RFC 8259, section 8.1)"}
	}
	if !utf8.Valid(payload) {
		return &InvalidError{"payload", "is not valid UTF-8; JSON has to be (RFC 8259, section 8.1)"}
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return syntaxError("payload", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return &InvalidError{"payload", "has something after the JSON text"}
	}
	return nil
}

func printable(name string) string {
	if len(name) > 60 {
		name = name[:60] + "…"
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '.'
		}
		return r
	}, name), ".")
}
