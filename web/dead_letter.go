package web

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
	"weir/jobs"
)

// LetterGroup is deliveries that ended badly for the same reason at the same destination, as the API and the panel show it.
type LetterGroup struct {
	ID              string     `json:"id" example:"dlg_1"`
	Title           string     `json:"title" doc:"The reason in a few words."`
	DestinationID   string     `json:"destination_id"`
	DestinationName string     `json:"destination_name"`
	State           string     `json:"state" enum:"dead_lettered,expired"`
	Status          *int32     `json:"status" doc:"Of the last answer; null: there was none."`
	ErrorClass      string     `json:"error_class"`
	Type            string     `json:"type" doc:"Of the events, where the answer is about what was sent; else empty."`
	Reason          string     `json:"reason" doc:"The newest delivery's."`
	Open            int        `json:"open" doc:"Deliveries that wait for somebody, those being sent again included."`
	Sending         int        `json:"sending" doc:"Of those, being sent again."`
	Total           int64      `json:"total" doc:"How often a delivery came in."`
	LastHour        int        `json:"last_hour" doc:"How many came in the last hour,"`
	LastDay         int        `json:"last_day" doc:"and in the last 24 hours."`
	FirstSeen       time.Time  `json:"first_seen"`
	LastSeen        time.Time  `json:"last_seen"`
	OpenedAt        *time.Time `json:"opened_at" doc:"Since when it is open this time; null: nothing of it is."`
	Assignee        *string    `json:"assignee"`
	SnoozedUntil    *time.Time `json:"snoozed_until" doc:"It comes back by itself then, or when it has grown to twice what it was, by ten at least."`
	ResolvedAt      *time.Time `json:"resolved_at" doc:"When somebody resolved all of it the last time."`
	ResolvedBy      string     `json:"resolved_by"`
	Resolution      string     `json:"resolution"`

	RowID            int64         `json:"-"`
	DestinationRowID int64         `json:"-"`
	DestinationState string        `json:"-"`
	AssigneeID       int64         `json:"-"`
	Growth           []letterCount `json:"-"` // by the half hour; those without any are left out
}

// letterCount is how many came in during half an hour.
type letterCount struct {
	At   time.Time
	Came int
}

// Where a group stands, and what a list of them can be asked for.
const (
	lettersOpen     = "open"
	lettersSnoozed  = "snoozed"
	lettersResolved = "resolved"
	lettersAll      = "all"
)

func (g LetterGroup) standing() string {
	switch {
	case g.Open == 0:
		return lettersResolved
	case g.SnoozedUntil != nil:
		return lettersSnoozed
	}
	return lettersOpen
}

func letterGroupOf(r dbsqlc.DeadLetterGroupGetRow, now time.Time) LetterGroup {
	g := LetterGroup{
		ID: formatID(idLetters, r.ID), RowID: r.ID, Title: letterTitle(r.State, r.Status, r.ErrorClass, r.Type), DestinationID: formatID(idDestination, r.DestinationID),
		DestinationRowID: r.DestinationID, DestinationName: r.DestinationName, DestinationState: r.DestinationState, State: r.State, Status: orNil(r.Status),
		ErrorClass: r.ErrorClass, Type: r.Type, Reason: r.Reason, Open: int(r.Open), Sending: int(r.Sending), Total: r.Total, FirstSeen: r.FirstSeen,
		LastSeen: r.LastSeen, OpenedAt: r.OpenedAt, Assignee: orNil(r.Assignee), ResolvedAt: r.ResolvedAt, ResolvedBy: r.ResolvedBy, Resolution: r.Resolution,
	}
	if r.AssigneeID != nil {
		g.AssigneeID = *r.AssigneeID
	}
	if r.SnoozedUntil != nil && r.SnoozedUntil.After(now) {
		g.SnoozedUntil = r.SnoozedUntil
	}
	return g
}

// letterFilter is what a list of groups is asked for.
type letterFilter struct {
	show        string // empty: open
	destination int64
	assignee    *int64 // 0: nobody
	cursor      string
	limit       int
}

// listLetters is one page, those in which something came in last first.
func (s *Server) listLetters(ctx context.Context, f letterFilter, now time.Time) (Page[LetterGroup], error) {
	page, limit := Page[LetterGroup]{Items: []LetterGroup{}}, clampLimit(f.limit)
	at, id, err := parseLetterCursor(f.cursor)
	if err != nil {
		return page, err
	}
	if f.show == "" {
		f.show = lettersOpen
	}
	rows, err := s.queries.DeadLetterGroupList(ctx, s.Pool, dbsqlc.DeadLetterGroupListParams{
		Show: f.show, DestinationID: orNil(f.destination), AssigneeID: f.assignee, LastSeen: at, Before: id, Max: int32(limit + 1),
	})
	if err != nil {
		return page, fmt.Errorf("list groups of dead letters: %w", err)
	}
	if len(rows) > limit {
		rows = rows[:limit]
		page.NextCursor = orNil(formatLetterCursor(rows[limit-1].LastSeen, rows[limit-1].ID))
	}
	for _, row := range rows {
		page.Items = append(page.Items, letterGroupOf(dbsqlc.DeadLetterGroupGetRow(row), now))
	}
	return page, s.fillGrowth(ctx, page.Items)
}

