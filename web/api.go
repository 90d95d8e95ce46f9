package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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

	"weir/db"
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

// Optional is a field of a PATCH that may be left out (not Set), null (Set, Value nil) or given.
type Optional[T any] struct {
	Set   bool
	Value *T
}

// Given is an Optional with a value.
func Given[T any](value T) Optional[T] { return Optional[T]{Set: true, Value: &value} }

// Null is an Optional that was given as null.
func Null[T any]() Optional[T] { return Optional[T]{Set: true} }

func (o *Optional[T]) UnmarshalJSON(data []byte) error {
	o.Set, o.Value = true, nil
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return nil
	}
	o.Value = new(T)
	return json.Unmarshal(data, o.Value)
}

func (o Optional[T]) MarshalJSON() ([]byte, error) { return json.Marshal(o.Value) }

// Schema is what the OpenAPI document says of it.
func (o Optional[T]) Schema(r huma.Registry) *huma.Schema {
	schema := *r.Schema(reflect.TypeFor[T](), true, "")
	schema.Nullable = true
	return &schema
}

// Ids in the API are a prefix and the row's number.
const (
	idDestination = "dst_"
	idLane        = "lane_"
	idDelivery    = "dlv_"
	idReplay      = "rpl_"
	idToken       = "tok_"
	idSearchKey   = "key_"
	idPerson      = "usr_"
	idSession     = "ses_"
	idInvitation  = "inv_"
	idLetters     = "dlg_"
)

var idNames = map[string]string{idDestination: "destination", idLane: "lane", idDelivery: "delivery", idReplay: "replay", idToken: "token", idSearchKey: "search key",
	idPerson: "person", idSession: "session", idInvitation: "invitation", idLetters: "group of dead letters"}

func formatID(prefix string, id int64) string { return prefix + strconv.FormatInt(id, 10) }

// parseID reads an id in a path: what cannot be an id belongs to nothing, so it is a *jobs.NotFoundError.
func parseID(prefix, text string) (int64, error) {
	digits, ok := strings.CutPrefix(text, prefix)
	id, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil || id == 0 || digits[0] == '0' {
		return 0, &jobs.NotFoundError{What: idNames[prefix], ID: printableID(text)}
	}
	return int64(id), nil
}

// parseIDField reads an id in a body or a query, where garbage is the caller's mistake: an *jobs.InvalidError.
func parseIDField(prefix, field, text string) (int64, error) {
	id, err := parseID(prefix, text)
	if err != nil {
		return 0, &jobs.InvalidError{Field: field, Problem: "want the id of a " + idNames[prefix] + ", such as " + prefix + "12"}
	}
	return id, nil
}

func printableID(text string) string {
	if len(text) > 40 {
		text = text[:40]
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '.'
		}
		return r
	}, text), ".")
}

// Page is one page of a list.
type Page[T any] struct {
	Items      []T        `json:"items"`
	NextCursor *string    `json:"next_cursor" doc:"Give it as cursor for the next page; null at the end. A page may have fewer items than asked for and still go on."`
	SearchedTo *time.Time `json:"searched_to,omitempty" doc:"Given where the time was up before the page was full: everything newer has been looked at, and next_cursor goes on there."`
}

// PageInput is embedded by every list.
type PageInput struct {
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// firstPage is before every id there can be.
const firstPage = math.MaxInt64

func formatCursor(id int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("i" + strconv.FormatInt(id, 10)))
}

// parseCursor gives start for an empty cursor.
func parseCursor(text string, start int64) (int64, error) {
	if text == "" {
		return start, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	digits, ok := strings.CutPrefix(string(raw), "i")
	id, numberErr := strconv.ParseUint(digits, 10, 63)
	if err != nil || !ok || numberErr != nil {
		return 0, &jobs.InvalidError{Field: "cursor", Problem: "is not a cursor of this list; start again without one"}
	}
	return int64(id), nil
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

// healthz: the process is up and its database answers.
func (s *Server) healthz(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), time.Second)
	defer cancel()
	if err := s.Pool.Ping(ctx); err != nil {
		s.Log.WarnContext(c.Request().Context(), "health check", "error", err)
		return c.JSON(http.StatusServiceUnavailable, map[string]string{"status": "the database does not answer"})
	}
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

// readyz: the schema is this program's, or newer.
func (s *Server) readyz(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), time.Second)
	defer cancel()
	files, err := db.Migrations.ReadDir("migrations")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	number, _, _ := strings.Cut(files[len(files)-1].Name(), "_")
	want, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return fmt.Errorf("read the last migration's number: %w", err)
	}
	var applied bool
	// goose's own table, which no query file knows.
	const query = "SELECT coalesce(max(version_id), 0) >= $1::bigint FROM schema_migration WHERE is_applied"
	if err := s.Pool.QueryRow(ctx, query, want).Scan(&applied); err != nil || !applied {
		return c.JSON(http.StatusServiceUnavailable, map[string]string{"status": "migrations are missing: run weir migrate"})
	}
	if s.Engine == nil {
		return c.JSON(http.StatusServiceUnavailable, map[string]string{"status": "the engine has not started"})
	}
	return c.JSON(http.StatusOK, map[string]string{"status": "ready"})
}
