package ui

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// plan is where everything of a chart goes, as the texts of SVG attributes. Places are in percent of the drawing, so that it is as wide as
// its place while its text keeps its size; only lines, which SVG cannot place so, are in a box of 100 by 100 that is stretched.
type plan struct {
	Columns []column
	Lines   []polyline
	X, Y    []tick
	Mark    string // the height of the mark; empty: none
}

// column is one bin.
type column struct {
	X, Width   string // of all of the bin
	BarX, BarW string // of its bar, with the gap to the next
	Running    bool
	Told       string
	Segments   []layer
}

// layer is one series in one bin.
type layer struct {
	Class     string
	Y, Height string
}

// polyline is one series' line.
type polyline struct{ Class, Path string }

// tick is one mark of an axis. Odd ones go first where there is no room.
type tick struct {
	At, Label string
	Odd       bool
}

// sliver is the least height of what is not nothing, in percent: one failure among ten thousand has to be seen.
const sliver = 1.0

func (c Chart) plan() plan {
	steps := c.Unit.ticks(c.top())
	top := steps[len(steps)-1]
	p := plan{X: c.xTicks()}
	for i, v := range steps {
		p.Y = append(p.Y, tick{At: percent(100 - 100*v/top), Label: c.Unit.short(v, steps[1]), Odd: i%2 == 1})
	}
	if c.Mark > 0 {
		p.Mark = percent(100 - 100*c.Mark/top)
	}
	width := 100 / float64(len(c.Bins))
	for i := range c.Bins {
		from := width * float64(i)
		col := column{X: percent(from), Width: percent(width), BarX: percent(from + width*.09), BarW: percent(width * .82), Running: c.running(i), Told: c.told(i)}
		if !c.Lines {
			col.Segments = c.stack(i, top)
		}
		p.Columns = append(p.Columns, col)
	}
	if c.Lines {
		for _, s := range c.Series {
			if !s.Quiet {
				p.Lines = append(p.Lines, polyline{"hue-" + string(s.Hue), c.path(s, width, top)})
			}
		}
	}
	return p
}

// stack places the layers of one bin, from the ground up. What slivers add is taken from the highest layer.
func (c Chart) stack(i int, top float64) []layer {
	heights := make([]float64, len(c.Series))
	sum, highest := 0.0, 0
	for n, s := range c.Series {
		if v := known(s.at(i)); v > 0 && !s.Quiet {
			heights[n] = max(100*v/top, sliver)
		}
		if sum += heights[n]; heights[n] > heights[highest] {
			highest = n
		}
	}
	heights[highest] -= max(0, sum-100)
	var layers []layer
	ground := 100.0
	for n, height := range heights {
		if ground -= height; height > 0 {
			layers = append(layers, layer{"hue-" + string(c.Series[n].Hue), percent(ground), percent(height)})
		}
	}
	return layers
}

// path runs through the middles of the bins and begins anew after a gap; a figure that stands alone is a dot.
func (c Chart) path(s Series, width, top float64) string {
	var b strings.Builder
	drawing := false
	for i := range c.Bins {
		v := s.at(i)
		if math.IsNaN(v) {
			drawing = false
			continue
		}
		at := " " + number(width*(float64(i)+.5)) + " " + number(100-100*v/top)
		if !drawing {
			b.WriteString("M" + at)
		}
		b.WriteString("L" + at)
		drawing = true
	}
	return b.String()
}

func percent(v float64) string { return number(v) + "%" }

func number(v float64) string {
	text := strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0")
	text = strings.TrimSuffix(text, ".")
	if text == "-0" {
		return "0"
	}
	return text
}

// ticks are round levels from 0 to the first that is not below top: two to five of them above 0.
func (u Unit) ticks(top float64) []float64 {
	if top <= 0 {
		top = 1
	}
	step := u.step(top / 4)
	levels := []float64{0}
	for n := 1.0; levels[len(levels)-1] < top*(1-1e-9); n++ {
		levels = append(levels, n*step)
	}
	return levels
}

// step is the first round number that is not below least: 1, 2 or 5 with zeros, and of time what clocks count in.
func (u Unit) step(least float64) float64 {
	if u == Seconds && least > 1 {
		for _, s := range []float64{2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 3 * 3600, 6 * 3600, 12 * 3600} {
			if s >= least {
				return s
			}
		}
		return 86400 * u.step10(least/86400)
	}
	if u == Counts {
		least = max(least, 1)
	}
	return u.step10(least)
}

func (u Unit) step10(least float64) float64 {
	size := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*size >= least*(1-1e-9) {
			return m * size
		}
	}
	return 10 * size
}

// short writes a level for the axis; step is the distance to the next one.
func (u Unit) short(v, step float64) string {
	switch {
	case v == 0:
		return "0"
	case u == Seconds:
		return secondsShort(v)
	case v >= 1e9:
		return rateText(v/1e9) + " G"
	case v >= 1e6 || step >= 1e6:
		return rateText(v/1e6) + " M"
	case v >= 1000:
		return Number(int64(math.Round(v)))
	}
	return rateText(v)
}

func secondsShort(v float64) string {
	for _, unit := range []struct {
		name string
		size float64
	}{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}, {"ms", .001}} {
		if v >= unit.size || unit.name == "ms" {
			return rateText(v/unit.size) + " " + unit.name
		}
	}
	return ""
}

// xSteps are the distances that the times of an axis may have.
var xSteps = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour,
}

// xTicks are round times, seven at most. At midnight stands the day.
func (c Chart) xTicks() []tick {
	if len(c.Bins) == 0 {
		return nil
	}
	begin := c.Bins[0].UTC()
	all := c.Step * time.Duration(len(c.Bins))
	step := all / 7 // beyond the longest of them
	for _, s := range xSteps {
		if all/s <= 7 {
			step = s
			break
		}
	}
	var ticks []tick
	for at := begin.Truncate(step); at.Before(begin.Add(all)); at = at.Add(step) {
		if at.Before(begin) {
			continue
		}
		label := at.Format("15:04")
		if at.Hour() == 0 && at.Minute() == 0 {
			label = at.Format("2 Jan")
		}
		ticks = append(ticks, tick{At: percent(100 * float64(at.Sub(begin)) / float64(all)), Label: label, Odd: len(ticks)%2 == 1})
	}
	return ticks
}
