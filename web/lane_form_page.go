package web

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/web/ui"
)

// budgetForm is a budget as it stands in a form: text, as typed.
type budgetForm struct {
	Rate, Burst, MaxFlight, Learning string
}

func budgetFormOf(l Lane) budgetForm {
	f := budgetForm{Burst: strconv.FormatInt(l.Burst, 10), Learning: l.Learning}
	if l.Rate != nil {
		f.Rate = number(*l.Rate)
	}
	if l.MaxInFlight != nil {
		f.MaxFlight = strconv.FormatInt(*l.MaxInFlight, 10)
	}
	return f
}

// input makes of it what the API takes; prefix is "lane." inside a destination.
func (f budgetForm) input(prefix string) (in LaneInput, err error) {
	in.Rate, in.MaxInFlight, in.Learning = Null[float64](), Null[int64](), &f.Learning
	if f.Rate != "" {
		rate, err := strconv.ParseFloat(f.Rate, 64)
		if err != nil {
			return in, invalid(prefix+"rate", "want a number such as 10 or 0.5, or nothing for not limited")
		}
		in.Rate = Given(rate)
	}
	burst, err := strconv.ParseInt(f.Burst, 10, 64)
	if err != nil {
		return in, invalid(prefix+"burst", "want a whole number such as 10")
	}
	in.Burst = &burst
	if f.MaxFlight != "" {
		most, err := strconv.ParseInt(f.MaxFlight, 10, 64)
		if err != nil {
			return in, invalid(prefix+"max_in_flight", "want a whole number such as 4, or nothing for not limited")
		}
		in.MaxInFlight = Given(most)
	}
	return in, nil
}

// burstWarnings says what the burst that was typed costs, where both are numbers.
func (f budgetForm) burstWarnings() []string {
	rate, err := strconv.ParseFloat(f.Rate, 64)
	burst, burstErr := strconv.ParseInt(f.Burst, 10, 64)
	if err != nil || burstErr != nil || !(rate >= minRate && rate <= maxRate) || burst < 1 {
		return nil
	}
	return budgetWarnings(&rate, burst)
}

type laneFormModel struct {
	Frame    ui.Frame
	ID       string
	Name     string // as typed
	Budget   budgetForm
	Sharing  int // destinations that draw on it
	Errors   []ui.FieldError
	Forecast *forecastModel // of what is typed, where that was asked for
}

func (m laneFormModel) path() string { return "/lanes/" + m.ID }

func (m laneFormModel) problem(id string) string { return problemAt(m.Errors, id) }

func (m laneFormModel) input() (LaneInput, error) {
	in, err := m.Budget.input("")
	in.Name = &m.Name
	return in, err
}

// laneParam is the lane that the address names.
func (s *Server) laneParam(c echo.Context) (Lane, error) {
	id, err := parseID(idLane, c.Param("id"))
	if err != nil {
		return Lane{}, err
	}
	row, err := s.queries.LaneGetByID(c.Request().Context(), s.Pool, id)
	if err != nil {
		return Lane{}, laneError(id, err)
	}
	return laneOf(row), nil
}

func (s *Server) laneEditPage(c echo.Context) error {
	l, err := s.laneParam(c)
	if err != nil {
		return err
	}
	return s.showLaneForm(c, http.StatusOK, l, laneFormModel{Name: l.Name, Budget: budgetFormOf(l)})
}

// showLaneForm answers with the form, as m has it.
func (s *Server) showLaneForm(c echo.Context, status int, l Lane, m laneFormModel) error {
	rows, err := s.queries.LanePageListDestination(c.Request().Context(), s.Pool, l.RowID, sharersShown+1)
	if err != nil {
		return err
	}
	m.ID, m.Sharing, m.Frame = l.ID, len(rows), s.frame(c, "lanes", "Change "+l.Name)
	return render(c, status, laneFormView(m))
}

// readLaneForm takes what was typed; nothing is checked yet.
func readLaneForm(c echo.Context) (laneFormModel, error) {
	if err := parseForm(c); err != nil {
		return laneFormModel{}, err
	}
	line := func(name string) string { return strings.TrimSpace(c.Request().PostForm.Get(name)) }
	return laneFormModel{Name: line("name"), Budget: budgetForm{
		Rate: line("rate"), Burst: line("burst"), MaxFlight: line("max_in_flight"), Learning: cmp.Or(line("learning"), learningOff),
	}}, nil
}

// laneForm reads the form and does something with it; what is wrong in it is answered with the form, at its field.
func (s *Server) laneForm(c echo.Context, act func(l Lane, m *laneFormModel, in LaneInput) error, then func(l Lane, m laneFormModel) error) error {
	m, err := readLaneForm(c)
	if err != nil {
		return err
	}
	l, err := s.laneParam(c)
	if err != nil {
		return err
	}
	in, err := m.input()
	if err == nil {
		err = act(l, &m, in)
	}
	if errs, ok := fieldErrors(err); ok {
		m.Errors = errs
		return s.showLaneForm(c, http.StatusUnprocessableEntity, l, m)
	}
	if err != nil {
		return err
	}
	return then(l, m)
}

// laneForecast answers the form with everything that was typed, and what it would have done to the last day.
func (s *Server) laneForecast(c echo.Context) error {
	return s.laneForm(c, func(l Lane, m *laneFormModel, in LaneInput) error {
		forecast, err := s.forecastLane(c.Request().Context(), l.RowID, in)
		m.Forecast = &forecast
		return err
	}, func(l Lane, m laneFormModel) error { return s.showLaneForm(c, http.StatusOK, l, m) })
}

func (s *Server) laneUpdate(c echo.Context) error {
	var changed bool
	return s.laneForm(c, func(l Lane, _ *laneFormModel, in LaneInput) (err error) {
		changed, err = s.formUpdateLane(c.Request().Context(), l, in)
		return err
	}, func(_ Lane, m laneFormModel) error {
		here := "/lanes/" + c.Param("id")
		if !changed {
			return s.done(c, here, "Nothing was changed: it is what it was.")
		}
		return s.done(c, here, "Saved. It holds from the next request on.")
	})
}

// formUpdateLane tells whether anything was changed.
func (s *Server) formUpdateLane(ctx context.Context, l Lane, in LaneInput) (changed bool, err error) {
	var row dbsqlc.Lane
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		row, err = s.updateLane(ctx, tx, l.RowID, "", in)
		return err
	})
	return err == nil && !sameFacts(laneFacts(l), laneFacts(laneOf(row))), err
}
