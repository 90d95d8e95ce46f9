package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/web/ui"
)

func destinationOptions(rows []dbsqlc.OverviewListDestinationNameRow, current string) []ui.Option {
	options := []ui.Option{{Value: "", Label: "Any"}}
	known := current == ""
	for _, row := range rows {
		o := ui.Option{Value: formatID(idDestination, row.ID), Label: clip(ui.Plain(row.Name), 60)}
		if row.DeletedAt != nil {
			o.Label += " (deleted)"
		}
		known = known || o.Value == current
		options = append(options, o)
	}
	if !known {
		options = append(options, ui.Option{Value: current, Label: current})
	}
	return options
}

// recentDeliveries are the newest, of one destination where id is not 0.
func (s *Server) recentDeliveries(ctx context.Context, id int64, limit int) ([]deliveryRow, error) {
	page, err := s.listDeliveries(ctx, deliveryFilter{DestinationID: id, Limit: limit})
	return page.Items, err
}

// deliveryIDOf finds the delivery of an event to a destination; 0 where there is none yet.
func (s *Server) deliveryIDOf(ctx context.Context, eventID string, destinationID int64) (int64, error) {
	page, err := s.listDeliveries(ctx, deliveryFilter{EventID: eventID, DestinationID: destinationID, Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return 0, err
	}
	return page.Items[0].RowID, nil
}

// every is how often the page asks for news: seldom once the delivery has ended.
func (m deliveryModel) every() string {
	if m.Settled {
		return "15s"
	}
	return "2s"
}

type deliveryModel struct {
	Frame    ui.Frame
	Now      time.Time
	D        DeliveryDetail
	Replays  []dbsqlc.ReplayListByDeliveryRow
	Payload  payloadModel
	Request  *requestModel
	Timeline []timelineItem // newest first
	Settled  bool
	Refusal  string // why it cannot be replayed now
	Deleted  bool
	Attempts []Attempt // newest first
}

func (s *Server) deliveryPage(c echo.Context) error {
	ctx := c.Request().Context()
	id, err := parseID(idDelivery, c.Param("id"))
	if err != nil {
		return err
	}
	m := deliveryModel{}
	if m.D, err = s.getDelivery(ctx, id); err != nil {
		return err
	}
	m.Frame = s.frame(c, "deliveries", "Delivery "+m.D.ID)
	m.Now = m.Frame.Now
	m.Settled, m.Deleted = m.D.SettledAt != nil, m.D.DestinationState == "deleted"
	switch {
	case !m.Settled:
		m.Refusal = "It is still being delivered."
	case m.Deleted:
		m.Refusal = "Its destination was deleted."
	case m.D.DestinationState != "active":
		m.Refusal = "Its destination is " + m.D.DestinationState + "; resume that first."
	}
	m.Attempts = slices.Clone(m.D.AttemptLog)
	slices.Reverse(m.Attempts)
	m.Timeline = timelineOf(m.D.CreatedAt, m.D.AttemptLog)
	slices.Reverse(m.Timeline)
	if m.Replays, err = s.queries.ReplayListByDelivery(ctx, s.Pool, id, 50); err != nil {
		return fmt.Errorf("list replays: %w", err)
	}
	if isFragment(c) {
		return render(c, http.StatusOK, deliveryRegion(m))
	}
	if chosen := chosenAttempt(m.Attempts, c.QueryParam("attempt")); chosen != nil {
		if m.Request, err = s.requestOf(ctx, m.D.Delivery, *chosen); err != nil {
			return err
		}
	}
	event, err := s.findEvent(ctx, m.D.EventID)
	if err != nil {
		return err
	}
	if m.Payload, err = s.readPayload(c, m.Frame, event, "/deliveries/"+m.D.ID); err != nil {
		return err
	}
	return render(c, http.StatusOK, deliveryView(m))
}

func (s *Server) deliveryReplay(c echo.Context) error {
	ctx := c.Request().Context()
	id, err := parseID(idDelivery, c.Param("id"))
	if err != nil {
		return err
	}
	d, err := s.getDelivery(ctx, id)
	if err != nil {
		return err
	}
	here := "/deliveries/" + d.ID
	result, err := s.Engine.Replay(ctx, jobs.ReplayRequest{
		EventID: d.EventID, DestinationID: &d.DestinationRowID, Actor: actor(c), Reason: strings.TrimSpace(c.FormValue("reason")),
		Also: s.auditReplay,
	})
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, here, refusal)
	}
	if err != nil {
		return err
	}
	if result.Sent == 0 {
		refusal := "it cannot be sent again"
		if len(result.Items) > 0 && result.Items[0].Refusal != "" {
			refusal = result.Items[0].Refusal
		}
		return s.refused(c, here, "Nothing was sent: "+refusal+".")
	}
	return s.done(c, here, "It is owed again, and goes out at the destination's pace. What comes of it appears below.")
}
