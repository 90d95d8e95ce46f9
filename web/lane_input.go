package web

import (
	"fmt"
	"math"
	"strings"

	"weir/db/dbsqlc"
)

// LaneInput is the budget of a destination. With ID the destination joins that lane instead of getting its own.
type LaneInput struct {
	ID          *string           `json:"id,omitempty" doc:"Only when the destination is created: share this lane."`
	Name        *string           `json:"name,omitempty"`
	Rate        Optional[float64] `json:"rate,omitempty" doc:"Requests per second, 10 if left out; null: not limited."`
	Burst       *int64            `json:"burst,omitempty" doc:"10 if left out."`
	MaxInFlight Optional[int64]   `json:"max_in_flight,omitempty" doc:"Requests under way at once, 4 if left out; null: not limited."`
	Learning    *string           `json:"learning,omitempty" enum:"off,suggest,on" doc:"Whether 429s, latency and clean answers change the pace below the rate (on), are only recorded as suggestions (suggest), or neither; off if left out."`
}

// laneBudget is a whole, checked budget.
type laneBudget struct {
	name        *string // nil: unchanged, or made from the destination
	rate        *float64
	burst       int64
	maxInFlight *int64
	learning    string
}

func defaultBudget() laneBudget {
	rate, inFlight := defaultRate, int64(defaultMaxInFlight)
	return laneBudget{rate: &rate, burst: defaultBurst, maxInFlight: &inFlight, learning: learningOff}
}

func budgetOf(lane dbsqlc.Lane) laneBudget {
	b := laneBudget{rate: lane.Rate, burst: int64(lane.Burst), learning: lane.Learning}
	if lane.MaxInFlight != nil {
		b.maxInFlight = orNil(int64(*lane.MaxInFlight))
	}
	return b
}

// setBudget puts the input onto base; prefix is "lane." inside a destination.
func setBudget(prefix string, in LaneInput, base laneBudget) (laneBudget, error) {
	b := base
	if in.Name != nil {
		name := strings.TrimSpace(*in.Name)
		if err := checkName(prefix+"name", name, 200); err != nil {
			return laneBudget{}, err
		}
		b.name = &name
	}
	if in.Rate.Set {
		b.rate = in.Rate.Value
		switch rate := in.Rate.Value; {
		case rate == nil:
		case *rate == 0:
			return laneBudget{}, invalid(prefix+"rate", "0 would never send; pause the destination instead (null means not limited)")
		case !(*rate >= minRate) || *rate > maxRate: // also NaN
			return laneBudget{}, invalid(prefix+"rate", "want 0.00001 to 100000 requests per second, or null for not limited")
		}
	}
	if in.Burst != nil {
		if *in.Burst < 1 || *in.Burst > 1_000_000 {
			return laneBudget{}, invalid(prefix+"burst", "want 1 to 1000000")
		}
		b.burst = *in.Burst
	}
	if in.MaxInFlight.Set {
		b.maxInFlight = in.MaxInFlight.Value
		switch most := in.MaxInFlight.Value; {
		case most == nil:
		case *most == 0:
			return laneBudget{}, invalid(prefix+"max_in_flight", "0 would never send; pause the destination instead (null means not limited)")
		case *most < 1 || *most > 10_000:
			return laneBudget{}, invalid(prefix+"max_in_flight", "want 1 to 10000, or null for not limited")
		}
	}
	return setLearning(prefix, in, b)
}

// How a lane follows what its receiver says.
const (
	learningOff     = "off"
	learningSuggest = "suggest"
	learningOn      = "on"
)

func setLearning(prefix string, in LaneInput, b laneBudget) (laneBudget, error) {
	if in.Learning != nil {
		b.learning = *in.Learning
	}
	switch {
	case b.learning != learningOff && b.learning != learningSuggest && b.learning != learningOn:
		return laneBudget{}, invalid(prefix+"learning", "want off, suggest or on")
	case b.learning == learningOff || b.rate != nil:
		return b, nil
	case in.Learning != nil:
		return laneBudget{}, invalid(prefix+"learning", "needs a rate: it is the most that a learned rate can be")
	default:
		return laneBudget{}, invalid(prefix+"rate", "cannot be null while the lane learns: set learning to off, too")
	}
}

// budgetWarnings says what a burst that is too small for the margin costs. It is no error: some receivers allow no burst.
func budgetWarnings(rate *float64, burst int64) []string {
	warnings := []string{}
	if rate == nil || float64(burst-1) >= *rate*margin {
		return warnings
	}
	effective := 1 / (1/(*rate) + margin - float64(burst-1)/(*rate))
	enough := 1 + int64(math.Ceil(*rate*margin))
	return append(warnings, fmt.Sprintf("A burst of %d costs some of the rate: at most %.4g requests per second leave instead of %.4g. "+
		"A burst of %d or more costs nothing.", burst, effective, *rate, enough))
}
