package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)

	t.Run("are taken once, and kept to the byte", func(t *testing.T) {
		payload := `{"b": 820982911946154508,  "a":1.0, "a":"\u00e9\ud83d\ude00", "z":null}`
		body := `{"type": "shipment.updated", "subject": "1Z/99 9", "tenant": "acme", "version": 3, "payload": ` + payload + `}`
		a := b.call(t, b.publish, "POST", "/api/v1/events", body)
		require.Equal(t, 202, a.status, "%s", a.body)
		id := a.field(t, "id").(string)
		require.Equal(t, false, a.field(t, "duplicate"))
		require.Equal(t, true, b.ok(t, 202, "POST", "/events", body).field(t, "duplicate"))

		got := b.ok(t, 200, "GET", "/events/"+url.PathEscape(id)+"/payload", "")
		require.Equal(t, payload, string(got.body))
		require.Equal(t, "application/json", got.header.Get("Content-Type"))
		require.Contains(t, got.header.Get("Content-Disposition"), "attachment")
		require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))

		got = b.ok(t, 200, "GET", "/events/"+url.PathEscape(id), "")
		require.Equal(t, id, got.field(t, "id"))
		require.Equal(t, "1Z/99 9", got.field(t, "subject"))
		require.Equal(t, true, got.field(t, "settled"), "nobody is subscribed")
		require.Empty(t, got.field(t, "deliveries"))
	})

	t.Run("with the same id and other bytes are a conflict", func(t *testing.T) {
		b.ok(t, 202, "POST", "/events", `{"id": "same", "type": "a.b", "subject": "", "payload": {"n": 1}}`)
		a := b.ok(t, 409, "POST", "/events", `{"id": "same", "type": "a.b", "subject": "", "payload": {"n": 2}}`)
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	})

	t.Run("are refused by field", func(t *testing.T) {
		b.refused(t, "POST", "/events", `{"subject": "x", "payload": {}}`, "type", "missing")
		b.refused(t, "POST", "/events", `{"type": "a b", "subject": "x", "payload": {}}`, "type", "want")
		b.refused(t, "POST", "/events", `{"type": "a", "subject": "x"}`, "payload", "missing")
		b.refused(t, "POST", "/events", `{"type": "a", "subject": "x", "payload": {}, "expires_at": "yesterday"}`, "expires_at", "RFC 3339")
		b.refused(t, "POST", "/events", "", "body", "want one JSON object")
		a := b.refused(t, "POST", "/events", `{"type": "a", "subject": "x", "payload": {"s3cret": tru}}`, "payload", "not valid JSON")
		require.NotContains(t, string(a.body), "s3cret")
	})

	t.Run("may be exactly as large as the limit", func(t *testing.T) {
		event := func(payload string) string {
			return `{"type": "big", "subject": "x", "payload": ` + payload + `}`
		}
		for _, unit := range []string{"a", "😀"} {
			room := 262_144 - 2
			exact := `"` + strings.Repeat(unit, room/len(unit)) + strings.Repeat("b", room%len(unit)) + `"`
			require.Len(t, exact, 262_144)
			b.ok(t, 202, "POST", "/events", event(exact))
			b.refused(t, "POST", "/events", event(strings.Replace(exact, `"`, `"c`, 1)), "payload", "262144")
		}
		a := b.ok(t, 413, "POST", "/events", event(`"`+strings.Repeat("a", 500_000)+`"`))
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
		require.Contains(t, a.field(t, "detail"), fmt.Sprint(b.server.envelopeLimit()+1))
	})

	t.Run("are listed by what they are, newest first", func(t *testing.T) {
		for i := range 7 {
			kind := []string{"order.paid", "order.sent"}[i%2]
			b.ok(t, 202, "POST", "/events", fmt.Sprintf(`{"id": "o%d", "type": %q, "subject": "order-1", "tenant": "t%d", "payload": %d}`, i, kind, i%3, i))
		}
		var got []string
		for cursor := ""; ; {
			a := b.ok(t, 200, "GET", "/events?subject=order-1&limit=3&cursor="+cursor, "")
			var page Page[Event]
			require.NoError(t, json.Unmarshal(a.body, &page))
			for _, event := range page.Items {
				got = append(got, event.ID)
			}
			if page.NextCursor == nil {
				break
			}
			cursor = *page.NextCursor
		}
		require.Equal(t, []string{"o6", "o5", "o4", "o3", "o2", "o1", "o0"}, got)
		require.Len(t, b.ok(t, 200, "GET", "/events?type=order.sent", "").field(t, "items"), 3)
		require.Len(t, b.ok(t, 200, "GET", "/events?subject=order-1&type=order.paid&tenant=t0", "").field(t, "items"), 2)
		require.Empty(t, b.ok(t, 200, "GET", "/events?subject=order-2", "").field(t, "items"))
		b.ok(t, 404, "GET", "/events/nothing", "")
		b.ok(t, 404, "GET", "/events/nothing/payload", "")
	})
}

