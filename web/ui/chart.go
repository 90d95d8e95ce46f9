package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Chart is figures over time, drawn by TimeChart: columns stacked from the first series up, or lines.
type Chart struct {
	ID      string        // of the element; other ids in it begin with it. Unique on the page
	Title   string        // what it shows, with the stretch of one bin: "Deliveries a minute"
	Empty   string        // the sentence in place of a chart without any figure
	Unit    Unit          // of all values; the zero value is Counts
	Lines   bool          // draw lines, not stacked columns
	Bins    []time.Time   // where each bin begins, oldest first, Step apart; at most a few hundred, about 60 stay legible on a telephone
	Step    time.Duration // how long a bin is
	Now     time.Time     // a bin that ends after it is drawn and told as unfinished; zero: all are finished
	Series  []Series      // in the order of the stack, the legend and the table
	Mark    float64       // a level to hold the figures against, as a limit; 0: none
	MarkFor string        // what the level is: "allowed"
}

// Series is one line or one layer of a Chart.
type Series struct {
	Name   string    // one or two words
	Hue    Hue       // its colour
	Values []float64 // one for each bin; NaN where there is no figure
	Quiet  bool      // not drawn: only told on hover and in the table
}

// Hue is a colour of a series. What it looks like is the style sheet's; the legend, the hover text and the table say the same in words.
type Hue string

// The hues: four that mean something, and others for what is neither good nor bad.
const (
	HueGood   Hue = "good"
	HueWarn   Hue = "warn"
	HueBad    Hue = "bad"
	HueCalm   Hue = "calm"
	HueAccent Hue = "accent"
	HueBlue   Hue = "blue"
	HuePlum   Hue = "plum"
	HueRust   Hue = "rust"
)

// Unit is what the values of a chart count.
type Unit int

// The units. Their values are whole numbers, numbers per second, and lengths of time in seconds.
const (
	Counts Unit = iota
	Rates
	Seconds
)

// Write says a value exactly enough to be quoted, a dash where there is none.
func (u Unit) Write(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case u == Counts:
		return Number(int64(math.Round(v)))
	case u == Rates:
		return rateText(v) + "/s"
	}
	return duration(v)
}

