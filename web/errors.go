package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/labstack/echo/v4"

	"weir/jobs"
)

// Problem is the one shape of an error in the API (RFC 9457). It never repeats what the caller sent: that may be a secret.
type Problem struct {
	Type   string       `json:"type" doc:"Always about:blank: the status says what kind of problem it is."`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail" doc:"One sentence for a person."`
	Errors []FieldError `json:"errors,omitempty" doc:"Which fields are wrong, and what would be right."`

	header http.Header
}

// FieldError names one field as the caller wrote it ("subscriptions[0].types[1]").
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

func newProblem(status int, detail string, fields ...FieldError) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Errors: fields}
}

func (p *Problem) Error() string { return p.Detail }

// GetStatus, GetHeaders and ContentType make a Problem an error that huma answers as it is.
func (p *Problem) GetStatus() int            { return p.Status }
func (p *Problem) GetHeaders() http.Header   { return p.header }
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// problem turns an error into what may be shown of it, and logs what may not. It is the only place that knows statuses.
func (s *Server) problem(ctx context.Context, err error) *Problem {
	var (
		known    *Problem
		invalid  *jobs.InvalidError
		conflict *jobs.ConflictError
		notFound *jobs.NotFoundError
		tooLarge *http.MaxBytesError
		fromEcho *echo.HTTPError
		database *pgconn.PgError
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &invalid):
		return newProblem(http.StatusBadRequest, sentence(invalid.Field, invalid.Problem), FieldError{invalid.Field, invalid.Problem})
	case errors.As(err, &conflict):
		return newProblem(http.StatusConflict, sentence(conflict.What, conflict.Problem))
	case errors.As(err, &notFound):
		return newProblem(http.StatusNotFound, "There is no such "+notFound.What+".")
	case errors.Is(err, pgx.ErrNoRows):
		return newProblem(http.StatusNotFound, "There is nothing with this id.")
	case errors.As(err, &tooLarge):
		return newProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is larger than the limit of %d bytes.", tooLarge.Limit))
	case errors.As(err, &fromEcho) && fromEcho.Code < http.StatusInternalServerError:
		return newProblem(fromEcho.Code, echoDetail(fromEcho.Code))
	case errors.As(err, &database) && (database.Code == "22021" || database.Code == "22P05"):
		// A NUL or a broken character in a filter: Postgres cannot hold such text, so nothing can match it.
		return newProblem(http.StatusBadRequest, "A value holds a character that text cannot hold.")
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return newProblem(499, "The caller went away.") // nobody reads it; nginx's status, so that it counts as no fault of ours
	}

	id := newErrorID()
	s.Log.ErrorContext(ctx, "request failed", "error_id", id, "error", err)
	if errors.Is(err, context.DeadlineExceeded) {
		return newProblem(http.StatusServiceUnavailable, "The database did not answer in time. The log has more under "+id+".")
	}
	return ourFault(id)
}

// newErrorID is what an answer and a line of the log have in common.
func newErrorID() string { return strings.ToLower(rand.Text()[:12]) }

func ourFault(id string) *Problem {
	return newProblem(http.StatusInternalServerError, "Something went wrong on our side. The log has more under "+id+".")
}

func sentence(field, problem string) string {
	return field + ": " + strings.TrimSuffix(problem, ".") + "."
}

func echoDetail(status int) string {
	switch status {
	case http.StatusNotFound:
		return "There is nothing at this address."
	case http.StatusMethodNotAllowed:
		return "This address does not take this method."
	case http.StatusRequestEntityTooLarge:
		return "The body is larger than the limit."
	case http.StatusForbidden:
		return "The request came from another site, or is not allowed."
	default:
		return http.StatusText(status) + "."
	}
}

// handleError is Echo's error handler: problem+json under /api, a page elsewhere.
func (s *Server) handleError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	p := s.problem(c.Request().Context(), err)
	for name, values := range p.header {
		c.Response().Header()[name] = values
	}
	if isAPI(c.Request().URL.Path) || s.renderErrorPage == nil {
		s.writeProblem(c, p)
		return
	}
	if pageErr := s.renderErrorPage(c, p.Status, p.Title, p.Detail); pageErr != nil {
		s.Log.ErrorContext(c.Request().Context(), "render error page", "error", pageErr)
		s.writeProblem(c, p)
	}
}

func (s *Server) writeProblem(c echo.Context, p *Problem) {
	var err error
	switch {
	case c.Response().Committed:
		return
	case c.Request().Method == http.MethodHead:
		err = c.NoContent(p.Status)
	case isAPI(c.Request().URL.Path):
		c.Response().Header().Set(echo.HeaderContentType, p.ContentType(""))
		err = c.JSON(p.Status, p)
	default:
		err = c.String(p.Status, p.Title+"\n"+p.Detail+"\n")
	}
	if err != nil {
		s.Log.DebugContext(c.Request().Context(), "write error answer", "error", err)
	}
}

func isAPI(path string) bool { return path == "/api" || strings.HasPrefix(path, "/api/") }

// humaError is what huma makes of its own refusals (a parameter of the wrong kind, a body over the limit). The values that huma would
// repeat are left out, and so are the texts of errors that it did not make itself.
func humaError(status int, message string, errs ...error) huma.StatusError {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest // one status for input that cannot be taken
	}
	p := newProblem(status, capitalize(message)+".")
	for _, err := range errs {
		var detailer huma.ErrorDetailer
		if !errors.As(err, &detailer) {
			continue
		}
		detail := detailer.ErrorDetail()
		field := detail.Location
		for _, in := range []string{"body.", "query.", "path.", "header."} {
			field = strings.TrimPrefix(field, in)
		}
		p.Errors = append(p.Errors, FieldError{field, detail.Message})
	}
	if len(p.Errors) > 0 {
		p.Detail = sentence(p.Errors[0].Field, p.Errors[0].Message)
	}
	if status >= http.StatusInternalServerError {
		p.Detail, p.Errors = "Something went wrong on our side.", nil
	}
	return p
}

func capitalize(s string) string {
	if s == "" {
		return "The request cannot be taken"
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
