package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/web/ui"
)

// ReplayFilter selects deliveries that have ended, as the API and the panel's form write it. What is left out does not filter.
type ReplayFilter struct {
	States      []string `json:"states,omitempty" enum:"dead_lettered,expired,delivered,superseded,cancelled" doc:"Left out: dead_lettered and expired."`
	Destination string   `json:"destination,omitempty" example:"dst_12"`
	Event       string   `json:"event,omitempty" doc:"Id of the event."`
	Subject     string   `json:"subject,omitempty"`
	Type        string   `json:"type,omitempty" doc:"Exact, or a pattern such as shipment.*"`
	Tenant      string   `json:"tenant,omitempty"`
	ErrorClass  string   `json:"error_class,omitempty" doc:"Of the last attempt, such as timeout."`
	Status      int32    `json:"status,omitempty" doc:"Of the last answer, such as 503."`
	Reason      string   `json:"reason,omitempty" doc:"Is part of the delivery's reason."`
	CreatedFrom string   `json:"created_from,omitempty" format:"date-time"`
	CreatedTo   string   `json:"created_to,omitempty" format:"date-time" doc:"Before this."`
	SettledFrom string   `json:"settled_from,omitempty" format:"date-time" doc:"When it ended."`
	SettledTo   string   `json:"settled_to,omitempty" format:"date-time" doc:"Before this."`
	Letters     string   `json:"dead_letters,omitempty" example:"dlg_1" doc:"What is open of this group of dead letters; with deliveries, those of it, open or not."`
	Deliveries  []string `json:"deliveries,omitempty" doc:"These, 200 at most. With dead_letters, one that does not belong to the group is refused."`
}

// parse makes the engine's filter of it; errors name the field.
func (f ReplayFilter) parse() (jobs.ReplayFilter, error) {
	out := jobs.ReplayFilter{
		States: f.States, EventID: f.Event, Subject: f.Subject, Type: f.Type, Tenant: f.Tenant, ErrorClass: f.ErrorClass, Status: f.Status, Reason: f.Reason,
	}
	if f.Destination != "" {
		id, err := parseIDField(idDestination, "destination", f.Destination)
		if err != nil {
			return out, err
		}
		out.DestinationID = id
	}
	if f.Letters != "" {
		id, err := parseIDField(idLetters, "dead_letters", f.Letters)
		if err != nil {
			return out, err
		}
		out.Letters = id
	}
	var err error
	if out.Deliveries, err = parseDeliveries(f.Deliveries); err != nil {
		return out, err
	}
	for _, field := range []struct {
		name, text string
		into       **time.Time
	}{
		{"created_from", f.CreatedFrom, &out.CreatedFrom}, {"created_to", f.CreatedTo, &out.CreatedTo},
		{"settled_from", f.SettledFrom, &out.SettledFrom}, {"settled_to", f.SettledTo, &out.SettledTo},
	} {
		if field.text == "" {
			continue
		}
		at, err := parseReplayTime(field.text)
		if err != nil {
			return out, invalid(field.name, "want a time such as 2026-11-30T14:00:00Z")
		}
		*field.into = &at
	}
	return out, nil
}

// parseReplayTime reads RFC 3339, and what a browser's field for date and time sends, which is in UTC here.
func parseReplayTime(text string) (at time.Time, err error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err = time.Parse(layout, text); err == nil && at.Year() >= 1970 && at.Year() < 10000 {
			return at, nil
		}
	}
	return at, errors.New("not a time")
}

func replayFilterOf(stored []byte) (ReplayFilter, error) {
	in, err := jobs.DecodeReplayFilter(stored)
	if err != nil {
		return ReplayFilter{}, err
	}
	f := ReplayFilter{
		States: in.States, Event: in.EventID, Subject: in.Subject, Type: in.Type, Tenant: in.Tenant, ErrorClass: in.ErrorClass, Status: in.Status, Reason: in.Reason,
	}
	if in.DestinationID != 0 {
		f.Destination = formatID(idDestination, in.DestinationID)
	}
	if in.Letters != 0 {
		f.Letters = formatID(idLetters, in.Letters)
	}
	for _, id := range in.Deliveries {
		f.Deliveries = append(f.Deliveries, formatID(idDelivery, id))
	}
	for _, field := range []struct {
		from *time.Time
		into *string
	}{{in.CreatedFrom, &f.CreatedFrom}, {in.CreatedTo, &f.CreatedTo}, {in.SettledFrom, &f.SettledFrom}, {in.SettledTo, &f.SettledTo}} {
		if field.from != nil {
			*field.into = field.from.Format(time.RFC3339Nano)
		}
	}
	return f, nil
}

