package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"weir/jobs"
)

const (
	maxBatchLines = 10_000
	maxBatchChunk = 500
	// maxBatchBytes ends a chunk early, so that large events do not pile up in memory.
	maxBatchBytes = 4 << 20
	// maxBatchDrain is how much of an overlong batch is read and thrown away, so that a caller who is still sending gets the answer.
	maxBatchDrain = 64 << 20
)

// batchLine is the answer to one line.
type batchLine struct {
	Line      int      `json:"line" doc:"Counted from 1; blank lines count."`
	ID        string   `json:"id,omitempty"`
	Duplicate *bool    `json:"duplicate,omitempty"`
	Error     *Problem `json:"error,omitempty"`
}

// mountEventBatch adds the batch to the router itself: it streams both ways, which huma does not.
func (s *Server) mountEventBatch(api huma.API, group *echo.Group) {
	op := operation(http.MethodPost, "/events/batch", "publish-events", ScopePublish, "Hand in many events, one a line (NDJSON)")
	op.Description = fmt.Sprintf("Each line is the body of POST /events. One line comes back per line that is not blank, in order, as soon as it is committed; "+
		"a line that is refused does not stop the others. At most %d lines.", maxBatchLines)
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/x-ndjson": {Schema: &huma.Schema{Type: "string"}}}}
	op.Responses = map[string]*huma.Response{"200": {
		Description: "One result a line.",
		Content:     map[string]*huma.MediaType{"application/x-ndjson": {Schema: api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[batchLine](), true, "")}},
	}}
	api.OpenAPI().AddOperation(&op)
	group.POST("/events/batch", s.publishBatch)
}

func (s *Server) publishBatch(c echo.Context) error {
	ctx := c.Request().Context()
	if _, err := s.authorize(ctx, c.Request().Header.Get("Authorization"), ScopePublish); err != nil {
		return err
	}
	// Without this, an HTTP/1.1 server reads the whole body before it sends the first line. Where it is not possible, the lines wait.
	_ = http.NewResponseController(c.Response()).EnableFullDuplex()
	c.Response().Header().Set(echo.HeaderContentType, "application/x-ndjson")
	c.Response().WriteHeader(http.StatusOK)

	out := newLineWriter(c.Response())
	defer out.close()
	batch := &batch{server: s, out: out}
	return batch.run(ctx, c.Request().Body)
}

// batch reads lines and publishes them a chunk at a time.
type batch struct {
	server *Server
	out    *lineWriter
	lines  []batchLine  // of this chunk, in order; those without an error stand for the events
	events []jobs.Event // of this chunk
	bytes  int
}

func (b *batch) run(ctx context.Context, body io.Reader) error {
	limit := b.server.envelopeLimit()
	reader := bufio.NewReaderSize(body, 256<<10)
	for n := 1; ; n++ {
		line, tooLong, err := readLine(reader, limit)
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			b.flush(ctx)
			b.out.write(batchLine{Line: n, Error: newProblem(http.StatusBadRequest, "The body ended before its end; this line was not taken.")})
			return nil
		}
		if len(line) > 0 || tooLong {
			if n > maxBatchLines {
				b.flush(ctx)
				b.out.write(batchLine{Line: n, Error: newProblem(http.StatusRequestEntityTooLarge,
					fmt.Sprintf("A batch has at most %d lines; this one and those after it were not taken.", maxBatchLines))})
				_, _ = io.CopyN(io.Discard, reader, maxBatchDrain) // see there
				return nil
			}
			b.add(ctx, n, line, tooLong, limit)
		}
		// Nothing more is here yet: what was read is answered now, for a caller who waits for it.
		if last || len(b.events) >= maxBatchChunk || b.bytes >= maxBatchBytes || reader.Buffered() == 0 {
			b.flush(ctx)
		}
		if last {
			return nil
		}
	}
}

func (b *batch) add(ctx context.Context, n int, line []byte, tooLong bool, limit int) {
	if tooLong {
		p := newProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("The line is longer than the limit of %d bytes.", limit))
		b.lines = append(b.lines, batchLine{Line: n, Error: p})
		return
	}
	event, err := jobs.ParseEvent(line)
	if err != nil {
		b.lines = append(b.lines, batchLine{Line: n, Error: b.server.problem(ctx, err)})
		return
	}
	b.lines = append(b.lines, batchLine{Line: n})
	b.events = append(b.events, event)
	b.bytes += len(line)
}

func (b *batch) flush(ctx context.Context) {
	if len(b.lines) == 0 {
		return
	}
	var results []jobs.Result
	if len(b.events) > 0 {
		results = b.server.Engine.PublishMany(ctx, b.events)
	}
	next := 0
	for _, line := range b.lines {
		if line.Error == nil {
			var result jobs.Result
			if next < len(results) {
				result = results[next]
			} else {
				result.Err = errors.New("publish answered fewer results than events")
			}
			next++
			if result.Err != nil {
				line.Error = b.server.problem(ctx, result.Err)
			} else {
				line.ID, line.Duplicate = result.Receipt.ID, &result.Receipt.Duplicate
			}
		}
		b.out.write(line)
	}
	b.out.flush()
	b.lines, b.events, b.bytes = b.lines[:0], nil, 0
}

// readLine returns the next line without its end and the white space around it. A line over the limit is skipped to its end. io.EOF comes
// with the last line.
func readLine(r *bufio.Reader, limit int) (line []byte, tooLong bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !tooLong {
			line = append(line, part...)
			tooLong = len(bytes.TrimRight(line, "\r\n")) > limit
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case tooLong:
			return nil, true, err
		default:
			return bytes.TrimSpace(line), false, err
		}
	}
}

// lineWriter writes the answers from a goroutine of its own. A caller who sends everything before reading anything would otherwise make
// both sides wait for each other once the buffers between them are full. What waits is bounded by the number of lines.
type lineWriter struct {
	mu     sync.Mutex
	buffer bytes.Buffer
	wake   chan struct{}
	done   chan struct{}
}

func newLineWriter(w *echo.Response) *lineWriter {
	l := &lineWriter{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		var failed bool
		for range l.wake {
			l.mu.Lock()
			data := bytes.Clone(l.buffer.Bytes())
			l.buffer.Reset()
			l.mu.Unlock()
			if failed || len(data) == 0 {
				continue
			}
			if _, err := w.Write(data); err != nil {
				failed = true
				continue
			}
			if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
				failed = true
			}
		}
	}()
	return l
}

func (l *lineWriter) write(line batchLine) {
	data, err := json.Marshal(line)
	if err != nil {
		return // ids and sentences always can be
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buffer.Write(data)
	l.buffer.WriteByte('\n')
}

func (l *lineWriter) flush() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake already and will take this, too
	}
}

// close waits until everything is written.
func (l *lineWriter) close() {
	l.flush()
	close(l.wake)
	<-l.done
}
