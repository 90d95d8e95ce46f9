package jobs

import (
	"math"
	"time"
)

// Limit is a lane's budget, as a forecast tries it.
type Limit struct {
	Rate        float64 // requests per second; 0: not limited
	Burst       int64   // at least 1
	MaxInFlight int64   // 0: not limited
}

// PerSecond is what leaves at most in the long run: the rate, less what a burst that is too small for the margin costs (see the table lane).
// +Inf where there is no rate.
func (l Limit) PerSecond() float64 {
	if l.Rate <= 0 {
		return math.Inf(1)
	}
	period := 1 / l.Rate
	room, margin := float64(l.Burst-1)*period, max(0.015, period/100)
	if room >= 0.015 {
		return l.Rate
	}
	return 1 / (period + margin - room)
}

// Policy is what a forecast tries.
type Policy struct {
	Limit   Limit
	Waits   []time.Duration // between attempts, as in Schedule
	TTL     time.Duration   // of a delivery; an event's own expiry is not known here
	Timeout time.Duration   // of a request
}

// Minute is what happened in one minute.
type Minute struct {
	Arrived                                               int64 // deliveries that came to be
	Requests, OK, RateLimited, Refused, TimedOut, Retried int64 // as in the tally
	Took                                                  time.Duration
	Delivered, DeadLettered, Expired                      int64
	LongestWait                                           time.Duration // from due to sent
}

// Forecast is what a policy would have done to a stretch of time. Counts are rounded; waits are told to the minute, 0 is less than one.
type Forecast struct {
	Arrived, Requests, Delivered, DeadLettered, Expired int64

	Waiting  int64         // at the end: due, and not yet sent
	Retrying int64         // at the end: not due before that
	DrainsIn time.Duration // how long Waiting takes at this pace with nothing new; 0: nothing waits; -1: it never would

	LongestWait time.Duration // for its turn, of any attempt
	Peak        int64         // the most that waited for their turn at the end of a minute
	PeakAt      time.Time     // zero: nothing ever waited
	DrainedAt   time.Time     // when nothing waited for the first time after the peak; zero: not within the stretch, or no peak

	BusiestFrom    time.Time // the hour of the clock in which the most arrived
	BusiestArrived int64
	BusiestWait    time.Duration // the longest of a first attempt that fell due in it
}

// Simulate runs a policy over minutes that happened, from the first one on, as a queue in which the oldest due goes first. It is arithmetic
// on shares of whole minutes, without chance: the same input gives the same forecast.
//
// It assumes that the receiver would have answered as it did at that time, whatever the pace: the same shares of refusals, failures and
// 429s, and the same time to answer. It begins with nothing waiting, and knows nothing of pauses, holds and learned rates.
func Simulate(from time.Time, minutes []Minute, p Policy) Forecast {
	s := simulation{
		policy: p, ttl: toMinutes(p.TTL), odds: oddsOf(minutes, p.Timeout), due: make([][]piece, len(minutes)), waited: make([]int, len(minutes)),
	}
	for m := range minutes {
		s.step(m, float64(minutes[m].Arrived))
	}
	return s.result(from, minutes)
}

// piece is a part of what arrived in one minute that has had the same fate so far.
type piece struct {
	born, due, stage int // minutes; how many attempts were charged
	amount           float64
}

type simulation struct {
	policy Policy
	ttl    int
	odds   []odds

	queue  []piece   // due, in the order of their turn
	due    [][]piece // retries, by the minute in which they fall due
	tokens float64   // left over, at most the burst
	waited []int     // by minute of arrival: how long a first attempt waited

	requests, delivered, dead, expired, retrying float64
	backlog                                      []float64
	longest                                      int
}

func (s *simulation) step(m int, arrived float64) {
	s.queue = append(s.queue, s.due[m]...)
	s.due[m] = nil
	if arrived > 0 {
		s.queue = append(s.queue, piece{born: m, due: m, amount: arrived})
	}
	s.expire(m)
	requests := s.capacity(m)
	useful := requests * (1 - s.odds[m].limited) // a 429 costs its request, and the delivery keeps its turn
	served := 0.0
	for len(s.queue) > 0 && useful-served > 1e-9 {
		head := &s.queue[0]
		take := min(head.amount, useful-served)
		served += take
		s.attempt(m, *head, take)
		if s.queue[0].amount -= take; s.queue[0].amount <= 1e-9 {
			s.queue = s.queue[1:]
		}
	}
	used := served / (1 - s.odds[m].limited)
	s.requests += used
	if s.policy.Limit.Rate > 0 {
		s.tokens = min(float64(s.policy.Limit.Burst), max(0, s.tokens+60*s.policy.Limit.PerSecond()-used))
	}
	waiting := 0.0
	for _, left := range s.queue {
		waiting += left.amount
	}
	s.backlog = append(s.backlog, waiting)
}

