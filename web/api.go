package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"weir/jobs"
)

const apiPrefix = "/api/v1"

// maxSmallBody is the limit of every body that is not an event.
const maxSmallBody = 64 << 10

// huma keeps these as globals; they are set once, before the first API is made.
var configureHuma = sync.OnceFunc(func() {
	huma.NewError = humaError
	huma.DefaultArrayNullable = false
})

// mountAPI adds the JSON API and what machines ask besides: health, readiness, metrics.

func (s *Server) mountAPI(e *echo.Echo) {
	configureHuma()
	e.HTTPErrorHandler = s.handleError
	e.GET("/healthz", s.healthz)
	e.GET("/readyz", s.readyz)
	s.mountMetrics(e)

	config := huma.DefaultConfig("Weir", s.apiVersion())
	config.Info.Description = "Hand in events, and see each delivered, expired or dead-lettered. Ids are opaque; lists go on from next_cursor."
	config.DocsPath = "" // its page would load scripts from elsewhere
	config.CreateHooks = nil
	config.Servers = []*huma.Server{{URL: apiPrefix}}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "Made by weir token create, or on the panel's page of tokens. Each operation names the scope it needs: " +
			"publish (hand in events), read (look at everything), operate (pause, resume, test, replay, work on dead letters), admin (configure; includes all others)."},
	}
	group := e.Group(apiPrefix) // without middleware: that would answer 404 where 405 is right
	api := humaecho.NewWithGroup(e, group, config)
	api.UseMiddleware(prepare, s.requireScope)

	s.mountEvents(api, group)
	s.mountDestinations(api)
	s.mountLanes(api)
	s.mountDeliveries(api)
	s.mountReplays(api)
	s.mountLetters(api)
	s.mountDiscovery(api)
	s.mountTokens(api)
	s.mountSearchKeys(api)
}

func (s *Server) apiVersion() string {
	if s.Version == "" {
		return "dev"
	}
	return s.Version
}

// prepare makes path parameters what the caller meant: Echo routes by the escaped path where there is one, and then leaves the parameters
// escaped. Event ids may hold slashes.
func prepare(ctx huma.Context, next func(huma.Context)) {
	c := humaecho.Unwrap(ctx)
	if c.Request().URL.RawPath != "" {
		plain := slices.Clone(c.ParamValues())
		for i, value := range plain {
			if text, err := url.PathUnescape(value); err == nil { // net/http has refused what cannot be unescaped
				plain[i] = text
			}
		}
		c.SetParamValues(plain...)
	}
	ctx.SetHeader("Cache-Control", "no-store")
	next(ctx)
}

// requireScope lets a request through to its operation when its token has the operation's scope.
func (s *Server) requireScope(ctx huma.Context, next func(huma.Context)) {
	c := humaecho.Unwrap(ctx)
	caller, err := s.authorize(ctx.Context(), ctx.Header("Authorization"), scopeOf(ctx.Operation()))
	if err != nil {
		s.handleError(err, c)
		return
	}
	caller.address = c.RealIP()
	next(huma.WithValue(ctx, whoKey{}, caller))
}

func scopeOf(op *huma.Operation) string {
	for _, requirement := range op.Security {
		if scopes := requirement["token"]; len(scopes) > 0 {
			return scopes[0]
		}
	}
	return ScopeAdmin // an operation that names none is for administrators
}

// operation is the frame of every API operation.
func operation(method, path, id, scope, summary string) huma.Operation {
	return huma.Operation{
		Method: method, Path: path, OperationID: id, Summary: summary, Tags: []string{strings.SplitN(strings.Trim(path, "/"), "/", 2)[0]},
		Security:     []map[string][]string{{"token": {scope}}},
		MaxBodyBytes: maxSmallBody, BodyReadTimeout: 30 * time.Second,
		Errors: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusInternalServerError},
	}
}

// register adds an operation whose errors are answered by problem.
func register[I, O any](s *Server, api huma.API, op huma.Operation, handler func(context.Context, *I) (*O, error)) {
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		return out, nil
	})
}

// RawInput is a body that the handler reads itself, with decodeBody: its errors then name the fields as the caller wrote them, unknown
// fields are refused, and null can be told from left out.
type RawInput struct {
	RawBody []byte
}

// registerBody is register for an operation with a RawInput; Body is what the OpenAPI document says of it.
func registerBody[Body, I, O any](s *Server, api huma.API, op huma.Operation, handler func(context.Context, *I) (*O, error)) {
	body := &huma.RequestBody{}
	op.RequestBody = body
	op.Errors = append(op.Errors, http.StatusRequestEntityTooLarge)
	register(s, api, op, handler)
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Body](), true, op.OperationID+"Body")
	body.Required = false // the handler says better what is missing
	body.Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
}

// decodeBody reads one JSON object strictly. An empty body is an empty object.
func decodeBody(raw []byte, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	if !utf8.Valid(raw) {
		return &jobs.InvalidError{Field: "body", Problem: "is not valid UTF-8"}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return decodeError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return &jobs.InvalidError{Field: "body", Problem: "has something after the JSON object"}
	}
	return nil
}

func decodeError(err error) error {
	var (
		wrongType *json.UnmarshalTypeError
		syntax    *json.SyntaxError
		invalid   *jobs.InvalidError
	)
	switch {
	case errors.As(err, &invalid):
		return invalid
	case errors.As(err, &wrongType):
		field := wrongType.Field
		if field == "" {
			field = "body"
		}
		return &jobs.InvalidError{Field: field, Problem: "want " + jsonKind(wrongType.Type)}
	case errors.As(err, &syntax):
		return &jobs.InvalidError{Field: "body", Problem: fmt.Sprintf("is not valid JSON near byte %d", syntax.Offset)}
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if plain, unquoteErr := strconv.Unquote(name); unquoteErr == nil && len(plain) <= 100 {
			return &jobs.InvalidError{Field: plain, Problem: "is not a field that can be given here"}
		}
	}
	return &jobs.InvalidError{Field: "body", Problem: "is not the JSON object that is wanted here"}
}

func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	default:
		return "an object"
	}
}

// checkText refuses what Postgres cannot store and a page cannot show.
func checkText(field, text string) error {
	if !utf8.ValidString(text) {
		return &jobs.InvalidError{Field: field, Problem: "is not valid UTF-8"}
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return &jobs.InvalidError{Field: field, Problem: "must not contain control characters"}
	}
	return nil
}
