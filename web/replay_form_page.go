package web

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"weir/jobs"
	"weir/web/ui"
)

// replayForm is what is typed, as it was typed. Its names are those of the address, so that a link can fill it in.
type replayForm struct {
	States     []string
	Deliveries []string
	Values     map[string]string
}

// replayFields are the form's fields besides the states, in its order.
var replayFields = []string{"destination", "event", "subject", "type", "tenant", "error_class", "status", "reason", "created_from", "created_to", "settled_from", "settled_to", "dead_letters", "share", "why"}

func readReplayForm(values url.Values) replayForm {
	f := replayForm{Values: map[string]string{}}
	for _, state := range values["state"] {
		if state != "" {
			f.States = append(f.States, state)
		}
	}
	for _, id := range values["delivery"] {
		if checkText("delivery", id) == nil && len(id) <= 40 && len(f.Deliveries) <= jobs.MaxLettersChosen {
			f.Deliveries = append(f.Deliveries, id)
		}
	}
	for _, name := range replayFields {
		if text := strings.TrimSpace(values.Get(name)); text != "" && checkText(name, text) == nil && len(text) <= 1000 {
			f.Values[name] = text
		}
	}
	return f
}

func (f replayForm) pairs() [][2]string {
	var pairs [][2]string
	for _, state := range f.States {
		pairs = append(pairs, [2]string{"state", state})
	}
	for _, id := range f.Deliveries {
		pairs = append(pairs, [2]string{"delivery", id})
	}
	for _, name := range replayFields {
		if f.Values[name] != "" {
			pairs = append(pairs, [2]string{name, f.Values[name]})
		}
	}
	return pairs
}

