package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"weir/jobs/webhook"
)

// requestModel is one request as it went out, as far as that is known. Requests are not kept: what was the event's and the attempt's is
// certain, the rest follows from how the destination is set now.
type requestModel struct {
	No      int
	URL     string
	Headers []requestHeader
	Curl    string
	Changed bool // the destination was changed after the request
}

// requestHeader is a header of a request. Certain: it was sent so; else it is what would be sent now.
type requestHeader struct {
	Name, Value string
	Certain     bool
}

// signaturePlace stands for a signature: it is not kept, and nothing that could be used again is shown.
const signaturePlace = "…"

// requestOf rebuilds the request of an attempt.
func (s *Server) requestOf(ctx context.Context, d Delivery, a Attempt) (*requestModel, error) {
	target, err := s.queries.DestinationGetSent(ctx, s.Pool, d.DestinationRowID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is nothing to show
	}
	if err != nil {
		return nil, fmt.Errorf("load destination: %w", err)
	}
	event, err := s.findEvent(ctx, d.EventID)
	if err != nil {
		return nil, err
	}
	of := []int64{d.DestinationRowID}
	custom, err := s.queries.HeaderListName(ctx, s.Pool, of, 100)
	if err != nil {
		return nil, fmt.Errorf("list headers: %w", err)
	}
	secrets, err := s.queries.SecretListHint(ctx, s.Pool, of, 10)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	m := &requestModel{No: a.No, URL: redactURL(target.Url), Changed: target.UpdatedAt.After(a.StartedAt)}
	message := webhook.Message{
		ID: event.ID, Type: event.Type, Subject: event.Subject, Version: event.Version, EventTime: event.OccurredAt,
		Attempt: a.No, DeliveryID: d.ID, Replay: a.Replay,
	}
	for name, values := range message.Headers(s.apiVersion()) {
		m.Headers = append(m.Headers, requestHeader{strings.ToLower(name), values[0], name != "User-Agent"})
	}
	m.Headers = append(m.Headers, requestHeader{"webhook-timestamp", "about " + strconv.FormatInt(a.StartedAt.Unix(), 10), true})
	var signatures []string
	for _, secret := range secrets {
		signatures = append(signatures, secret.Scheme+","+signaturePlace)
	}
	if len(signatures) == 0 {
		signatures = append(signatures, "none: the destination has no secret")
	}
	m.Headers = append(m.Headers, requestHeader{"webhook-signature", strings.Join(signatures, " "), false})
	slices.SortFunc(m.Headers, func(a, b requestHeader) int { return strings.Compare(a.Name, b.Name) })
	for _, row := range custom {
		m.Headers = append(m.Headers, requestHeader{strings.ToLower(row.Name), "••••••", false})
	}
	m.Curl = m.curl()
	return m, nil
}

// curl is the request as a command, without what is secret: the signature, the values of custom headers and of the URL's query.
func (m *requestModel) curl() string {
	var b strings.Builder
	b.WriteString("curl -X POST " + shellQuote(m.URL))
	for _, h := range m.Headers {
		if h.Name == "webhook-signature" || h.Name == "webhook-timestamp" || h.Value == "••••••" {
			continue
		}
		b.WriteString(" \\\n  -H " + shellQuote(h.Name+": "+h.Value))
	}
	b.WriteString(" \\\n  --data-binary @payload.json")
	return b.String()
}

// shellQuote makes one word of a text in a POSIX shell, whatever is in it.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// chosenAttempt is the attempt that the address names, else the newest.
func chosenAttempt(attempts []Attempt, no string) *Attempt {
	if len(attempts) == 0 {
		return nil
	}
	for i := range attempts {
		if strconv.Itoa(attempts[i].No) == no {
			return &attempts[i]
		}
	}
	return &attempts[0]
}

func attemptPath(d Delivery, no int) string {
	return query("/deliveries/"+d.ID, "attempt", strconv.Itoa(no)) + "#request"
}

// answerOf says in a line what came back.
func answerOf(a Attempt) string {
	if a.Verdict == nil {
		return "under way"
	}
	if a.Status == nil {
		return "no answer"
	}
	return strings.TrimSpace(strconv.Itoa(int(*a.Status)) + " " + http.StatusText(int(*a.Status)))
}
