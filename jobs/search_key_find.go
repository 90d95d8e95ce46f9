package jobs

import (
	"bytes"
	"encoding/json"
	"strings"
)

// findKeys reads a payload once and returns the strings and numbers that stand where the rules say, as far as it is JSON. It does not check
// the rest: what is broken somewhere else is still found by what is whole.
func findKeys(rules []keyRule, eventType string, payload []byte) []foundKey {
	wanted := rules[:0:0]
	for _, r := range rules {
		if r.matches(eventType) {
			wanted = append(wanted, r)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	f := keyFinder{rules: wanted, seen: map[foundKey]bool{}}
	for at := 0; at < len(payload) && len(f.found) < maxEventKeys; {
		switch c := payload[at]; {
		case c == '{' || c == '[' || c == '}' || c == ']':
			if !f.delimit(c) {
				return f.found
			}
			at++
		case c == '"':
			end := endOfString(payload, at)
			if end < 0 {
				return f.found
			}
			f.text(payload[at:end])
			at = end
		case c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z':
			end := at + 1
			for end < len(payload) && !bytes.ContainsRune(afterScalar, rune(payload[end])) {
				end++
			}
			// True, false and null are nothing to look for.
			if number := payload[at:end]; c < 'a' && len(bytes.Trim(number, "+-.0123456789eE")) == 0 {
				f.value(number, false)
			}
			f.key = f.inObject()
			at = end
		default:
			at++
		}
	}
	return f.found
}

// afterScalar are the bytes that end a number or a word.
var afterScalar = []byte(" \t\r\n,:]}[{\"")

// endOfString is the place after the string that begins at start, or -1.
func endOfString(doc []byte, start int) int {
	for at := start + 1; ; {
		next := bytes.IndexAny(doc[at:], `"\`)
		if next < 0 {
			return -1
		}
		if at += next; doc[at] == '"' {
			return at + 1
		}
		if at += 2; at > len(doc) {
			return -1
		}
	}
}

// keyFinder follows a document. Each open object or list has a step: the object's current key, or everyElement.
type keyFinder struct {
	rules []keyRule
	found []foundKey
	seen  map[foundKey]bool
	path  [][]byte
	kinds []byte
	key   bool // the next string is a key of the object that is open
}

// delimit opens or closes an object or a list; false where the document does not hang together.
func (f *keyFinder) delimit(c byte) bool {
	switch c {
	case '{':
		f.path, f.kinds, f.key = append(f.path, nil), append(f.kinds, c), true
	case '[':
		f.path, f.kinds, f.key = append(f.path, []byte(everyElement)), append(f.kinds, c), false
	default:
		last := len(f.kinds) - 1
		if last < 0 || f.kinds[last] != c-2 { // in ASCII each pair is two apart
			return false
		}
		f.path, f.kinds = f.path[:last], f.kinds[:last]
		f.key = f.inObject()
	}
	return true
}

func (f *keyFinder) inObject() bool { return len(f.kinds) > 0 && f.kinds[len(f.kinds)-1] == '{' }

// text takes a string with its quotation marks, a key or a value.
func (f *keyFinder) text(raw []byte) {
	if !f.key {
		f.value(raw, true)
		f.key = f.inObject()
		return
	}
	key := raw[1 : len(raw)-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		key = []byte(unquote(raw))
	}
	f.path[len(f.path)-1], f.key = key, false
}

func (f *keyFinder) value(raw []byte, quoted bool) {
	for _, r := range f.rules {
		if !r.at(f.path) || len(f.found) >= maxEventKeys {
			continue
		}
		text := string(raw)
		if quoted {
			text = unquote(raw)
		}
		if text == "" || strings.ContainsRune(text, 0) { // what Postgres cannot hold nobody can look for
			return
		}
		if key := (foundKey{r.label, CutKey(text)}); !f.seen[key] {
			f.seen[key] = true
			f.found = append(f.found, key)
		}
	}
}

// unquote is a string's text; empty where it is none. What is not UTF-8 in it is replaced, as everywhere in Go.
func unquote(raw []byte) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}
