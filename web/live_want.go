package web

import (
	"net/url"
	"strings"

	"weir/db/dbsqlc"
)

// want is what a region of a page shows: one object, exactly, or lists, by the tables that their rows come from.
type want struct {
	kind   string // delivery, destination, event or replay; empty: lists
	id     int64
	event  string   // the producer's id, for kind event
	tables []string // nil, with no kind: every table but those of noise
}

// noise are tables that are written all the time, or that no page with a live region shows.
var noise = map[string]bool{
	"process": true, "session": true, "audit": true, "sign_in_address": true, "lane_sample": true, "lane_flow": true, "event_key": true, "dead_letter_change": true,
	"river_client": true, "river_client_queue": true, "river_job": true, "river_leader": true, "river_queue": true, "river_migration": true,
}

// listTables are the tables behind each list, by the first part of its path. What is not here may show anything.
var listTables = map[string][]string{
	"dead-letters": {"dead_letter_group", "dead_letter_history"},
	"deliveries":   {"delivery"},
	"discovery":    {"discovery_run", "outbox"},
	"events":       {"event"},
	"lanes":        {"lane", "lane_change", "destination", "tally"},
	"mends":        {"mend", "mend_total"},
	"replays":      {"replay", "replay_destination"},
	"subjects":     {"event", "delivery"},
	"destinations": {"destination", "lane", "delivery"},
}

// wantOf reads the address that a region refreshes itself from. Any text is good: an address that is not known is kept current all the same.
func wantOf(address string) want {
	u, err := url.Parse(address)
	if err != nil {
		return want{}
	}
	parts := strings.SplitN(strings.TrimPrefix(u.Path, "/"), "/", 3)
	if len(parts) == 1 {
		return want{tables: listTables[parts[0]]}
	}
	id := parts[1]
	switch parts[0] {
	case "deliveries":
		return wantObject("delivery", idDelivery, id)
	case "destinations":
		return wantObject("destination", idDestination, id)
	case "replays":
		return wantObject("replay", idReplay, id)
	case "events":
		if given := u.Query().Get("id"); given != "" && id == "-" {
			id = given
		}
		if checkText("id", id) != nil {
			return want{}
		}
		return want{kind: "event", event: id}
	}
	return want{tables: listTables[parts[0]]}
}

func wantObject(kind, prefix, text string) want {
	id, err := parseID(prefix, text)
	if err != nil {
		return want{}
	}
	return want{kind: kind, id: id}
}

func (w want) addTo(ask *dbsqlc.LiveLookParams) {
	switch w.kind {
	case "delivery":
		ask.Deliveries = append(ask.Deliveries, w.id)
	case "destination":
		ask.Destinations = append(ask.Destinations, w.id)
	case "replay":
		ask.Replays = append(ask.Replays, w.id)
	case "event":
		ask.Events = append(ask.Events, w.event)
	}
}

// mark is how far what is wanted has come. What is gone has come to 0.
func (w want) mark(marks map[string]int64) (sum int64) {
	switch {
	case w.kind == "event":
		return marks["event "+w.event]
	case w.kind != "":
		return marks[w.kind+" "+decimal(w.id)]
	case w.tables != nil:
		for _, table := range w.tables {
			sum += marks["table "+table]
		}
	default:
		for key, mark := range marks {
			if table, is := strings.CutPrefix(key, "table "); is && !noise[table] {
				sum += mark
			}
		}
	}
	return sum
}