// ReplayCounts is how far a run is. selected = waiting + sent + refused + left.
type ReplayCounts struct {
	Selected  int `json:"selected"`
	Waiting   int `json:"waiting" doc:"For their turn."`
	Sent      int `json:"sent" doc:"Owed again; those under way are sent - delivered - failed."`
	Delivered int `json:"delivered"`
	Failed    int `json:"failed" doc:"Ended otherwise again."`
	Refused   int `json:"refused"`
	Left      int `json:"left" doc:"Not sent, because the run was stopped; they are as they were."`
}

func (c ReplayCounts) underWay() int { return c.Sent - c.Delivered - c.Failed }

// ReplayView is a run as the API and the panel show it.
type ReplayView struct {
	ID         string       `json:"id" example:"rpl_7"`
	State      string       `json:"state" enum:"running,paused,stopped,done"`
	StateActor string       `json:"state_actor" doc:"Who paused, resumed or stopped it."`
	Actor      string       `json:"actor"`
	Reason     string       `json:"reason"`
	Share      float64      `json:"share" doc:"Of each lane's rate."`
	Filter     ReplayFilter `json:"filter"`
	Selecting  bool         `json:"selecting" doc:"There may be more than has been selected so far."`
	Truncated  bool         `json:"truncated" doc:"More matched than one run takes; start another for the rest."`
	Counts     ReplayCounts `json:"counts"`
	CreatedAt  time.Time    `json:"created_at"`
	FinishedAt *time.Time   `json:"finished_at" doc:"null while something of it may still happen."`

	RowID int64 `json:"-"`
}

// explicit tells whether the deliveries were chosen one by one, not by a filter.
func (v ReplayView) explicit() bool { return v.Filter.Event != "" && len(v.Filter.States) == 0 }

func replayViewOf(r dbsqlc.Replay, waiting, sent, refused, restored, delivered, failed int32) (ReplayView, error) {
	v := ReplayView{
		ID: formatID(idReplay, r.ID), RowID: r.ID, State: r.State, StateActor: r.StateActor, Actor: r.Actor, Reason: r.Reason, Share: r.Share,
		Selecting: r.Selecting, Truncated: r.Truncated, CreatedAt: r.CreatedAt, FinishedAt: r.FinishedAt,
		Counts: ReplayCounts{
			Selected: int(waiting + sent + refused + restored), Waiting: int(waiting), Sent: int(sent), Refused: int(refused), Left: int(restored),
			Delivered: int(delivered), Failed: int(failed),
		},
	}
	if r.State == jobs.ReplayStopped {
		v.Counts.Left, v.Counts.Waiting = v.Counts.Left+v.Counts.Waiting, 0
	}
	var err error
	v.Filter, err = replayFilterOf(r.Filter)
	return v, err
}

func (s *Server) getReplay(ctx context.Context, id int64) (ReplayView, error) {
	row, err := s.queries.ReplayGet(ctx, s.Pool, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return ReplayView{}, &jobs.NotFoundError{What: "replay", ID: formatID(idReplay, id)}
	}
	if err != nil {
		return ReplayView{}, fmt.Errorf("load replay: %w", err)
	}
	sum, err := s.queries.ReplayDestinationSum(ctx, s.Pool, id)
	if err != nil {
		return ReplayView{}, fmt.Errorf("count replay items: %w", err)
	}
	return replayViewOf(row, sum.Waiting, sum.Sent, sum.Refused, sum.Restored, sum.Delivered, sum.Failed)
}

// listReplays is one page, newest first.
func (s *Server) listReplays(ctx context.Context, before int64, limit int) (Page[ReplayView], error) {
	limit = clampLimit(limit)
	rows, err := s.queries.ReplayListPage(ctx, s.Pool, before, int32(limit+1))
	if err != nil {
		return Page[ReplayView]{}, fmt.Errorf("list replays: %w", err)
	}
	page := Page[ReplayView]{Items: []ReplayView{}}
	for i, r := range rows {
		if i == limit {
			page.NextCursor = orNil(formatCursor(rows[i-1].ID))
			break
		}
		v, err := replayViewOf(dbsqlc.Replay{
			ID: r.ID, State: r.State, StateActor: r.StateActor, Actor: r.Actor, Reason: r.Reason, Share: r.Share, Selecting: r.Selecting, Truncated: r.Truncated,
			CreatedAt: r.CreatedAt, FinishedAt: r.FinishedAt, Filter: r.Filter,
		}, r.Waiting, r.Sent, r.Refused, r.Restored, r.Delivered, r.Failed)
		if err != nil {
			return page, err
		}
		page.Items = append(page.Items, v)
	}
	return page, nil
}

