package web

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

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
