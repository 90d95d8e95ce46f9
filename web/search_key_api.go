package web

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

func (s *Server) mountSearchKeys(api huma.API) {
	register(s, api, operation(http.MethodGet, "/search-keys", "list-search-keys", ScopeRead, "List what events can be searched by"), s.apiListSearchKeys)
	create := operation(http.MethodPost, "/search-keys", "create-search-key", ScopeAdmin, "Make a value of payloads searchable, for events that come from now on")
	create.DefaultStatus = http.StatusCreated
	create.Errors = append(create.Errors, http.StatusConflict)
	registerBody[searchKeyBody](s, api, create, s.apiCreateSearchKey)
	remove := operation(http.MethodDelete, "/search-keys/{id}", "delete-search-key", ScopeAdmin, "Stop looking for a value; what was found stays searchable")
	remove.DefaultStatus = http.StatusNoContent
	register(s, api, remove, s.apiDeleteSearchKey)
}

type searchKeyBody struct {
	Type  string `json:"type"`
	Path  string `json:"path"`
	Label string `json:"label"`
}

type searchKeyOutput struct{ Body SearchKey }

// apiListSearchKeys answers all of them: there are never more than a page.
func (s *Server) apiListSearchKeys(ctx context.Context, _ *PageInput) (*pageOutput[SearchKey], error) {
	keys, err := s.listSearchKeys(ctx)
	if err != nil {
		return nil, err
	}
	return &pageOutput[SearchKey]{Page[SearchKey]{Items: keys}}, nil
}

func (s *Server) apiCreateSearchKey(ctx context.Context, in *RawInput) (*searchKeyOutput, error) {
	var body searchKeyBody
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	key, err := s.createSearchKey(ctx, body.Type, body.Path, body.Label)
	if err != nil {
		return nil, err
	}
	return &searchKeyOutput{key}, nil
}

type searchKeyInput struct {
	ID string `path:"id" maxLength:"40"`
}

func (s *Server) apiDeleteSearchKey(ctx context.Context, in *searchKeyInput) (*struct{}, error) {
	id, err := parseID(idSearchKey, in.ID)
	if err != nil {
		return nil, err
	}
	return nil, s.deleteSearchKey(ctx, id)
}
