package web

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

func (s *Server) mountTokens(api huma.API) {
	create := operation(http.MethodPost, "/tokens", "create-token", ScopeAdmin, "Create an API token")
	create.DefaultStatus = http.StatusCreated
	registerBody[tokenBody](s, api, create, s.apiCreateToken)
	register(s, api, operation(http.MethodGet, "/tokens", "list-tokens", ScopeAdmin, "List the API tokens in use"), s.apiListTokens)
	revoke := operation(http.MethodDelete, "/tokens/{id}", "revoke-token", ScopeAdmin, "Revoke an API token, at once")
	revoke.DefaultStatus = http.StatusNoContent
	register(s, api, revoke, s.apiRevokeToken)
}

type tokenBody struct {
	Name      string     `json:"name"`
	Scopes    []string   `json:"scopes" enum:"publish,read,operate,admin"`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"When it stops working; never, if left out."`
}

type createTokenOutput struct {
	Body struct {
		Token
		Text string `json:"token" doc:"Shown only here."`
	}
}

func (s *Server) apiCreateToken(ctx context.Context, in *RawInput) (*createTokenOutput, error) {
	var body tokenBody
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	out := &createTokenOutput{}
	var err error
	out.Body.Text, out.Body.Token, err = createToken(ctx, s.Pool, body.Name, body.Scopes, body.ExpiresAt)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Server) apiListTokens(ctx context.Context, in *PageInput) (*pageOutput[Token], error) {
	limit := clampLimit(in.Limit)
	after, err := parseCursor(in.Cursor, 0)
	if err != nil {
		return nil, err
	}
	tokens, err := s.listTokens(ctx, after, limit+1)
	if err != nil {
		return nil, err
	}
	page := Page[Token]{Items: tokens}
	if len(tokens) > limit {
		page.Items = tokens[:limit]
		last, err := parseID(idToken, page.Items[limit-1].ID)
		if err != nil {
			return nil, err
		}
		page.NextCursor = orNil(formatCursor(last))
	}
	return &pageOutput[Token]{page}, nil
}

type tokenPath struct {
	ID string `path:"id" maxLength:"40"`
}

func (s *Server) apiRevokeToken(ctx context.Context, in *tokenPath) (*struct{}, error) {
	id, err := parseID(idToken, in.ID)
	if err != nil {
		return nil, err
	}
	return nil, s.revokeToken(ctx, id)
}
