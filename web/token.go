package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"weir/db/dbsqlc"
	"weir/jobs"
)

// The scopes of a token. None includes another, but for admin, which includes all.
const (
	ScopePublish = "publish" // hand in events
	ScopeRead    = "read"    // look at everything, change nothing
	ScopeOperate = "operate" // pause, resume, test, replay, work on dead letters
	ScopeAdmin   = "admin"
)

var scopes = []string{ScopePublish, ScopeRead, ScopeOperate, ScopeAdmin}

const tokenPrefix = "weir_"

// Token is what can be shown of an API token.
type Token struct {
	ID         string     `json:"id" example:"tok_1"`
	Name       string     `json:"name"`
	Hint       string     `json:"hint" doc:"The last four characters."`
	Scopes     []string   `json:"scopes"`
	CreatedAt  time.Time  `json:"created_at"`
	CreatedBy  string     `json:"created_by" doc:"Who made it; empty where that is not on record."`
	LastUsedAt *time.Time `json:"last_used_at" doc:"To the minute."`
	ExpiresAt  *time.Time `json:"expires_at" doc:"null: it works until it is revoked."`
}

// CreateToken makes an API token and returns its text, which is kept nowhere: only its hash is stored.
func CreateToken(ctx context.Context, pool *pgxpool.Pool, name string, scopes []string) (string, error) {
	return CreateTokenUntil(ctx, pool, name, scopes, nil)
}

// CreateTokenUntil is CreateToken for one that stops working at a time; nil: never.
func CreateTokenUntil(ctx context.Context, pool *pgxpool.Pool, name string, scopes []string, expires *time.Time) (string, error) {
	text, _, err := createToken(ctx, pool, name, scopes, expires)
	return text, err
}

const maxTokenLife = 10 * 366 * 24 * time.Hour

func createToken(ctx context.Context, pool *pgxpool.Pool, name string, wanted []string, expires *time.Time) (string, Token, error) {
	if expires != nil && (time.Until(*expires) < time.Minute || time.Until(*expires) > maxTokenLife) {
		return "", Token{}, &jobs.InvalidError{Field: "expires_at", Problem: "want a time in the next ten years, a minute from now at least; leave it out for never"}
	}
	name = strings.TrimSpace(name)
	if err := checkName("name", name, 100); err != nil {
		return "", Token{}, err
	}
	if len(wanted) == 0 {
		return "", Token{}, &jobs.InvalidError{Field: "scopes", Problem: "want at least one of publish, read, operate, admin"}
	}
	for i, scope := range wanted {
		if !slices.Contains(scopes, scope) {
			return "", Token{}, &jobs.InvalidError{Field: fmt.Sprintf("scopes[%d]", i), Problem: "want publish, read, operate or admin"}
		}
	}
	wanted = slices.Compact(slices.Sorted(slices.Values(wanted)))

	raw := make([]byte, 32)
	rand.Read(raw) // never fails: it ends the program instead
	text := tokenPrefix + base64.RawURLEncoding.EncodeToString(raw)
	var token Token
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		row, err := dbsqlc.New().APITokenInsert(ctx, tx, dbsqlc.APITokenInsertParams{
			Name: name, TokenHash: hashToken(text), Hint: text[len(text)-4:], Scopes: wanted, ExpiresAt: expires, CreatedBy: whoOf(ctx).name,
		})
		if err != nil {
			return fmt.Errorf("insert token: %w", err)
		}
		token = tokenOf(dbsqlc.APITokenListRow(row))
		return recordAudit(ctx, tx, auditEntry{action: "token.create", object: token.object(), after: token.facts()})
	})
	return text, token, err
}

func (t Token) object() auditObject { return auditObject{"token", t.ID, t.Name} }

func (t Token) facts() facts {
	f := facts{"scopes": t.Scopes, "hint": "…" + t.Hint, "expires_at": "never"}
	if t.ExpiresAt != nil {
		f["expires_at"] = t.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return f
}

func hashToken(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

func (s *Server) listTokens(ctx context.Context, after int64, limit int) ([]Token, error) {
	rows, err := s.queries.APITokenList(ctx, s.Pool, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	tokens := make([]Token, len(rows))
	for i, row := range rows {
		tokens[i] = tokenOf(row)
	}
	return tokens, nil
}

// revokeToken takes effect at once: a token is looked up with every request.
func (s *Server) revokeToken(ctx context.Context, id int64) error {
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		row, err := s.queries.APITokenRevoke(ctx, tx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return &jobs.NotFoundError{What: "token", ID: formatID(idToken, id)}
		}
		if err != nil {
			return fmt.Errorf("revoke token: %w", err)
		}
		t := tokenOf(dbsqlc.APITokenListRow(row))
		return s.audit(ctx, tx, auditEntry{action: "token.revoke", object: t.object(), before: t.facts()})
	})
}

func tokenOf(row dbsqlc.APITokenListRow) Token {
	return Token{
		ID: formatID(idToken, row.ID), Name: row.Name, Hint: row.Hint, Scopes: row.Scopes, CreatedAt: row.CreatedAt, CreatedBy: row.CreatedBy,
		LastUsedAt: row.LastUsedAt, ExpiresAt: row.ExpiresAt,
	}
}

func callerName(ctx context.Context) string { return whoOf(ctx).name }

// authorize checks the Authorization header against the scope that an operation needs.
func (s *Server) authorize(ctx context.Context, header, scope string) (who, error) {
	kind, text, _ := strings.Cut(strings.TrimSpace(header), " ")
	text = strings.TrimSpace(text)
	if !strings.EqualFold(kind, "Bearer") || text == "" {
		return who{}, unauthorized("Send a token: Authorization: Bearer weir_… (weir token create makes one).")
	}
	if len(text) > 200 || !strings.HasPrefix(text, tokenPrefix) {
		return who{}, unauthorized("This token is not known, or was revoked.")
	}
	row, err := s.tokens.find(ctx, sha256.Sum256([]byte(text)))
	if err != nil {
		return who{}, err
	}
	if row == nil {
		return who{}, unauthorized("This token is not known, or was revoked.")
	}
	if row.Expired {
		return who{}, unauthorized("This token has expired.")
	}
	if row.Stale {
		if err := s.queries.APITokenTouch(ctx, s.Pool, row.ID); err != nil {
			s.Log.WarnContext(ctx, "note the use of a token", "error", err)
		}
	}
	if !slices.Contains(row.Scopes, scope) && !slices.Contains(row.Scopes, ScopeAdmin) {
		return who{}, newProblem(http.StatusForbidden, "This token lacks the scope "+scope+".")
	}
	return who{kind: actorToken, id: row.ID, name: row.Name, role: strings.Join(row.Scopes, ", ")}, nil
}

func unauthorized(detail string) *Problem {
	p := newProblem(http.StatusUnauthorized, detail)
	p.header = http.Header{"Www-Authenticate": {`Bearer realm="weir"`}}
	return p
}

// checkName is for names that people type: one line of text, of which something can be seen.
func checkName(field, name string, limit int) error {
	switch {
	case name == "":
		return &jobs.InvalidError{Field: field, Problem: "is missing"}
	case utf8.RuneCountInString(name) > limit:
		return &jobs.InvalidError{Field: field, Problem: fmt.Sprintf("is longer than %d characters", limit)}
	}
	return checkText(field, name)
}
