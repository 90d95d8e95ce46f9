package web

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"weir/web/ui"
)

// An export is read page by page, so that it holds no more than one page and no snapshot that would keep the ledger from being cleaned up.
const (
	exportLimit = 100_000
	exportPage  = 1_000
	exportTime  = 10 * time.Minute
)

// exportedDelivery is a line of an export: what the list shows, without payloads.
type exportedDelivery struct {
	ID              string     `json:"id"`
	EventID         string     `json:"event_id"`
	Type            string     `json:"type"`
	Subject         string     `json:"subject"`
	Tenant          string     `json:"tenant"`
	DestinationID   string     `json:"destination_id"`
	DestinationName string     `json:"destination_name"`
	State           string     `json:"state"`
	Attempts        int        `json:"attempts"`
	LastStatus      *int32     `json:"last_status"`
	LastErrorClass  string     `json:"last_error_class"`
	Reason          string     `json:"reason"`
	WaitingFor      string     `json:"waiting_for"`
	CreatedAt       time.Time  `json:"created_at"`
	SettledAt       *time.Time `json:"settled_at"`
}

// exporter writes lines in one format. Its errors are those of the connection.
type exporter interface {
	line(exportedDelivery) error
	end(note string) error // note: that there is more, or empty
	flush() error
}

// deliveryExport streams what a filter has as a file, newest first. What goes wrong half way breaks the transfer off, so that nobody takes
// half a file for all of it.
func (s *Server) deliveryExport(c echo.Context) error {
	q := readDeliveryQuery(c)
	filter, problems := q.parse(time.Now())
	if len(problems) > 0 {
		return &problems[0]
	}
	w, err := s.plan(c.Request().Context(), filter)
	if err != nil {
		return err
	}
	format := c.QueryParam("format")
	if format != "csv" && format != "ndjson" {
		return invalid("format", "want csv or ndjson")
	}
	res := c.Response()
	out := bufio.NewWriterSize(res, 64<<10)
	var to exporter = &ndjsonExporter{out: out, enc: json.NewEncoder(out)}
	contentType := "application/x-ndjson"
	if format == "csv" {
		to, contentType = newCSVExporter(out), "text/csv; charset=utf-8"
	}
	h := res.Header()
	h.Set(echo.HeaderContentType, contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", `attachment; filename="deliveries-`+time.Now().UTC().Format("20060102-150405")+"."+format+`"`)
	_ = http.NewResponseController(res.Writer).SetWriteDeadline(time.Now().Add(exportTime)) // where the writer has deadlines at all
	res.WriteHeader(http.StatusOK)
	if err := s.export(c, w, to); err != nil {
		if c.Request().Context().Err() == nil {
			s.Log.ErrorContext(c.Request().Context(), "export deliveries", "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (s *Server) export(c echo.Context, w walk, to exporter) error {
	ctx := c.Request().Context()
	for written, begun := 0, time.Now(); ; {
		page, err := s.walkDeliveries(ctx, w, exportPage, scanTime)
		if err != nil {
			return err
		}
		items, err := s.viewDeliveries(ctx, page.IDs)
		if err != nil {
			return err
		}
		for _, d := range items {
			if err := to.line(exported(d)); err != nil {
				return err
			}
		}
		written += len(items)
		switch {
		case page.Next == nil:
			return to.end("")
		case written >= exportLimit:
			return to.end(fmt.Sprintf("there are more: this file ends after %s", ui.Number(int64(written))))
		case time.Since(begun) > exportTime/2:
			return to.end(fmt.Sprintf("there may be more: this file ends after %s minutes of looking", strconv.Itoa(int((exportTime / 2).Minutes()))))
		}
		w.filter.Cursor = page.Next.cursor()
		if err := to.flush(); err != nil {
			return err
		}
		c.Response().Flush()
	}
}

func exported(d Delivery) exportedDelivery {
	return exportedDelivery{
		d.ID, d.EventID, d.Type, d.Subject, d.Tenant, d.DestinationID, d.DestinationName, d.State, d.Attempts, d.LastStatus, d.LastErrorClass,
		d.Reason, d.WaitingFor, d.CreatedAt, d.SettledAt,
	}
}

type ndjsonExporter struct {
	out *bufio.Writer
	enc *json.Encoder
}

func (e *ndjsonExporter) line(d exportedDelivery) error { return e.enc.Encode(d) }
func (e *ndjsonExporter) flush() error                  { return e.out.Flush() }

func (e *ndjsonExporter) end(note string) error {
	if note != "" {
		if err := e.enc.Encode(map[string]string{"note": note}); err != nil {
			return err
		}
	}
	return e.flush()
}

type csvExporter struct {
	csv *csv.Writer
	out *bufio.Writer
}

var csvHead = []string{
	"id", "event_id", "type", "subject", "tenant", "destination_id", "destination_name", "state", "attempts", "last_status", "last_error_class",
	"reason", "waiting_for", "created_at", "settled_at",
}

func newCSVExporter(out *bufio.Writer) *csvExporter {
	e := &csvExporter{csv.NewWriter(out), out}
	_ = e.csv.Write(csvHead) // into the buffer; flush tells
	return e
}

func (e *csvExporter) line(d exportedDelivery) error {
	status, settled := "", ""
	if d.LastStatus != nil {
		status = strconv.Itoa(int(*d.LastStatus))
	}
	if d.SettledAt != nil {
		settled = d.SettledAt.UTC().Format(time.RFC3339Nano)
	}
	cells := []string{
		d.ID, d.EventID, d.Type, d.Subject, d.Tenant, d.DestinationID, d.DestinationName, d.State, strconv.Itoa(d.Attempts), status, d.LastErrorClass,
		d.Reason, d.WaitingFor, d.CreatedAt.UTC().Format(time.RFC3339Nano), settled,
	}
	for i := range cells {
		cells[i] = defuse(cells[i])
	}
	return e.csv.Write(cells)
}

func (e *csvExporter) flush() error {
	e.csv.Flush()
	if err := e.csv.Error(); err != nil {
		return err
	}
	return e.out.Flush()
}

func (e *csvExporter) end(note string) error {
	if note != "" {
		if err := e.csv.Write([]string{"# " + note}); err != nil {
			return err
		}
	}
	return e.flush()
}

// defuse keeps a spreadsheet from taking a cell for a formula: what a producer or receiver wrote must not run at the operator's desk.
func defuse(cell string) string {
	if cell == "" {
		return cell
	}
	switch cell[0] {
	case '=', '+', '-', '@', '\t', '\r', '\n', '|', '%':
		return "'" + cell
	}
	return cell
}