// getLetters is one group; an unknown one is a *jobs.NotFoundError.
func (s *Server) getLetters(ctx context.Context, id int64, now time.Time) (LetterGroup, error) {
	row, err := s.queries.DeadLetterGroupGet(ctx, s.Pool, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return LetterGroup{}, &jobs.NotFoundError{What: idNames[idLetters], ID: formatID(idLetters, id)}
	}
	if err != nil {
		return LetterGroup{}, fmt.Errorf("load group of dead letters: %w", err)
	}
	one := []LetterGroup{letterGroupOf(row, now)}
	err = s.fillGrowth(ctx, one)
	return one[0], err
}

// fillGrowth adds what came in lately: at most 49 rows for each group.
func (s *Server) fillGrowth(ctx context.Context, groups []LetterGroup) error {
	ids, at := make([]int64, len(groups)), make(map[int64]*LetterGroup, len(groups))
	for i := range groups {
		ids[i], at[groups[i].RowID] = groups[i].RowID, &groups[i]
	}
	rows, err := s.queries.DeadLetterTallyList(ctx, s.Pool, ids)
	if err != nil {
		return fmt.Errorf("load growth of dead letters: %w", err)
	}
	for _, row := range rows {
		g := at[row.GroupID]
		g.LastHour += int(row.Hour)
		g.LastDay += int(row.Came)
		g.Growth = append(g.Growth, letterCount{row.At, int(row.Came)})
	}
	return nil
}

func formatLetterCursor(at time.Time, id int64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "l%d.%d", at.UnixMicro(), id))
}

func parseLetterCursor(text string) (time.Time, int64, error) {
	if text == "" {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), firstPage, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	rest, known := strings.CutPrefix(string(raw), "l")
	us, id, both := strings.Cut(rest, ".")
	at, atErr := strconv.ParseInt(us, 10, 64)
	n, idErr := strconv.ParseInt(id, 10, 64)
	if err != nil || !known || !both || atErr != nil || idErr != nil || at < 0 || at > 1<<57 {
		return time.Time{}, 0, &jobs.InvalidError{Field: "cursor", Problem: "is not a cursor of this list; start again without one"}
	}
	return time.UnixMicro(at), n, nil
}

// Letter is one delivery of a group.
type Letter struct {
	DeliveryID string     `json:"delivery_id"`
	EventID    string     `json:"event_id"`
	Type       string     `json:"type"`
	Subject    string     `json:"subject"`
	State      string     `json:"state" doc:"Of the delivery, now."`
	Attempts   int        `json:"attempts"`
	Reason     string     `json:"reason"`
	Status     *int32     `json:"status" doc:"Of the last answer."`
	Excerpt    string     `json:"response_excerpt" doc:"How the last answer began, as text."`
	EndedAt    time.Time  `json:"ended_at" doc:"When it came in."`
	Replay     *string    `json:"replay" doc:"It is being sent again by this replay."`
	Left       *string    `json:"left" enum:"delivered,superseded,cancelled,resolved" doc:"null: it is open."`
	LeftAt     *time.Time `json:"left_at"`

	Seq int64 `json:"-"`
}

// listGroup is one page of a group's deliveries, those that came in last first: what is open, or all that is or was in it.
func (s *Server) listGroup(ctx context.Context, id int64, all bool, cursor string, limit int) (Page[Letter], error) {
	page, limit := Page[Letter]{Items: []Letter{}}, clampLimit(limit)
	before, err := parseCursor(cursor, firstPage)
	if err != nil {
		return page, err
	}
	row, err := s.queries.DeadLetterGroupGet(ctx, s.Pool, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return page, &jobs.NotFoundError{What: idNames[idLetters], ID: formatID(idLetters, id)}
	}
	if err != nil {
		return page, fmt.Errorf("load group of dead letters: %w", err)
	}
	var rows []dbsqlc.DeadLetterListPageRow
	if all {
		var some []dbsqlc.DeadLetterListPageAllRow
		some, err = s.queries.DeadLetterListPageAll(ctx, s.Pool, dbsqlc.DeadLetterListPageAllParams{GroupID: id, Before: before, Max: int32(limit + 1)})
		for _, r := range some {
			rows = append(rows, dbsqlc.DeadLetterListPageRow(r))
		}
	} else {
		rows, err = s.queries.DeadLetterListPage(ctx, s.Pool, dbsqlc.DeadLetterListPageParams{GroupID: id, After: row.ResolvedThrough, Before: before, Max: int32(limit + 1)})
	}
	if err != nil {
		return page, fmt.Errorf("list dead letters: %w", err)
	}
	if len(rows) > limit {
		rows = rows[:limit]
		page.NextCursor = orNil(formatCursor(rows[limit-1].Seq))
	}
	for _, r := range rows {
		page.Items = append(page.Items, letterOf(r, row))
	}
	return page, nil
}

func letterOf(r dbsqlc.DeadLetterListPageRow, group dbsqlc.DeadLetterGroupGetRow) Letter {
	l := Letter{
		DeliveryID: formatID(idDelivery, r.DeliveryID), EventID: r.EventID, Type: r.Type, Subject: r.Subject, State: r.State, Attempts: int(r.Attempts),
		Reason: r.Reason, Status: r.LastStatus, Excerpt: excerptText(r.Excerpt), EndedAt: r.EndedAt, Left: r.LeftWhy, LeftAt: r.LeftAt, Seq: r.Seq,
	}
	if r.ReplayID != nil {
		l.Replay = orNil(formatID(idReplay, *r.ReplayID))
	}
	if l.Left == nil && r.Seq <= group.ResolvedThrough {
		l.Left, l.LeftAt = new("resolved"), group.ResolvedAt
	}
	return l
}
