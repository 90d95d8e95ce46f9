package web

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"weir/jobs"
)

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
