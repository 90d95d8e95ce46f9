package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostileOf repeats a payload until it is as long as size, as a list of it.
func hostileOf(t *testing.T, name string, size int) []byte {
	t.Helper()
	one, err := os.ReadFile("../app/testdata/payloads/" + name)
	require.NoError(t, err)
	one = bytes.TrimSpace(one)
	return append(append([]byte("["), bytes.Repeat(append(one, ','), size/(len(one)+1))...), "null]"...)
}

// A payload of 10 MB, made of what is hostile, is a page that is small and legible, and a download that is all of it.
func TestALargePayloadIsASmallPage(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	seedHostile(p)
	p.exec("SELECT setval(pg_get_serial_sequence('event', 'id'), 100)")
	payloads := map[string][]byte{
		"xss":     hostileOf(t, "nasty_xss.json", 10<<20),
		"names":   hostileOf(t, "nasty_unicode_names.json", 10<<20),
		"nothing": bytes.Repeat([]byte{0}, 10<<20),
		"closing": bytes.Repeat([]byte("]}"), 5<<20),
		"nesting": bytes.Repeat([]byte(`[{"a":`), 10<<20/6),
		"astral":  append([]byte(`["`), bytes.Repeat([]byte("𝔘"), 10<<20/4)...),
	}
	for id, payload := range payloads {
		p.exec("INSERT INTO event (event_id, type, subject, payload, occurred_at) VALUES ($1, 'shipment.updated', 'large', $2, now())", id, payload)
		p.exec(`INSERT INTO delivery (id, event_id, destination_id, lane_id, state, expires_at, settled_at) SELECT 2000 + id, id, 1, 1, 'delivered', now(), now() FROM event WHERE event_id = $1`, id)
		require.Equal(t, http.StatusSeeOther, p.post(eventPath(id, "/reveal")).Status)
	}
	small := func(path string, most int) string {
		res := p.get(path)
		require.Equal(t, http.StatusOK, res.Status, path)
		require.Less(t, len(res.Body), most, path)
		return res.Body
	}
	for id, payload := range payloads {
		page := small(eventPath(id), 1_500_000)
		require.NotContains(t, page, "<img", id)
		require.NotContains(t, page, "<script>", id)
		require.NotContains(t, page, "\u202e", id)
		require.NotContains(t, page, "\ufffd", "%s: no character is cut in two", id)
		require.Contains(t, page, "the download has all of it", id)
		require.Contains(t, page, "Only its beginning was looked at", id)
		require.Equal(t, string(payload), p.get(eventPath(id, "/payload")).Body, id)
		require.Equal(t, id == "nothing" || id == "names", strings.Contains(page, "is shown by its number"), id)
	}
	require.Contains(t, p.get(eventPath("xss")).Body, "\n    &#34;carrier&#34;: &#34;&lt;/script&gt;&lt;img", "its beginning is laid out")
	for _, path := range []string{"/", "/events", "/events?q=xss", "/deliveries", "/deliveries?event=xss", subjectPath("large", "")} {
		small(path, 300_000)
	}
	small("/deliveries/dlv_1000", 300_000)
}

func TestWhatIsCutIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "a": "a", "aé": "aé", "a\xc3": "a", "\xf0\x9d\x94": "", "𝔘": "𝔘", "\x80\x80\x80\x80\x80": "\x80\x80\x80\x80\x80", "a\xff": "a\xff"} {
		require.Equal(t, want, string(wholeRunes([]byte(text))), "%q", text)
	}
	var m payloadModel
	long, err := json.Marshal(strings.Split(strings.Repeat("a ", maxShownPayload/6), " "))
	require.NoError(t, err)
	require.Less(t, len(long), maxShownPayload)
	m.show(long, len(long))
	require.True(t, m.Cut, "what is whole as it was handed in, and too long once it is laid out")
	require.Empty(t, m.Note)
}
