package jobs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func rule(t testing.TB, pattern, path, label string) keyRule {
	t.Helper()
	parsed, err := ParseSearchPath(path)
	require.NoError(t, err, path)
	return keyRule{pattern, parsed, label}
}

func TestFindKeys(t *testing.T) {
	t.Parallel()
	rules := []keyRule{
		rule(t, "shipment.*", "tracking.number", "tracking"), rule(t, "*", "items[].sku", "sku"), rule(t, "order.paid", "id", "order"),
		rule(t, "*", "[].id", "order"), rule(t, "*", `"a.b"."c"`, "odd"), rule(t, "*", "matrix[][]", "cell"),
	}
	for payload, want := range map[string][]foundKey{
		`{"tracking": {"number": "1Z"}, "id": 7}`:                      {{"tracking", "1Z"}},
		`{"items": [{"sku": "a"}, {"sku": 12.50}, {"sku": "a"}]}`:      {{"sku", "a"}, {"sku", "12.50"}},
		`{"items": {"sku": "no list"}}`:                                nil,
		`[{"id": 900719925474099301}, {"x": {"id": 1}}]`:               {{"order", "900719925474099301"}},
		`{"a.b": {"c": "\u00fc"}}`:                                     {{"odd", "ü"}},
		`{"matrix": [["x", 1], [true, null, {}], ["y"]]}`:              {{"cell", "x"}, {"cell", "1"}, {"cell", "y"}},
		`{"tracking": {"number": "a"}, "tracking": {"number": "b"}}`:   {{"tracking", "a"}, {"tracking", "b"}},
		`{"tracking": {"number": "a\u0000b"}, "items": [{"sku": ""}]}`: nil,
		`{"items": [{"sku": "kept"}, {`:                                {{"sku", "kept"}},
		"{\"items\": [{\"sku\": 1\xff}, {\"sku\": \"a\xff\"}]}":        {{"sku", "a\uFFFD"}},
		`not json`:                  nil,
		`"just a string"`:           nil,
		``:                          nil,
		strings.Repeat("[", 50_000): nil,
		`{"tracking": ["x", {"number": "in a list"}], "items": [[{"sku": "too deep"}]]}`: nil,
	} {
		require.Equal(t, want, findKeys(rules, "shipment.updated", []byte(payload)), payload[:min(len(payload), 80)])
	}
	require.Equal(t, []foundKey{{"order", "7"}}, findKeys(rules, "order.paid", []byte(`{"id": 7, "tracking": {"number": "x"}}`)))
	require.Nil(t, findKeys(rules[:1], "shipments.updated", []byte(`{"tracking": {"number": "x"}}`)))

	many := `{"items": [` + strings.Repeat(`{"sku": "`+strings.Repeat("ü", 150)+`"},`, 3) + `{"sku": 0}`
	for i := range 40 {
		many += `,{"sku": ` + strings.Repeat("1", i+1) + `}`
	}
	found := findKeys(rules, "x", []byte(many+"]}"))
	require.Len(t, found, maxEventKeys, "no more are kept of one event")
	require.Equal(t, strings.Repeat("ü", 100), found[0].value, "two hundred bytes, whole characters")
}

func TestParseSearchPath(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", ".", "a.", ".a", "a..b", "a[0]", "a[", `"a`, `"a"b`, "a b\x00", strings.Repeat("a.", 30) + "a", strings.Repeat("a", 201), `""`} {
		_, err := ParseSearchPath(path)
		require.Error(t, err, path)
		require.ErrorContains(t, err, "path", path)
	}
	path, err := ParseSearchPath(`[].a[][]."b.c"[].d`)
	require.NoError(t, err)
	require.Equal(t, SearchPath{"[]", "a", "[]", "[]", "b.c", "[]", "d"}, path)
}

// What an installation that declares nothing pays, and what a payload of 4 KiB costs one that does.
func BenchmarkFindKeys(b *testing.B) {
	payload := []byte(`{"tracking": {"number": "1Z999AA10123456784"}, "events": [` + strings.Repeat(`{"at": "2026-11-30T12:00:00Z", "place": "Zürich"},`, 80) + `{}]}`)
	rules := []keyRule{rule(b, "shipment.*", "tracking.number", "tracking")}
	b.Run("nothing declared for the type", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			findKeys(rules, "order.paid", payload)
		}
	})
	b.Run("declared", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			findKeys(rules, "shipment.updated", payload)
		}
	})
}
