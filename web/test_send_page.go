package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"weir/jobs"
	"weir/web/ui"
)

// testSendModel is a test event's whole exchange, as far as it has come.
type testSendModel struct {
	Frame   ui.Frame
	Now     time.Time
	D       Destination
	T       DeliveryDetail
	Attempt *Attempt // the newest that was answered, or is under way; nil: none was made yet
	Request *requestModel
	Payload string
}

func (m testSendModel) path() string { return "/destinations/" + m.D.ID + "/tests/" + m.T.ID }

// every is how often the page asks for news: seldom once there is an answer.
func (m testSendModel) every() string {
	if m.answered() {
		return "15s"
	}
	return "1s"
}

func (m testSendModel) answered() bool { return m.Attempt != nil && m.Attempt.Verdict != nil }

// destinationTest sends a test event and leads to its page, which shows the answer when it comes.
func (s *Server) destinationTest(c echo.Context) error {
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	receipt, err := s.sendTest(ctx, d.RowID, d.Name)
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, "/destinations/"+d.ID, refusal)
	}
	if err != nil {
		return err
	}
	id, err := s.deliveryIDOf(ctx, receipt.ID, d.RowID)
	if err != nil {
		return err
	}
	if id == 0 {
		return s.done(c, query("/deliveries", "event", receipt.ID), "The test event is taken; its delivery appears here.")
	}
	return c.Redirect(http.StatusSeeOther, "/destinations/"+d.ID+"/tests/"+formatID(idDelivery, id))
}

func (s *Server) testSendPage(c echo.Context) error {
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	id, err := parseID(idDelivery, c.Param("delivery"))
	if err != nil {
		return err
	}
	m := testSendModel{D: d, Frame: s.frame(c, "destinations", "Test of "+d.Name)}
	m.Now = m.Frame.Now
	if err := s.fillTestSend(c.Request().Context(), &m, id); err != nil {
		return err
	}
	return renderLive(c, testSendView(m), testSendRegion(m))
}

// fillTestSend reads the delivery, which has to be a test event's to this destination: other payloads are masked, on their own page.
func (s *Server) fillTestSend(ctx context.Context, m *testSendModel, id int64) (err error) {
	if m.T, err = s.getDelivery(ctx, id); err != nil {
		return err
	}
	payload, err := s.queries.DestinationTestPayload(ctx, s.Pool, m.T.EventID, m.D.RowID)
	if errors.Is(err, pgx.ErrNoRows) {
		return &jobs.NotFoundError{What: "test", ID: m.T.ID}
	}
	if err != nil {
		return fmt.Errorf("load payload: %w", err)
	}
	m.Payload = excerptText(payload)
	if n := len(m.T.AttemptLog); n > 0 {
		m.Attempt = &m.T.AttemptLog[n-1]
		if m.Request, err = s.requestOf(ctx, m.T.Delivery, *m.Attempt); err != nil {
			return err
		}
	}
	return nil
}
