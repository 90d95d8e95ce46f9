package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"weir/web/ui"
)

// Payloads hold other people's data, so pages mask them until somebody who may asks to see one. That is written to the audit log, and holds
// for that event and session for revealTime.
const (
	revealTime      = 10 * time.Minute
	maxRevealed     = 50
	maxShownPayload = 64 << 10
	maxLaidOut      = 1 << 20 // a larger payload is not checked and laid out, only shown as it is
	sessionRevealed = "revealed"
)

// payloadModel is an event's payload on a page, masked or revealed.
type payloadModel struct {
	Event    string // the producer's id
	Bytes    int
	Revealed bool
	May      bool   // who looks may reveal it
	Back     string // the page that shows it
	Raw      string
	LaidOut  string
	Note     string // why it is not laid out, or what is not known of what is
	Cut      bool   // there is more of it than is shown
	Altered  bool   // it has characters that are shown by their number
}

// readPayload loads the beginning of a payload where it is revealed, and nothing of it where it is not.
func (s *Server) readPayload(c echo.Context, f ui.Frame, event Event, back string) (payloadModel, error) {
	m := payloadModel{Event: event.ID, Bytes: event.Bytes, May: f.Can(ui.Operator), Back: back}
	if m.Revealed = m.May && s.isRevealed(c.Request().Context(), event.RowID); !m.Revealed {
		return m, nil
	}
	size := int32(maxShownPayload)
	if event.Bytes <= maxLaidOut {
		size = maxLaidOut
	}
	row, err := s.queries.EventPayloadHead(c.Request().Context(), s.Pool, size, event.ID)
	if err != nil {
		return m, fmt.Errorf("load payload: %w", err)
	}
	m.show(row.Head, event.Bytes)
	return m, nil
}

// show makes text of the payload's beginning; total is the size of all of it.
func (m *payloadModel) show(head []byte, total int) {
	raw := head[:min(len(head), maxShownPayload)]
	if m.Cut = len(raw) < total; m.Cut {
		raw = wholeRunes(raw)
	}
	m.Raw = ui.PlainLines(string(raw))
	m.Altered = m.Raw != string(raw)
	laidOut := ""
	switch {
	case len(head) < total:
		m.Note = "Only its beginning was looked at, so it may not be valid JSON."
		laidOut = layOut(raw, maxShownPayload)
	case !json.Valid(head):
		m.Note = "It is not valid JSON, or nested deeper than 10,000 levels, so it is not laid out. It is sent as it is."
	default:
		laidOut = layOut(head, maxShownPayload)
	}
	if len(laidOut) >= maxShownPayload {
		m.Cut = true
		laidOut = string(wholeRunes([]byte(laidOut)))
	}
	m.LaidOut = ui.PlainLines(laidOut)
}

// wholeRunes leaves out a character at the end that was cut in two: it is no foreign byte, and must not look like one.
func wholeRunes(text []byte) []byte {
	for back := 1; back <= min(utf8.UTFMax, len(text)); back++ {
		if start := len(text) - back; utf8.RuneStart(text[start]) {
			if !utf8.FullRune(text[start:]) {
				return text[:start]
			}
			break
		}
	}
	return text
}