func TestEventBatch(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)

	post := func(t *testing.T, body string) []batchLine {
		t.Helper()
		a := b.call(t, b.publish, "POST", "/api/v1/events/batch", body)
		require.Equal(t, 200, a.status, "%s", a.body)
		require.Equal(t, "application/x-ndjson", a.header.Get("Content-Type"))
		var lines []batchLine
		for dec := json.NewDecoder(bytes.NewReader(a.body)); dec.More(); {
			var line batchLine
			require.NoError(t, dec.Decode(&line))
			lines = append(lines, line)
		}
		return lines
	}
	event := func(id string) string {
		return fmt.Sprintf(`{"id": %q, "type": "a.b", "subject": "s", "payload": {"id": %q}}`, id, id)
	}

	t.Run("answers each line, and a bad one does not stop the others", func(t *testing.T) {
		lines := post(t, "\n"+event("one")+"\r\n  \n{\"s3cret\n"+event("two")+"\n"+event("one")+"\n"+
			`{"id": "one", "type": "a.b", "subject": "s", "payload": 5}`+"\n"+event("three")) // the last without an end of line
		require.Len(t, lines, 6)
		require.Equal(t, []int{2, 4, 5, 6, 7, 8}, []int{lines[0].Line, lines[1].Line, lines[2].Line, lines[3].Line, lines[4].Line, lines[5].Line})
		require.Equal(t, []string{"one", "", "two", "one", "", "three"}, []string{lines[0].ID, lines[1].ID, lines[2].ID, lines[3].ID, lines[4].ID, lines[5].ID})
		require.False(t, *lines[0].Duplicate)
		require.Equal(t, 400, lines[1].Error.Status)
		require.NotContains(t, lines[1].Error.Detail, "s3cret")
		require.True(t, *lines[3].Duplicate)
		require.Equal(t, 409, lines[4].Error.Status)
		require.False(t, *lines[5].Duplicate)
	})

	t.Run("skips a line that is too long, and goes on after it", func(t *testing.T) {
		long := `{"type": "a", "subject": "x", "payload": "` + strings.Repeat("a", b.server.envelopeLimit()) + `"}`
		lines := post(t, event("before")+"\n"+long+"\n"+event("after")+"\n")
		require.Len(t, lines, 3)
		require.Equal(t, "before", lines[0].ID)
		require.Equal(t, 413, lines[1].Error.Status)
		require.Contains(t, lines[1].Error.Detail, fmt.Sprint(b.server.envelopeLimit()))
		require.Equal(t, "after", lines[2].ID)
	})

	t.Run("takes ten thousand lines and answers the rest with one", func(t *testing.T) {
		var body strings.Builder
		for i := range maxBatchLines + 5 {
			body.WriteString(event(fmt.Sprintf("many-%d", i)) + "\n")
		}
		lines := post(t, body.String())
		require.Len(t, lines, maxBatchLines+1)
		for i, line := range lines[:maxBatchLines] {
			require.Equal(t, fmt.Sprintf("many-%d", i), line.ID)
			require.Equal(t, i+1, line.Line)
		}
		require.Equal(t, 413, lines[maxBatchLines].Error.Status)
		require.Equal(t, maxBatchLines+1, lines[maxBatchLines].Line)
		var n int
		require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT count(*) FROM event WHERE event_id LIKE 'many-%'").Scan(&n))
		require.Equal(t, maxBatchLines, n)
	})

	t.Run("answers a line before the next one is sent", func(t *testing.T) {
		reader, writer := io.Pipe()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/api/v1/events/batch", reader)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+b.publish)
		go func() { _, _ = io.WriteString(writer, event("slow-1")+"\n") }()
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		answers := bufio.NewScanner(response.Body)
		require.True(t, answers.Scan())
		require.Contains(t, answers.Text(), "slow-1")
		_, err = io.WriteString(writer, event("slow-2")+"\n")
		require.NoError(t, err)
		require.True(t, answers.Scan())
		require.Contains(t, answers.Text(), "slow-2")
		require.NoError(t, writer.Close())
		require.False(t, answers.Scan())
		require.NoError(t, answers.Err())
	})

	t.Run("says which line was cut off, and keeps those before it", func(t *testing.T) {
		reader, writer := io.Pipe()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/api/v1/events/batch", reader)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+b.publish)
		go func() {
			_, _ = io.WriteString(writer, event("cut-1")+"\n"+`{"id": "cut-2", "ty`)
			_ = writer.CloseWithError(io.ErrUnexpectedEOF)
		}()
		response, err := http.DefaultClient.Do(request)
		if err == nil { // whether the answer still arrives is up to the connection
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		require.Eventually(t, func() bool { return b.do(t, "GET", "/events/cut-1", "").status == 200 }, eventually, tick)
		b.ok(t, 404, "GET", "/events/cut-2", "")
	})
}

func TestReadLine(t *testing.T) {
	t.Parallel()
	reader := bufio.NewReaderSize(strings.NewReader("short\n"+strings.Repeat("x", 100)+"\n\n exactly10 \r\nlast"), 16)
	for _, want := range []struct {
		line    string
		tooLong bool
		end     bool
	}{{"short", false, false}, {"", true, false}, {"", false, false}, {"exactly10", false, false}, {"last", false, true}} {
		line, tooLong, err := readLine(reader, 12)
		require.Equal(t, want.line, string(line))
		require.Equal(t, want.tooLong, tooLong)
		require.Equal(t, want.end, errors.Is(err, io.EOF))
	}
}
