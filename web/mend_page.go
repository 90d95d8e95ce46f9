package web

import (
	"context"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

type mendRow = dbsqlc.Mend

// Mend is one thing that Weir put right.
type Mend struct {
	At       time.Time `json:"at"`
	What     string    `json:"what" example:"job_deleted"`
	Sentence string    `json:"sentence"`
}

const (
	mendPageSize     = 50
	maxDeliveryMends = 20
)

type mendListModel struct {
	Frame        ui.Frame
	Now          time.Time
	Rows         []mendRow
	Self         string
	Newer, Older string
}

// mendListPage is what was put right between the ledger, the lanes' counters and River's jobs, newest first.
func (s *Server) mendListPage(c echo.Context) error {
	m := mendListModel{Frame: s.frame(c, "overview", "Mended")}
	m.Now = m.Frame.Now
	before := beforeParam(c, "before")
	rows, err := s.queries.MendList(c.Request().Context(), s.Pool, before, mendPageSize+1)
	if err != nil {
		return fmt.Errorf("list mends: %w", err)
	}
	m.Self = query("/mends", "before", param(before))
	if before != firstPage {
		m.Newer = "/mends"
	}
	if len(rows) > mendPageSize {
		rows = rows[:mendPageSize]
		m.Older = query("/mends", "before", param(rows[mendPageSize-1].ID))
	}
	m.Rows = rows
	return renderLive(c, mendListView(m), mendListRegion(m))
}

func (s *Server) deliveryMends(ctx context.Context, id int64) ([]Mend, error) {
	rows, err := s.queries.MendListByDelivery(ctx, s.Pool, id, maxDeliveryMends)
	if err != nil {
		return nil, fmt.Errorf("load mends: %w", err)
	}
	mends := make([]Mend, len(rows))
	for i, row := range rows {
		mends[i] = Mend{row.At, row.What, row.Sentence}
	}
	return mends, nil
}

// mendWords are the kinds in words.
var mendWords = map[string]string{
	"job_deleted": "job was deleted", "job_cancelled": "job was cancelled", "job_discarded": "job was discarded",
	"job_completed": "job was completed", "job_foreign": "job was another's", "job_asleep": "job slept", "process_died": "process died",
	"attempt_lost": "request not counted", "job_unowned": "job was nobody's", "lane_counters": "lane counters", "delivery_missing": "delivery missing",
}

func mendWord(what string) string {
	if words, known := mendWords[what]; known {
		return words
	}
	return what
}
