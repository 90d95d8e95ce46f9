package jobs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
)

// Limits of what is kept of an event for searching.
const (
	maxKeyBytes   = 200
	maxEventKeys  = 20
	maxSearchKeys = 100
	keysRefresh   = 5 * time.Second
)

// MaxSearchKeys is how many search keys there may be.
const MaxSearchKeys = maxSearchKeys

// SearchPath is where in a payload a value stands: keys of objects, and "[]" for every element of a list.
type SearchPath []string

// everyElement is the step into a list; a key of that name is written in quotes and cannot be meant.
const everyElement = "[]"

// ParseSearchPath reads a path such as tracking.number, items[].sku or "odd.key".id. Its error is an *InvalidError for field "path".
func ParseSearchPath(text string) (SearchPath, error) {
	refuse := func(problem string) (SearchPath, error) { return nil, &InvalidError{"path", problem} }
	if err := checkText("path", text, 200); err != nil {
		return nil, err
	}
	var path SearchPath
	for rest := text; ; {
		var step string
		if strings.HasPrefix(rest, `"`) {
			end := strings.Index(rest[1:], `"`)
			if end < 0 {
				return refuse("has a quotation mark without its other")
			}
			step, rest = rest[1:end+1], rest[end+2:]
		} else {
			end := strings.IndexAny(rest, `.["`)
			if end < 0 {
				end = len(rest)
			}
			step, rest = rest[:end], rest[end:]
		}
		if step != "" {
			path = append(path, step)
		} else if len(path) > 0 || !strings.HasPrefix(rest, "[") {
			return refuse("want keys with dots between them, such as tracking.number or items[].sku")
		}
		for strings.HasPrefix(rest, everyElement) {
			path, rest = append(path, everyElement), rest[2:]
		}
		if rest == "" {
			break
		}
		if rest[0] != '.' {
			return refuse("want keys with dots between them, and [] for every element of a list; a key with other signs is written in quotation marks")
		}
		rest = rest[1:]
	}
	if len(path) > 20 {
		return refuse("goes deeper than 20 steps")
	}
	return path, nil
}

// CheckSearchKey says what is wrong with a search key: an *InvalidError for the field type, path or label.
func CheckSearchKey(pattern, path, label string) error {
	if pattern != "*" {
		if err := checkType(strings.TrimSuffix(pattern, ".*")); err != nil {
			return &InvalidError{"type", "want a type of event, shipment.* for everything below, or * for every type"}
		}
	}
	if _, err := ParseSearchPath(path); err != nil {
		return err
	}
	for i, r := range label {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || i > 0 && (r == '_' || r == '-') {
			continue
		}
		return &InvalidError{"label", "want small letters, digits, _ and -, such as order or tracking"}
	}
	if label == "" || len(label) > 40 {
		return &InvalidError{"label", "want 1 to 40 small letters, digits, _ and -"}
	}
	return nil
}

// CutKey is what is kept of a value, and what a search for it looks for: its first 200 bytes, whole characters.
func CutKey(value string) string {
	if len(value) <= maxKeyBytes {
		return value
	}
	end := maxKeyBytes
	for !utf8.RuneStart(value[end]) {
		end--
	}
	return value[:end]
}

// foundKey is one value that an event can be searched by.
type foundKey struct{ label, value string }

type keyRule struct {
	pattern string
	path    SearchPath
	label   string
}

// matches as subscriptions do: exact, '*', and 'shipment.*' for everything below.
func (r keyRule) matches(eventType string) bool {
	return r.pattern == "*" || r.pattern == eventType || (strings.HasSuffix(r.pattern, ".*") && strings.HasPrefix(eventType, r.pattern[:len(r.pattern)-1]))
}

// searchKeys looks into the payloads of new events for what operators have declared. With nothing declared it costs one comparison for a
// batch, and a query every few seconds, which is also how long another process takes to hear of a change.
type searchKeys struct {
	queries *dbsqlc.Queries
	rules   atomic.Pointer[[]keyRule]
	mu      sync.Mutex // held by who loads them
	loaded  atomic.Int64
}

// index writes down what the events that are new can be searched by, in the transaction that inserts them.
func (k *searchKeys) index(ctx context.Context, tx pgx.Tx, events []Event, fresh []int64) error {
	if len(fresh) == 0 {
		return nil
	}
	if err := k.refresh(ctx, tx); err != nil {
		return err
	}
	rules := k.rules.Load()
	if rules == nil || len(*rules) == 0 {
		return nil
	}
	p := dbsqlc.EventKeyInsertManyParams{Fresh: fresh}
	for i := range events {
		for _, found := range findKeys(*rules, events[i].Type, events[i].Payload) {
			p.EventIds = append(p.EventIds, events[i].ID)
			p.Labels = append(p.Labels, found.label)
			p.Vals = append(p.Vals, found.value)
		}
	}
	if len(p.EventIds) == 0 {
		return nil
	}
	if err := k.queries.EventKeyInsertMany(ctx, tx, p); err != nil {
		return fmt.Errorf("index events for searching: %w", err)
	}
	return nil
}

func (k *searchKeys) refresh(ctx context.Context, tx pgx.Tx) error {
	if time.Now().UnixNano()-k.loaded.Load() < int64(keysRefresh) || !k.mu.TryLock() {
		return nil
	}
	defer k.mu.Unlock()
	rows, err := k.queries.SearchKeyList(ctx, tx)
	if err != nil {
		return fmt.Errorf("load search keys: %w", err)
	}
	rules := make([]keyRule, 0, len(rows))
	for _, row := range rows {
		if path, err := ParseSearchPath(row.Path); err == nil {
			rules = append(rules, keyRule{row.TypePattern, path, row.Label})
		}
	}
	k.rules.Store(&rules)
	k.loaded.Store(time.Now().UnixNano())
	return nil
}

func (r keyRule) at(path [][]byte) bool {
	if len(r.path) != len(path) {
		return false
	}
	for i := len(path) - 1; i >= 0; i-- { // the last step differs soonest
		if string(path[i]) != r.path[i] {
			return false
		}
	}
	return true
}
