package web

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
)

func TestPanicIsLoggedOnceWithoutItsText(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, err := New(Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	require.NoError(t, err)
	s.echo.GET("/api/v1/panics", func(echo.Context) error { panic("hunter2, from a payload") })

	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/panics", nil))

	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.NotContains(t, log.String()+w.Body.String(), "hunter2")
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2, "one of the panic, one of the request")
	var line struct {
		Msg     string
		ErrorID string `json:"error_id"`
		Stack   string
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &line))
	require.Equal(t, "panic in a handler", line.Msg)
	require.Contains(t, w.Body.String(), "under "+line.ErrorID+".")
	require.Contains(t, line.Stack, "TestPanicIsLoggedOnceWithoutItsText", "where it happened")
}