func rateText(v float64) string {
	if v >= 1000 {
		return Number(int64(math.Round(v)))
	}
	text := strconv.FormatFloat(v, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// duration writes seconds: "3.2 ms", "1.5 s", "12 min 5 s", "3 h 20 min", "2 d 4 h".
func duration(seconds float64) string {
	if us := int64(math.Round(seconds * 1e6)); us < 60_000_000 {
		if us == 0 {
			return "0 ms"
		}
		return Millis(&us)
	}
	s := int64(math.Round(seconds))
	two := func(n, size int64, unit string, rest int64, small string) string {
		if rest /= size; rest == 0 {
			return fmt.Sprintf("%d %s", n, unit)
		}
		return fmt.Sprintf("%d %s %d %s", n, unit, rest, small)
	}
	switch {
	case s < 3600:
		return two(s/60, 1, "min", s%60, "s")
	case s < 172800:
		return two(s/3600, 60, "h", s%3600, "min")
	}
	return two(s/86400, 3600, "d", s%86400, "h")
}

// BinsBetween are the beginnings of bins, aligned in UTC, from the one that since falls into to the one that until falls into. A step
// above a day is aligned to the zero time.
func BinsBetween(since, until time.Time, step time.Duration) []time.Time {
	var bins []time.Time
	for at := since.UTC().Truncate(step); !at.After(until) && step > 0; at = at.Add(step) {
		bins = append(bins, at)
	}
	return bins
}

// Spread lays rows on bins: the sum of what value says of the rows that fall into each, and none (0, or NaN) where no row does.
func Spread[T any](bins []time.Time, step time.Duration, rows []T, none float64, at func(T) time.Time, value func(T) float64) []float64 {
	values := make([]float64, len(bins))
	filled := make([]bool, len(bins))
	for _, row := range rows {
		if len(bins) == 0 || at(row).Before(bins[0]) {
			continue
		}
		if i := int(at(row).Sub(bins[0]) / step); i < len(bins) {
			values[i] += value(row)
			filled[i] = true
		}
	}
	for i, is := range filled {
		if !is {
			values[i] = none
		}
	}
	return values
}

// known is a value that can be added up: 0 where there is none.
func known(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

func (s Series) at(i int) float64 {
	if i >= len(s.Values) {
		return math.NaN()
	}
	return s.Values[i]
}

// Total is the sum of what is known.
func (s Series) Total() (sum float64) {
	for _, v := range s.Values {
		sum += known(v)
	}
	return sum
}

// some tells whether a bin has a figure worth a row: one that is known, and for counts not zero.
func (c Chart) some(i int) bool {
	for _, s := range c.Series {
		if v := s.at(i); v > 0 || (c.Lines && v == 0) {
			return true
		}
	}
	return false
}

func (c Chart) empty() bool {
	for i := range c.Bins {
		if c.some(i) {
			return false
		}
	}
	return true
}

// top is the highest level that is drawn.
func (c Chart) top() float64 {
	top := c.Mark
	for i := range c.Bins {
		height := 0.0
		for _, s := range c.Series {
			switch {
			case s.Quiet:
			case c.Lines:
				height = max(height, known(s.at(i)))
			default:
				height += known(s.at(i))
			}
		}
		top = max(top, height)
	}
	return top
}

// running tells whether a bin is not over yet.
func (c Chart) running(i int) bool { return !c.Now.IsZero() && c.Bins[i].Add(c.Step).After(c.Now) }

// span names a bin: "14:05–14:06 UTC", with its day where the chart is longer than one.
func (c Chart) span(i int) string {
	from, to := c.Bins[i].UTC(), c.Bins[i].Add(c.Step).UTC()
	text := from.Format("15:04") + "–" + to.Format("15:04")
	if c.Step >= 24*time.Hour {
		text = from.Format("2 Jan")
	} else if c.Step*time.Duration(len(c.Bins)) > 12*time.Hour {
		text = from.Format("2 Jan ") + text
	}
	if c.running(i) {
		return text + " UTC, so far"
	}
	return text + " UTC"
}

// told is what hovering over a bin says.
func (c Chart) told(i int) string {
	lines := []string{c.span(i)}
	for n := len(c.Series) - 1; n >= 0; n-- { // as they are stacked
		if s := c.Series[n]; c.Lines || known(s.at(i)) != 0 {
			lines = append(lines, s.Name+" "+c.Unit.Write(s.at(i)))
		}
	}
	if len(lines) == 1 {
		lines = append(lines, "none")
	}
	return strings.Join(lines, "\n")
}

// Summary is the chart in a sentence, for somebody who cannot see it.
func (c Chart) Summary() string {
	if c.empty() || len(c.Bins) == 0 {
		return c.Title + ": " + c.Empty
	}
	from, to := c.Bins[0].UTC(), c.Bins[len(c.Bins)-1].Add(c.Step).UTC()
	var parts []string
	for _, s := range c.Series {
		if c.Lines {
			low, high := s.bounds()
			if !math.IsNaN(low) {
				parts = append(parts, s.Name+" from "+c.Unit.Write(low)+" to "+c.Unit.Write(high))
			}
		} else if total := s.Total(); total > 0 && c.Unit == Counts {
			parts = append(parts, s.Name+" "+c.Unit.Write(total))
		} else if _, high := s.bounds(); total > 0 {
			parts = append(parts, s.Name+" up to "+c.Unit.Write(high))
		}
	}
	text := fmt.Sprintf("%s, %s to %s UTC: %s.", c.Title, from.Format("2 Jan 15:04"), to.Format("2 Jan 15:04"), strings.Join(parts, ", "))
	if c.Mark > 0 {
		text += " " + strings.ToUpper(c.MarkFor[:1]) + c.MarkFor[1:] + " " + c.Unit.Write(c.Mark) + "."
	}
	return text
}

// figure is what the legend says beside a name: the sum of what was counted, and of what is not drawn the highest.
func (c Chart) figure(s Series) string {
	switch {
	case c.Unit == Counts && !c.Lines:
		return c.Unit.Write(s.Total())
	case s.Quiet:
		_, high := s.bounds()
		return c.Unit.Write(high)
	}
	return ""
}

// bounds are the lowest and the highest value, NaN where there is none.
func (s Series) bounds() (low, high float64) {
	low, high = math.NaN(), math.NaN()
	for _, v := range s.Values {
		if math.IsNaN(v) {
			continue
		}
		if math.IsNaN(low) || v < low {
			low = v
		}
		if math.IsNaN(high) || v > high {
			high = v
		}
	}
	return low, high
}
