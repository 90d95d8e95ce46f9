package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// benchBar is what a figure should be, so that a reader sees what is reached and what is not.
type benchBar struct {
	what  string
	got   float64 // NaN: not measured in this run
	want  float64
	least bool // want is the least that will do; else it is the most
}

func atLeast(what string, got, want float64) benchBar { return benchBar{what, got, want, true} }

func atMost(what string, got, want float64) benchBar { return benchBar{what, got, want, false} }

func (x benchBar) measured() bool { return !math.IsNaN(x.got) }

func (x benchBar) reached() bool {
	if x.least {
		return x.got >= x.want
	}
	return x.got <= x.want
}

func (x benchBar) sign() string {
	if x.least {
		return "≥"
	}
	return "≤"
}

// shortNumber has four digits or whole ones, which is more than any measurement here is worth.
func shortNumber(f float64) string {
	if math.Abs(f) >= 1000 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 4, 64)
}

// String is the bar with what became of it: "reached" and "missed" are what to search the output for.
func (x benchBar) String() string {
	if !x.measured() {
		return fmt.Sprintf("not measured %s %s %s", x.what, x.sign(), shortNumber(x.want))
	}
	verdict := "missed"
	if x.reached() {
		verdict = "reached"
	}
	return fmt.Sprintf("%s %s %s %s: %s", verdict, x.what, x.sign(), shortNumber(x.want), shortNumber(x.got))
}

// costBars are the bars of what a delivery costs. The server's share is known only where the server is the bench's own.
func costBars(c benchCost, wal float64) []benchBar {
	return []benchBar{atMost("CPU of weir and postgres", c.weir+c.postgres, 0.32), atMost("WAL", c.wal, wal)}
}

// benchScore counts the bars of a run.
type benchScore struct {
	reached, unmeasured int
	missed              []string
}

func (s *benchScore) add(r benchRow) {
	for _, x := range r.bars {
		switch {
		case !x.measured():
			s.unmeasured++
		case x.reached():
			s.reached++
		default:
			s.missed = append(s.missed, r.what+": "+strings.TrimPrefix(x.String(), "missed "))
		}
	}
}

// String is the last words of a run.
func (s *benchScore) String() string {
	var b strings.Builder
	for _, one := range s.missed {
		fmt.Fprintf(&b, "missed: %s\n", one)
	}
	fmt.Fprintf(&b, "bars: %d reached, %d missed, %d not measured", s.reached, len(s.missed), s.unmeasured)
	return b.String()
}