// listReplayItems is one page, in order of the deliveries' ids, from after on.
func (s *Server) listReplayItems(ctx context.Context, id, after int64, bad bool, limit int) (Page[ReplayItem], error) {
	limit = clampLimit(limit)
	rows, err := s.queries.ReplayItemList(ctx, s.Pool, dbsqlc.ReplayItemListParams{ReplayID: id, After: after, Max: int32(limit + 1)})
	if bad {
		var some []dbsqlc.ReplayItemListBadRow
		some, err = s.queries.ReplayItemListBad(ctx, s.Pool, dbsqlc.ReplayItemListBadParams{ReplayID: id, After: after, Max: int32(limit + 1)})
		rows = rows[:0]
		for _, row := range some {
			rows = append(rows, dbsqlc.ReplayItemListRow(row))
		}
	}
	if err != nil {
		return Page[ReplayItem]{}, fmt.Errorf("list replay items: %w", err)
	}
	page := Page[ReplayItem]{Items: []ReplayItem{}}
	for i, row := range rows {
		if i == limit {
			page.NextCursor = orNil(formatCursor(rows[i-1].DeliveryID))
			break
		}
		page.Items = append(page.Items, replayItemOf(row))
	}
	return page, nil
}

// replayPart is what a run does at one destination.
type replayPart = dbsqlc.ReplayDestinationListRow

// maxReplayParts is how many of a run's destinations are looked at, those of the most deliveries first.
const maxReplayParts = 1000

// replaySentence says what a run waits for, or how it ended.
func replaySentence(v ReplayView, parts []replayPart, now time.Time) string {
	c := v.Counts
	switch {
	case v.State == jobs.ReplayPaused:
		return fmt.Sprintf("Paused by %s: %s until it is resumed. What was sent already goes on.", cmp.Or(v.StateActor, "somebody"), waitWords(c.Waiting))
	case v.State == jobs.ReplayStopped && v.FinishedAt == nil:
		return fmt.Sprintf("Stopped by %s. %s tried already and end by their destinations' schedules.", cmp.Or(v.StateActor, "somebody"), wereWords(c.underWay()))
	case v.State == jobs.ReplayStopped:
		return fmt.Sprintf("Stopped by %s; %d are left as they were.", cmp.Or(v.StateActor, "somebody"), c.Left)
	case v.State == jobs.ReplayDone:
		return fmt.Sprintf("Done: %d delivered, %d failed again, %d refused.", c.Delivered, c.Failed, c.Refused)
	}
	if c.Waiting == 0 && !v.Selecting {
		return "All are sent; " + fmt.Sprint(c.underWay()) + " have not ended yet."
	}
	return runningSentence(v, parts, now)
}

func runningSentence(v ReplayView, parts []replayPart, now time.Time) string {
	var words []string
	closed, behind, held := 0, 0, 0
	var until time.Time
	lanes := map[int64]float64{}
	for _, p := range parts {
		switch {
		case p.Waiting == 0:
		case p.State == "paused" || p.State == "disabled":
			closed++
			behind += int(p.Waiting)
		case p.Held:
			held++
			if p.HeldUntil.After(until) {
				until = p.HeldUntil
			}
		default:
			pace := math.Max(1, v.Share*float64(p.WindowSize)) // a second, where only the window bounds it
			if p.Rate > 0 {
				pace = v.Share * p.Rate
			}
			lanes[p.LaneID] += float64(p.Waiting) / pace
		}
	}
	if v.Selecting {
		words = append(words, "Still selecting.")
	}
	if closed > 0 {
		words = append(words, fmt.Sprintf("%s paused or disabled: %s until that is resumed.", countWords(closed, "destination is", "destinations are"), waitWords(behind)))
	}
	if held > 0 {
		words = append(words, fmt.Sprintf("%s held by the receiver for another %s.", countWords(held, "destination is", "destinations are"), ui.Span(until.Sub(now))))
	}
	longest := 0.0
	for _, seconds := range lanes {
		longest = math.Max(longest, seconds)
	}
	if len(lanes) > 0 {
		words = append(words, fmt.Sprintf("Sending at %s of each lane: about %s left.", percent(v.Share), ui.Span(time.Duration(math.Min(longest, 1e9)*float64(time.Second)))))
	}
	return strings.Join(words, " ")
}

func countWords(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func waitWords(n int) string { return countWords(n, "delivery waits", "deliveries wait") }

func wereWords(n int) string { return countWords(n, "was", "were") }

func percent(share float64) string { return number(math.Round(share*1000)/10) + " %" }