// capacity is how many requests can leave in a minute.
func (s *simulation) capacity(m int) float64 {
	requests := math.Inf(1)
	if s.policy.Limit.Rate > 0 {
		requests = s.tokens + 60*s.policy.Limit.PerSecond()
	}
	if most, took := s.policy.Limit.MaxInFlight, s.odds[m].took; most > 0 && took > 0 {
		requests = min(requests, 60*float64(most)/took.Seconds())
	}
	return requests
}

// attempt makes a part of a piece its next attempt, and lays what has to be tried again where it falls due.
func (s *simulation) attempt(m int, p piece, take float64) {
	s.longest = max(s.longest, m-p.due)
	if p.stage == 0 {
		s.waited[p.born] = max(s.waited[p.born], m-p.due)
	}
	o := s.odds[m]
	s.delivered += take * o.ok
	s.dead += take * o.refused
	again := take * o.failed
	switch {
	case again == 0:
	case p.stage >= len(s.policy.Waits):
		s.dead += again
	default:
		next := piece{born: p.born, due: m + toMinutes(s.policy.Waits[p.stage]), stage: p.stage + 1, amount: again}
		switch {
		case next.due >= len(s.due) && p.born+s.ttl >= len(s.due):
			s.retrying += again
		case next.due >= p.born+s.ttl:
			s.expired += again
		case next.due <= m:
			s.queue = append(s.queue, next)
		default:
			s.due[next.due] = append(s.due[next.due], next)
		}
	}
}

func (s *simulation) expire(m int) {
	kept := s.queue[:0]
	for _, p := range s.queue {
		if m-p.born >= s.ttl {
			s.expired += p.amount
			continue
		}
		kept = append(kept, p)
	}
	s.queue = kept
}

func (s *simulation) result(from time.Time, minutes []Minute) Forecast {
	f := Forecast{
		Requests: whole(s.requests), Delivered: whole(s.delivered), DeadLettered: whole(s.dead), Expired: whole(s.expired), Retrying: whole(s.retrying),
	}
	at := func(m int) time.Time { return from.Add(time.Duration(m) * time.Minute) }
	peak := -1
	for m, n := range s.backlog {
		if n >= 0.5 && (peak < 0 || n > s.backlog[peak]) {
			peak = m
		}
	}
	if peak >= 0 {
		f.Peak, f.PeakAt = whole(s.backlog[peak]), at(peak+1)
		for m := peak + 1; m < len(s.backlog); m++ {
			if s.backlog[m] < 0.5 {
				f.DrainedAt = at(m + 1)
				break
			}
		}
	}
	waiting := 0.0
	for _, p := range s.queue {
		waiting += p.amount
		s.longest = max(s.longest, len(minutes)-p.due)
		if p.stage == 0 {
			s.waited[p.born] = max(s.waited[p.born], len(minutes)-p.due)
		}
	}
	if f.Waiting = whole(waiting); f.Waiting > 0 {
		f.DrainsIn = s.drainsIn(waiting)
	}
	f.LongestWait = time.Duration(s.longest) * time.Minute
	s.busiest(&f, from, minutes)
	return f
}

// drainsIn is how long what waits at the end would take at the pace of the last minute.
func (s *simulation) drainsIn(waiting float64) time.Duration {
	last := len(s.odds) - 1
	s.tokens = 0
	perMinute := s.capacity(last) * (1 - s.odds[last].limited)
	minutes := math.Ceil(waiting / perMinute)
	if minutes > 60*24*365 {
		return -1
	}
	return time.Duration(minutes) * time.Minute
}

// busiest finds the hour of the clock in which the most arrived.
func (s *simulation) busiest(f *Forecast, from time.Time, minutes []Minute) {
	for m := 0; m < len(minutes); {
		start := from.Add(time.Duration(m) * time.Minute)
		end, arrived, wait := start.Truncate(time.Hour).Add(time.Hour), int64(0), 0
		for ; m < len(minutes) && from.Add(time.Duration(m)*time.Minute).Before(end); m++ {
			arrived += minutes[m].Arrived
			wait = max(wait, s.waited[m])
		}
		f.Arrived += arrived
		if arrived > f.BusiestArrived {
			f.BusiestFrom, f.BusiestArrived, f.BusiestWait = end.Add(-time.Hour), arrived, time.Duration(wait)*time.Minute
		}
	}
}

func whole(f float64) int64 { return int64(math.Round(f)) }

func toMinutes(d time.Duration) int { return int((d + 30*time.Second) / time.Minute) }
