package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"weir/db/dbsqlc"
)

// How much is looked at, so that the page costs the same with a thousand destinations that are not well.
const (
	attentionRows    = 500              // destinations about which there is anything to say
	attentionDeep    = 20               // of each kind, those that are looked into
	attentionFirst   = 8                // sentences that are seen at once
	attentionShown   = 30               // sentences on the page
	attentionMinutes = 15 * time.Minute // what "now" is, for shares and rates
)

// concerns are all that somebody should look at, the worst first, ours included.
func (s *Server) concerns(ctx context.Context, m machine, now time.Time) ([]concern, error) {
	since := now.Add(-attentionMinutes).Truncate(time.Minute)
	rows, err := s.queries.AttentionListDestination(ctx, s.Pool, dbsqlc.AttentionListDestinationParams{Since: since, Max: attentionRows})
	if err != nil {
		return nil, fmt.Errorf("list destinations that need attention: %w", err)
	}
	dead, err := s.deadGroups(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]figures, len(rows))
	for i, row := range rows {
		all[i].AttentionListDestinationRow, all[i].Dead = row, dead[row.ID]
		delete(dead, row.ID)
	}
	if all, err = s.addQuiet(ctx, all, dead); err != nil {
		return nil, err
	}
	if err := s.addHistory(ctx, all); err != nil {
		return nil, err
	}
	if err := s.addHeads(ctx, all); err != nil {
		return nil, err
	}
	found := usConcerns(m, now)
	for _, f := range all {
		found = append(found, destinationConcerns(f, now)...)
	}
	return worstFirst(append(found, laneConcerns(all, now.Sub(since), now)...)), nil
}

// addQuiet adds the destinations with dead letters about which there is nothing else to say.
func (s *Server) addQuiet(ctx context.Context, all []figures, dead map[int64][]deadGroup) ([]figures, error) {
	if len(dead) == 0 {
		return all, nil
	}
	ids := make([]int64, 0, len(dead))
	for id := range dead {
		ids = append(ids, id)
	}
	names, err := s.queries.AttentionListName(ctx, s.Pool, ids)
	if err != nil {
		return nil, fmt.Errorf("list names of destinations: %w", err)
	}
	for _, row := range names {
		f := figures{Dead: dead[row.ID]}
		f.ID, f.Name, f.State, f.LaneID = row.ID, row.Name, row.State, row.LaneID
		all = append(all, f)
	}
	return all, nil
}

// deadGroups are the open groups of the inbox by destination; of what was refused for what it is, whether others of its type get through.
func (s *Server) deadGroups(ctx context.Context) (map[int64][]deadGroup, error) {
	rows, err := s.queries.AttentionListDead(ctx, s.Pool)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	groups := map[int64][]deadGroup{}
	var ids []int64
	var types []string
	for _, row := range rows {
		g := deadGroup{Type: row.Type, Status: row.Status, Class: row.ErrorClass, N: row.Open, First: row.FirstAt, Last: row.LastSeen, PassedUnknown: true}
		groups[row.DestinationID] = append(groups[row.DestinationID], g)
		if g.aboutWhatWasSent() && len(ids) < attentionDeep {
			ids, types = append(ids, row.DestinationID), append(types, row.Type)
		}
	}
	if len(ids) == 0 {
		return groups, nil
	}
	passed, err := s.queries.AttentionListPassed(ctx, s.Pool, ids, types)
	if err != nil {
		return nil, fmt.Errorf("count what got through: %w", err)
	}
	for _, row := range passed {
		for i := range groups[row.DestinationID] {
			if g := &groups[row.DestinationID][i]; g.Type == row.Type {
				g.Passed, g.PassedUnknown = row.Passed, false
			}
		}
	}
	return groups, nil
}

// addHistory loads what the failing receivers answered before, to say since when.
func (s *Server) addHistory(ctx context.Context, all []figures) error {
	at := map[int64]*figures{}
	var ids []int64
	for i := range all {
		if f := &all[i]; f.failed() > 0 {
			ids, at[f.ID] = append(ids, f.ID), f
		}
	}
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(at[b].failed(), at[a].failed()) })
	ids = ids[:min(len(ids), attentionDeep)]
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.queries.AttentionListTally(ctx, s.Pool, ids)
	if err != nil {
		return fmt.Errorf("list answers: %w", err)
	}
	for _, row := range rows {
		f := at[row.DestinationID]
		if n := len(f.History); row.StepS == 3600 && n > 0 && row.At.Add(time.Hour).After(f.History[n-1].At) {
			continue // told by its minutes
		}
		f.History = append(f.History, answersAt{At: row.At, Requests: row.Requests, Failed: row.ServerError + row.TimedOut + row.Network})
	}
	return nil
}

// addHeads loads the first in line of the longest lines.
func (s *Server) addHeads(ctx context.Context, all []figures) error {
	at := map[int64]*figures{}
	var ids []int64
	for i := range all {
		if f := &all[i]; f.Waiting > 0 && f.State == "active" && !f.Held && len(ids) < 5*attentionDeep {
			ids, at[f.ID] = append(ids, f.ID), f
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.queries.AttentionListHead(ctx, s.Pool, ids)
	if err != nil {
		return fmt.Errorf("find the first in line: %w", err)
	}
	for _, row := range rows {
		at[row.ID].HeadDue, at[row.ID].HeadExpires = row.DueAt, row.ExpiresAt
	}
	return nil
}

// laneConcerns are about lines: one for a lane, whoever shares it. over is the time that the sums of all are of. A line that stands for
// another reason than its pace is not told here.
func laneConcerns(all []figures, over time.Duration, now time.Time) []concern {
	lines := map[int64]*line{}
	first := map[int64]figures{}
	var order []int64
	sums := map[int64][2]int64{} // of a lane: time of answers, requests
	for _, f := range all {
		if _, stopped := stateConcern(f, now); stopped || f.Held || f.Waiting == 0 {
			continue
		}
		if c, failing := healthConcern(f, now); failing && c.Tone == "bad" {
			continue
		}
		l := lines[f.LaneID]
		if l == nil {
			l = &line{Waiting: int64(f.Waiting), Allowed: f.Pace}
			if f.MaxInFlight != nil {
				l.AtOnce = int64(*f.MaxInFlight)
			}
			lines[f.LaneID], first[f.LaneID], order = l, f, append(order, f.LaneID)
		}
		l.Arriving += float64(f.Arrived) / over.Seconds()
		l.TTL = max(l.TTL, time.Duration(f.TtlS)*time.Second)
		if left := f.HeadExpires.Sub(now); !f.HeadExpires.IsZero() && (!l.Known || left < l.Remaining) {
			l.Remaining, l.Known = left, true
		}
		sum := sums[f.LaneID]
		sums[f.LaneID] = [2]int64{sum[0] + f.TookUs, sum[1] + f.Requests}
	}
	var found []concern
	for _, id := range order {
		l, f := lines[id], first[id]
		if sum := sums[id]; sum[1] > 0 {
			l.Took = time.Duration(sum[0]/sum[1]) * time.Microsecond
		}
		if c, ok := l.concern(); ok {
			c.Name, c.Href = f.Name, "/lanes/"+formatID(idLane, id)
			if f.Sharing > 1 {
				c.Name = "lane " + f.LaneName
			}
			found = append(found, c)
		}
	}
	return found
}