// layOut breaks JSON, or the beginning of some, into lines without touching a value: what it writes is the document but for white space, at
// most about limit bytes. What is not JSON it breaks somewhere.
// Beyond thirty levels lines are not indented further, so that a document which is nothing but nesting stays small.
func layOut(doc []byte, limit int) string {
	const deepest = 30
	var b strings.Builder
	depth, inString := 0, false
	line := func() {
		b.WriteByte('\n')
		b.WriteString(strings.Repeat("  ", min(max(depth, 0), deepest)))
	}
	for i := 0; i < len(doc) && b.Len() < limit; i++ {
		c := doc[i]
		switch {
		case inString:
			b.WriteByte(c)
			if c == '\\' && i+1 < len(doc) {
				i++
				b.WriteByte(doc[i])
			} else if c == '"' {
				inString = false
			}
		case c == '"':
			inString = true
			b.WriteByte(c)
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		case c == '{' || c == '[':
			b.WriteByte(c)
			if next := nextToken(doc, i+1); next < len(doc) && (doc[next] == '}' || doc[next] == ']') {
				b.WriteByte(doc[next])
				i = next
				continue
			}
			depth++
			line()
		case c == '}' || c == ']':
			depth--
			line()
			b.WriteByte(c)
		case c == ',':
			b.WriteByte(c)
			line()
		case c == ':':
			b.WriteString(": ")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func nextToken(doc []byte, i int) int {
	for i < len(doc) && (doc[i] == ' ' || doc[i] == '\t' || doc[i] == '\n' || doc[i] == '\r') {
		i++
	}
	return i
}

// isRevealed says whether this session has asked for the event's payload a short while ago.
func (s *Server) isRevealed(ctx context.Context, event int64) bool {
	return s.hasSession(ctx) && readRevealed(s.sessions.GetString(ctx, sessionRevealed), time.Now())[event] != 0
}

// readRevealed are the events that are revealed, and until when; those whose time is over are left out.
func readRevealed(text string, now time.Time) map[int64]int64 {
	open := map[int64]int64{}
	for entry := range strings.SplitSeq(text, ",") {
		event, until, _ := strings.Cut(entry, "@")
		id, idErr := strconv.ParseInt(event, 10, 64)
		end, endErr := strconv.ParseInt(until, 10, 64)
		if idErr == nil && endErr == nil && end > now.Unix() {
			open[id] = end
		}
	}
	return open
}

func writeRevealed(open map[int64]int64) string {
	var b strings.Builder
	for id, until := range open {
		fmt.Fprintf(&b, "%d@%d,", id, until)
	}
	return b.String()
}

// payloadReveal writes down who wants to see a payload, and shows it from then on.
func (s *Server) payloadReveal(c echo.Context) error {
	ctx := c.Request().Context()
	event, err := s.eventParam(c)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		return s.audit(ctx, tx, auditEntry{action: "payload.reveal", object: auditObject{"event", event.ID, ""}, note: strings.TrimSpace(clip(c.FormValue("why"), 400))})
	})
	if err != nil {
		return err
	}
	open := readRevealed(s.sessions.GetString(ctx, sessionRevealed), time.Now())
	for id := range open {
		if len(open) < maxRevealed {
			break
		}
		delete(open, id)
	}
	open[event.RowID] = time.Now().Add(revealTime).Unix()
	s.sessions.Put(ctx, sessionRevealed, writeRevealed(open))
	back := localPath(c.FormValue("back"), c.Request().Host)
	if back == "/" {
		back = eventPath(event.ID)
	}
	return c.Redirect(http.StatusSeeOther, back+"#payload")
}

// payloadDownload is the payload as it was handed in, byte by byte; as a file, so that no browser runs it.
func (s *Server) payloadDownload(c echo.Context) error {
	event, err := s.eventParam(c)
	if err != nil {
		return err
	}
	if !s.isRevealed(c.Request().Context(), event.RowID) {
		return s.refused(c, eventPath(event.ID)+"#payload", "The payload is masked. Reveal it first, then download it.")
	}
	payload, err := s.getEventPayload(c.Request().Context(), event.ID)
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", payloadDisposition(event.ID))
	return c.Blob(http.StatusOK, "application/octet-stream", payload)
}

// eventPath is the page of an event. Ids may hold anything printable; a browser would take those of dots for parts of the path.
func eventPath(id string, more ...string) string { return objectPath("/events/", id, more...) }

// subjectPath is the page of a subject, of one tenant.
func subjectPath(subject, tenant string) string {
	path := objectPath("/subjects/", subject)
	if tenant == "" {
		return path
	}
	if strings.Contains(path, "?") {
		return path + "&tenant=" + url.QueryEscape(tenant)
	}
	return path + "?tenant=" + url.QueryEscape(tenant)
}

func objectPath(prefix, id string, more ...string) string {
	rest := strings.Join(more, "")
	if id == "." || id == ".." {
		return prefix + "-" + rest + "?id=" + url.QueryEscape(id)
	}
	return prefix + url.PathEscape(id) + rest
}

// objectParam reads what objectPath wrote.
func objectParam(c echo.Context) string {
	if id := c.QueryParam("id"); id != "" && c.Param("id") == "-" {
		return id
	}
	id := c.Param("id")
	if c.Request().URL.RawPath != "" { // Echo then leaves it escaped
		if plain, err := url.PathUnescape(id); err == nil {
			return plain
		}
	}
	return id
}

func (s *Server) eventParam(c echo.Context) (Event, error) {
	return s.findEvent(c.Request().Context(), objectParam(c))
}
