package web

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"weir/jobs"
)

// place is where a walk along an index stands: after it comes what is older. Minor is -1 in a walk by one column.
type place struct{ Major, Minor int64 }

// stretch is one part of a table that was read: how much, how far down, when that was, and what matched in it, newest first.
type stretch struct {
	Scanned int32
	Floor   place
	FloorAt time.Time // the zero time where that is not known
	IDs     []int64
	Places  []place
}

// walked is a page that was filled from stretches. Next is nil at the end. SearchedTo is set where the time was up before the page was
// full: everything newer has been looked at, and Next goes on there.
type walked struct {
	IDs        []int64
	Next       *place
	SearchedTo *time.Time
}

// A filtered page begins with a short stretch, which is enough where the filter is not rare; the next ones are as long as the time left
// allows at the speed of the one before.
const (
	minStretch = 1_000
	maxStretch = 50_000

	scanTime  = 70 * time.Millisecond // a page
	countTime = 30 * time.Millisecond // its count
)

// walkPage walks until the page is full, the table ends or the budget is spent. So a filter that nothing matches costs a bounded time,
// whatever the table has grown to, and nothing is left out.
func walkPage(from place, limit int, filtered bool, budget time.Duration, scan func(before place, length, limit int32) (stretch, error)) (walked, error) {
	length := int32(limit + 1)
	if filtered {
		length = max(length, minStretch)
	}
	w := walked{IDs: []int64{}}
	var last place
	for start, begun := time.Now(), time.Now(); ; begun = time.Now() {
		part, err := scan(from, length, int32(limit+1-len(w.IDs)))
		if err != nil {
			return walked{}, err
		}
		if over := len(w.IDs) + len(part.IDs) - limit; over > 0 {
			keep := len(part.IDs) - over
			if keep > 0 {
				last = part.Places[keep-1]
			}
			w.IDs = append(w.IDs, part.IDs[:keep]...)
			w.Next = &last
			return w, nil
		}
		if n := len(part.Places); n > 0 {
			last = part.Places[n-1]
		}
		w.IDs = append(w.IDs, part.IDs...)
		if part.Scanned < length {
			return w, nil
		}
		from = part.Floor
		left := budget - time.Since(start)
		next := int32(min(maxStretch, 4*float64(length), float64(left)/float64(max(time.Since(begun), time.Microsecond))*float64(length)))
		if left < 0 || next < minStretch/2 {
			w.Next = &from
			if !part.FloorAt.IsZero() {
				w.SearchedTo = &part.FloorAt
			}
			return w, nil
		}
		length = next
	}
}

// newest is before everything there can be.
func newest(pair bool) place {
	if pair {
		return place{math.MaxInt64, math.MaxInt64}
	}
	return place{math.MaxInt64, -1}
}

func (p place) cursor() string {
	if p.Minor < 0 {
		return formatCursor(p.Major)
	}
	return base64.RawURLEncoding.EncodeToString([]byte("p" + strconv.FormatInt(p.Major, 10) + "." + strconv.FormatInt(p.Minor, 10)))
}

func (w walked) cursor() *string {
	if w.Next == nil {
		return nil
	}
	return new(w.Next.cursor())
}

// parsePlace reads a cursor of a walk; pair says by how many columns it goes.
func parsePlace(text string, pair bool) (place, error) {
	if text == "" {
		return newest(pair), nil
	}
	if !pair {
		id, err := parseCursor(text, firstPage)
		return place{id, -1}, err
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	rest, ok := strings.CutPrefix(string(raw), "p")
	first, second, both := strings.Cut(rest, ".")
	major, majorErr := strconv.ParseUint(first, 10, 63)
	minor, minorErr := strconv.ParseUint(second, 10, 63)
	if err != nil || !ok || !both || majorErr != nil || minorErr != nil {
		return place{}, &jobs.InvalidError{Field: "cursor", Problem: "is not a cursor of this list; start again without one"}
	}
	return place{int64(major), int64(minor)}, nil
}

// scanned is a stretch of a walk by id alone.
type scanned struct {
	Scanned int32
	Floor   int64
	Ids     []int64
}

// scanPage is walkPage for a walk by id, from before on.
func scanPage(before int64, limit int, filtered bool, scan func(before int64, stretch, limit int32) (scanned, error)) ([]int64, *string, error) {
	if before <= 0 {
		before = firstPage
	}
	page, err := walkPage(place{before, -1}, clampLimit(limit), filtered, scanTime, func(before place, length, limit int32) (stretch, error) {
		row, err := scan(before.Major, length, limit)
		part := stretch{Scanned: row.Scanned, Floor: place{row.Floor, -1}, IDs: row.Ids, Places: make([]place, len(row.Ids))}
		for i, id := range row.Ids {
			part.Places[i] = place{id, -1}
		}
		return part, err
	})
	return page.IDs, page.cursor(), err
}
