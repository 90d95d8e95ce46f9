package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// livePath is where browsers are told what has changed.
const livePath = "/live"

const (
	maxRegions    = 8
	liveBeat      = 15 * time.Second // live.js takes a stream for dead after three
	liveWriteTime = 10 * time.Second // for one message; a browser that does not read it has gone
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// liveStream is server-sent events for one page: which of its regions, given as on=…, have changed, by their place in the address. Each
// region is named once at the beginning. The stream ends with its session. 503 with Retry-After: no more pages are kept current.
func (s *Server) liveStream(c echo.Context) error {
	regions := c.QueryParams()["on"]
	if len(regions) == 0 || len(regions) > maxRegions {
		return newProblem(http.StatusBadRequest, "Name one to eight regions of a page, each as on=…", FieldError{Field: "on", Message: "want the address that a region refreshes itself from"})
	}
	wants := make([]want, len(regions))
	for i, region := range regions {
		wants[i] = wantOf(region)
	}
	w, err := s.feed.join(s.sessionHash(c.Request().Context()), wants)
	if errors.Is(err, errFeedFull) || errors.Is(err, errFeedClosed) {
		c.Response().Header().Set("Retry-After", "30")
		return newProblem(http.StatusServiceUnavailable, capital(err.Error())+" The page refreshes itself less often instead.")
	}
	if err != nil {
		return err
	}
	defer s.feed.leave(w)

	h := c.Response().Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep the messages to itself
	stream := liveWriter{c.Response(), http.NewResponseController(c.Response())}
	// The server's limit on reading a request would end the stream; the limit on writing is set for each message.
	_ = stream.control.SetReadDeadline(time.Time{})
	defer func() { _ = stream.control.SetWriteDeadline(time.Time{}) }()
	c.Response().WriteHeader(http.StatusOK)
	s.streamChanges(c, w, stream)
	return nil
}

// streamChanges writes until either side ends it.
func (s *Server) streamChanges(c echo.Context, w *watcher, stream liveWriter) {
	beat := time.NewTicker(liveBeat)
	defer beat.Stop()
	if stream.send("hello", "{}") != nil {
		return
	}
	for {
		var err error
		select {
		case <-c.Request().Context().Done():
			return
		case why := <-w.ended:
			_ = stream.send("end", strconv.Quote(why))
			return
		case <-w.wake:
			regions, pace := s.feed.take(w)
			var data []byte
			if data, err = json.Marshal(map[string]any{"regions": regions, "pace": pace.Milliseconds()}); err == nil {
				err = stream.send("change", string(data))
			}
		case <-beat.C:
			err = stream.send("beat", "{}")
		}
		if err != nil {
			return
		}
	}
}

type liveWriter struct {
	response *echo.Response
	control  *http.ResponseController
}

func (w liveWriter) send(event, data string) error {
	_ = w.control.SetWriteDeadline(time.Now().Add(liveWriteTime)) // not every writer has one
	var b strings.Builder
	b.WriteString("event: " + event + "\ndata: " + data + "\n\n")
	if _, err := w.response.Write([]byte(b.String())); err != nil {
		return err
	}
	return w.control.Flush()
}
