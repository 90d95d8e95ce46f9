package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxMetricCount is how far a metric counts rows.
const maxMetricCount = 10_000

// mountMetrics adds /metrics and counts requests by route and status. Labels are routes, statuses, states and destination ids: never an
// event, a URL or a name, so that the number of series does not grow with what is delivered.
func (s *Server) mountMetrics(e *echo.Echo) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_http_requests_total", Help: "Requests answered, by method, route and status.",
	}, []string{"method", "route", "status"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), requests, newLedgerCollector(s))

	e.Use(countRequests(requests))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 10 * time.Second})
	e.GET("/metrics", func(c echo.Context) error {
		if !fromLoopback(c.Request()) {
			if _, err := s.authorize(c.Request().Context(), c.Request().Header.Get("Authorization"), ScopeRead); err != nil {
				return err
			}
		}
		handler.ServeHTTP(c.Response(), c.Request())
		return nil
	})
}

func countRequests(requests *prometheus.CounterVec) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			if err != nil {
				c.Error(err) // answered here, so that the status is known; an answer is given once
			}
			route := c.Path()
			if route == "" || c.Response().Status == http.StatusNotFound && strings.HasSuffix(route, "*") {
				route = "none" // what nobody routed is one series, whatever was asked for
			}
			requests.WithLabelValues(knownMethod(c.Request().Method), route, strconv.Itoa(c.Response().Status)).Inc()
			return err
		}
	}
}

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return "other"
	}
}

// fromLoopback says whether the caller is on this machine. A proxy on this machine is not the caller: it says so in a header.
func fromLoopback(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

// ledgerCollector reads the gauges from the database when it is asked.
type ledgerCollector struct {
	server                                                        *Server
	attention, oldest, parked, discovery, processes, mended, errs *prometheus.Desc
}

func newLedgerCollector(s *Server) *ledgerCollector {
	return &ledgerCollector{
		server: s,
		attention: prometheus.NewDesc("weir_deliveries_attention", "Deliveries that are not well, by state; counted up to 10000.",
			[]string{"state"}, nil),
		oldest: prometheus.NewDesc("weir_oldest_waiting_seconds", "Age of the oldest delivery that is due and has not been sent.", nil, nil),
		parked: prometheus.NewDesc("weir_deliveries_parked", "Deliveries that wait for their turn, for the 200 destinations with the most.",
			[]string{"destination"}, nil),
		discovery: prometheus.NewDesc("weir_discovery_last_run_age_seconds", "Time since discovery last finished a run.", nil, nil),
		processes: prometheus.NewDesc("weir_processes_alive", "Processes that have beaten within 15 s, by role.", []string{"role"}, nil),
		mended: prometheus.NewDesc("weir_mended_total", "What was put right between ledger, counters and River's jobs, over all processes.",
			[]string{"what"}, nil),
		errs: prometheus.NewDesc("weir_metrics_database_up", "1 when the database answered all of this, else 0.", nil, nil),
	}
}

func (l *ledgerCollector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{l.attention, l.oldest, l.parked, l.discovery, l.processes, l.mended, l.errs} {
		out <- desc
	}
}

func (l *ledgerCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	up := 1.0
	for _, read := range []func(context.Context, func(*prometheus.Desc, float64, ...string)) error{
		l.readAttention, l.readOldest, l.readParked, l.readDiscovery, l.readProcesses,
	} {
		err := read(ctx, func(desc *prometheus.Desc, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
		})
		if err != nil {
			l.server.Log.WarnContext(ctx, "read metrics", "error", err)
			up = 0
		}
	}
	totals, err := l.server.queries.MendTotalList(ctx, l.server.Pool)
	if err != nil {
		l.server.Log.WarnContext(ctx, "read metrics", "error", err)
		up = 0
	}
	for _, row := range totals {
		out <- prometheus.MustNewConstMetric(l.mended, prometheus.CounterValue, float64(row.Total), row.What)
	}
	out <- prometheus.MustNewConstMetric(l.errs, prometheus.GaugeValue, up)
}

type setGauge = func(*prometheus.Desc, float64, ...string)

func (l *ledgerCollector) readAttention(ctx context.Context, set setGauge) error {
	rows, err := l.server.queries.MetricAttention(ctx, l.server.Pool, maxMetricCount)
	for _, row := range rows {
		set(l.attention, float64(row.N), row.State)
	}
	return err
}

func (l *ledgerCollector) readOldest(ctx context.Context, set setGauge) error {
	seconds, err := l.server.queries.MetricOldestWaiting(ctx, l.server.Pool)
	if err == nil {
		set(l.oldest, max(0, seconds))
	}
	return err
}

func (l *ledgerCollector) readParked(ctx context.Context, set setGauge) error {
	rows, err := l.server.queries.MetricParked(ctx, l.server.Pool, maxMetricCount)
	for _, row := range rows {
		set(l.parked, float64(row.Parked), formatID(idDestination, row.ID))
	}
	return err
}

func (l *ledgerCollector) readDiscovery(ctx context.Context, set setGauge) error {
	run, err := l.server.queries.DiscoveryRunLatest(ctx, l.server.Pool)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil {
		set(l.discovery, max(0, time.Since(run.FinishedAt).Seconds()))
	}
	return err
}

func (l *ledgerCollector) readProcesses(ctx context.Context, set setGauge) error {
	rows, err := l.server.queries.ProcessList(ctx, l.server.Pool)
	alive := map[string]int{"web": 0, "work": 0, "discover": 0}
	for _, row := range rows {
		for _, role := range row.Roles {
			if _, known := alive[role]; known && row.Alive {
				alive[role]++
			}
		}
	}
	for role, n := range alive {
		set(l.processes, float64(n), role)
	}
	return err
}
