package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"weir/jobs"
	"weir/web/ui"
)

func (s *Server) destinationPause(c echo.Context) error {
	return s.destinationAction(c, "Paused. What is owed to it waits here.", func(ctx context.Context, d Destination) error {
		reason, err := reasonOf(c)
		if err != nil {
			return err
		}
		return s.pauseDestination(ctx, d.RowID, reason)
	})
}

func (s *Server) destinationResume(c echo.Context) error {
	return s.destinationAction(c, "Resumed. What waited is sent from now on, at the destination's pace.", func(ctx context.Context, d Destination) error {
		return s.resumeDestination(ctx, d.RowID)
	})
}

func (s *Server) destinationDisable(c echo.Context) error {
	return s.destinationAction(c, "Disabled. What is owed to it waits here until somebody resumes it.", func(ctx context.Context, d Destination) error {
		reason, err := reasonOf(c)
		if err != nil {
			return err
		}
		return s.disableDestination(ctx, d.RowID, reason)
	})
}

func (s *Server) destinationDrain(c echo.Context) error {
	return s.destinationAction(c, "It drains: new events are not owed to it, and what it is owed already goes out.", func(ctx context.Context, d Destination) error {
		reason, err := reasonOf(c)
		if err != nil {
			return err
		}
		return s.drainDestination(ctx, d.RowID, reason)
	})
}

func (s *Server) destinationUndrain(c echo.Context) error {
	return s.destinationAction(c, "It takes new events again.", func(ctx context.Context, d Destination) error {
		return s.undrainDestination(ctx, d.RowID)
	})
}

// reasonOf is why somebody does it; it may be empty.
func reasonOf(c echo.Context) (string, error) {
	reason := strings.TrimSpace(c.FormValue("reason"))
	if err := checkText("reason", reason); err != nil {
		return "", err
	}
	if len(reason) > 500 {
		return "", invalid("reason", "is longer than 500 bytes")
	}
	return reason, nil
}

func (s *Server) destinationDelete(c echo.Context) error {
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	err = s.deleteDestination(c.Request().Context(), d.RowID, "the destination was deleted by "+actor(c))
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, "/destinations/"+d.ID, refusal)
	}
	if err != nil {
		return err
	}
	return s.done(c, "/destinations", "“"+d.Name+"” is deleted. What it was still owed is cancelled; its history stays.")
}

// destinationAction does something to the destination and leads back to its page, with what came of it.
func (s *Server) destinationAction(c echo.Context, notice string, act func(context.Context, Destination) error) error {
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	err = act(c.Request().Context(), d)
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, "/destinations/"+d.ID, refusal)
	}
	if err != nil {
		return err
	}
	return s.done(c, "/destinations/"+d.ID, notice)
}

// asRefusal makes a sentence of an error that the person who asked can do something about.
func asRefusal(err error) (string, bool) {
	var wrong *jobs.InvalidError
	var conflict *jobs.ConflictError
	switch {
	case errors.As(err, &wrong):
		return "Nothing was done. " + capital(wrong.Field+" "+wrong.Problem), true
	case errors.As(err, &conflict):
		return "Nothing was done: " + strings.TrimSuffix(conflict.Problem, ".") + ".", true
	}
	return "", false
}

type secretModel struct {
	Frame  ui.Frame
	D      Destination
	Secret string
	Said   string
}

// destinationRotate answers with the page that shows the secret, this once: it is not to lie in a session until a redirect has come back.
func (s *Server) destinationRotate(c echo.Context) error {
	d, err := s.destinationParam(c)
	if err != nil {
		return err
	}
	overlap, err := parseDuration("overlap", c.FormValue("overlap"))
	var secret string
	if err == nil {
		secret, err = s.rotateSecret(c.Request().Context(), d.RowID, overlap)
	}
	if refusal, ok := asRefusal(err); ok {
		return s.refused(c, "/destinations/"+d.ID, refusal)
	}
	if err != nil {
		return err
	}
	said := "From the next request on both secrets sign, the old one for another " + formatDuration(overlap) + "."
	if overlap == 0 {
		said = "From the next request on only this secret signs."
	}
	return s.showSecret(c, d, secret, said)
}

func (s *Server) showSecret(c echo.Context, d Destination, secret, said string) error {
	m := secretModel{Frame: s.frame(c, "destinations", "Signing secret of "+d.Name), D: d, Secret: secret, Said: said}
	return render(c, http.StatusOK, secretView(m))
}