func (f replayForm) address(path string) string {
	v := url.Values{}
	for _, pair := range f.pairs() {
		v.Add(pair[0], pair[1])
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

func (f replayForm) has(state string) bool {
	if len(f.States) == 0 {
		return state == jobs.StateDeadLettered || state == jobs.StateExpired
	}
	return slices.Contains(f.States, state)
}

// run is what the form asks for. The share is typed in per cent.
func (f replayForm) run() (jobs.ReplayRun, error) {
	v := f.Values
	in := ReplayFilter{
		States: f.States, Destination: v["destination"], Event: v["event"], Subject: v["subject"], Type: v["type"], Tenant: v["tenant"], ErrorClass: v["error_class"],
		Reason: v["reason"], CreatedFrom: v["created_from"], CreatedTo: v["created_to"], SettledFrom: v["settled_from"], SettledTo: v["settled_to"],
		Letters: v["dead_letters"], Deliveries: f.Deliveries,
	}
	run := jobs.ReplayRun{Reason: v["why"]}
	if v["status"] != "" {
		n, err := strconv.ParseInt(v["status"], 10, 32)
		if err != nil {
			return run, invalid("status", "want the status of an answer, such as 503")
		}
		in.Status = int32(n)
	}
	if v["share"] != "" {
		n, err := strconv.ParseFloat(v["share"], 64)
		if err != nil || !(n >= 0.1 && n <= 100) {
			return run, invalid("share", "want per cent of each lane, from 0.1 to 100")
		}
		run.Share = n / 100
	}
	var err error
	run.Filter, err = in.parse()
	return run, err
}

type replayNewModel struct {
	Frame        ui.Frame
	Form         replayForm
	Errors       []ui.FieldError
	Destinations []ui.Option
}

func (m replayNewModel) problem(id string) string { return problemAt(m.Errors, id) }

func (s *Server) replayNewPage(c echo.Context) error {
	return s.showReplayForm(c, http.StatusOK, readReplayForm(c.QueryParams()), nil)
}

func (s *Server) showReplayForm(c echo.Context, status int, form replayForm, wrong []ui.FieldError) error {
	names, err := s.queries.OverviewListDestinationName(c.Request().Context(), s.Pool, 500)
	if err != nil {
		return fmt.Errorf("list destinations: %w", err)
	}
	m := replayNewModel{Frame: s.frame(c, "replays", "New replay"), Form: form, Errors: wrong}
	m.Destinations = destinationOptions(names, form.Values["destination"])
	return render(c, status, replayNewView(m))
}

// replayFieldErrors says which field is wrong; false where it is none of the form's.
func replayFieldErrors(err error) ([]ui.FieldError, bool) {
	var wrong *jobs.InvalidError
	var conflict *jobs.ConflictError
	switch {
	case errors.As(err, &wrong) && (wrong.Field == "deliveries" || wrong.Field == "dead_letters"):
		return []ui.FieldError{{Problem: capital(wrong.Problem)}}, true // they are hidden: there is nothing to lead to
	case errors.As(err, &wrong):
		label := strings.TrimSuffix(capital(strings.ReplaceAll(wrong.Field, "_", " ")), ".")
		return []ui.FieldError{{ID: wrong.Field, Label: label, Problem: capital(wrong.Problem)}}, true
	case errors.As(err, &conflict):
		return []ui.FieldError{{Problem: capital(conflict.Problem)}}, true
	}
	return nil, false
}

type replayPreviewModel struct {
	Frame   ui.Frame
	Now     time.Time
	Form    replayForm
	Run     jobs.ReplayRun
	Preview jobs.ReplayPreview
	All     bool // it took all the time it may
	Key     string
}

// previewSoon is what the page itself may take to count; the rest is counted afterwards, by script or by a link.
const previewSoon = 100 * time.Millisecond

// all is the address of the preview that counts everything.
func (m replayPreviewModel) all() string {
	address := m.Form.address("/replays/preview")
	return address + map[bool]string{true: "&", false: "?"}[strings.Contains(address, "?")] + "count=all"
}

// nothing says that it is certain that no delivery matches.
func (m replayPreviewModel) nothing() bool { return m.Preview.Selected == 0 && m.Preview.Complete }

// replayPreviewPage counts what the form selects. It changes nothing; its button carries a key, so that clicking twice starts one run.
func (s *Server) replayPreviewPage(c echo.Context) error {
	form := readReplayForm(c.QueryParams())
	run, err := form.run()
	if err != nil {
		return s.refuseReplayForm(c, form, err)
	}
	m := replayPreviewModel{Frame: s.frame(c, "replays", "Preview of a replay"), Form: form, Run: run, Key: rand.Text()}
	m.Now = m.Frame.Now
	within := previewSoon
	if m.All = c.QueryParam("count") == "all"; m.All {
		within = jobs.PreviewTime
	}
	if m.Preview, err = s.Engine.PreviewReplay(c.Request().Context(), run, within); err != nil {
		return s.refuseReplayForm(c, form, err)
	}
	return renderLive(c, replayPreviewView(m), replayPreviewRegion(m))
}

func (s *Server) refuseReplayForm(c echo.Context, form replayForm, err error) error {
	wrong, ok := replayFieldErrors(err)
	if !ok {
		return err
	}
	return s.showReplayForm(c, http.StatusUnprocessableEntity, form, wrong)
}

func (s *Server) replayCreate(c echo.Context) error {
	values, err := c.FormParams()
	if err != nil {
		return err
	}
	form := readReplayForm(values)
	run, err := form.run()
	if err != nil {
		return s.refuseReplayForm(c, form, err)
	}
	run.Actor, run.Key = actor(c), values.Get("key")
	run.Also = s.auditReplayRun(run)
	id, existing, err := s.Engine.StartReplay(c.Request().Context(), run)
	if err != nil {
		return s.refuseReplayForm(c, form, err)
	}
	path := "/replays/" + formatID(idReplay, id)
	if existing {
		return s.done(c, path, "This replay had been started already; nothing was started twice.")
	}
	return s.done(c, path, "Started. It sends at its share of each lane, and goes on by itself.")
}
