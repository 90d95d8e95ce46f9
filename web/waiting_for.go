package web

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"weir/db/dbsqlc"
)

// workers is what is known of the processes that send.
type workers struct {
	now   time.Time
	alive bool
	seen  time.Time // the last beat of one that sends; zero: none is on record
}

func (s *Server) workers(ctx context.Context) (workers, error) {
	rows, err := s.queries.ProcessList(ctx, s.Pool)
	if err != nil {
		return workers{}, fmt.Errorf("list processes: %w", err)
	}
	w := workers{now: time.Now()}
	for _, row := range rows {
		if !slices.Contains(row.Roles, "work") {
			continue
		}
		w.alive = w.alive || row.Alive
		if row.BeatAt.After(w.seen) {
			w.seen = row.BeatAt
		}
	}
	return w, nil
}

// waitingFor names the one constraint that keeps a delivery from being sent now. ahead is how many wait before it, -1 where that was not
// counted. The order is that of admission: what would be refused first is what it waits for.
func waitingFor(row dbsqlc.DeliveryListViewRow, w workers, ahead int) string {
	held := time.UnixMicro(row.HeldUs)
	switch {
	case row.SettledAt != nil:
		return ""
	case row.RequestStartedAt != nil && row.RequestLeaseUntil != nil && row.RequestLeaseUntil.Before(w.now):
		return "the outcome of its last request: the process that sent it is gone, and it is taken up again shortly"
	case row.RequestStartedAt != nil && row.RequestStartedAt.After(w.now):
		return "its turn: it leaves at " + clock(*row.RequestStartedAt, w.now)
	case row.RequestStartedAt != nil:
		return "a request is under way since " + clock(*row.RequestStartedAt, w.now)
	case row.DestinationState == "paused":
		return "the destination is paused" + withReason(row.DestinationReason)
	case row.DestinationState == "disabled":
		return "the destination is disabled" + withReason(row.DestinationReason)
	case row.Blocked:
		return "an older version of the same subject, which has not ended: this destination takes them one after another"
	case held.After(w.now):
		return "the receiver asked to wait until " + clock(held, w.now) + " (" + holdStatus(row.LastStatus) + ")"
	case row.DueAt.After(w.now):
		return "the next try at " + clock(row.DueAt, w.now) + afterWhat(row)
	case !w.alive && w.seen.IsZero():
		return "a worker: none has been seen yet"
	case !w.alive:
		return "a worker: none has been seen for " + roughly(w.now.Sub(w.seen))
	case row.Parked:
		return "its turn: " + queueBefore(row, ahead) + pace(row.Rate)
	case row.MaxInFlight != nil && row.LaneInFlight >= *row.MaxInFlight:
		return fmt.Sprintf("a place: %d requests are under way, as many as the lane allows", row.LaneInFlight)
	default:
		return "a worker: it is next in line"
	}
}

func withReason(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func holdStatus(last *int32) string {
	if last != nil && (*last == 429 || *last == 503) {
		return strconv.Itoa(int(*last))
	}
	return "429 or 503"
}

func afterWhat(row dbsqlc.DeliveryListViewRow) string {
	switch {
	case row.State != "retrying":
		return ""
	case row.LastStatus != nil:
		return fmt.Sprintf(", after a %d", *row.LastStatus)
	case row.LastErrorClass != "":
		return ", after " + strings.ReplaceAll(row.LastErrorClass, "_", " ")
	default:
		return ""
	}
}

func queueBefore(row dbsqlc.DeliveryListViewRow, ahead int) string {
	switch {
	case ahead < 0:
		return humanize.Comma(int64(row.LaneParked)) + " wait in its lane"
	case ahead == 0:
		return "it is the first in line"
	case ahead == 1:
		return "1 waits before it"
	case ahead >= maxWaiting:
		return "more than " + humanize.Comma(maxWaiting) + " wait before it"
	default:
		return humanize.Comma(int64(ahead)) + " wait before it"
	}
}

func pace(rate *float64) string {
	if rate == nil {
		return ""
	}
	return fmt.Sprintf(" at %s/s", strconv.FormatFloat(*rate, 'g', 4, 64))
}

// clock is a time of day in UTC, with its date when that is not plain.
func clock(at, now time.Time) string {
	at = at.UTC()
	if d := at.Sub(now); d > 12*time.Hour || d < -12*time.Hour {
		return at.Format("2 Jan 15:04 UTC")
	}
	return at.Format("15:04:05 UTC")
}

func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
}

// excerptText is a receiver's bytes as text: what is not UTF-8, and control characters but for white space, become a replacement.
func excerptText(raw []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(string(raw), "\uFFFD"))
}
