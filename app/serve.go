package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/jobs"
	"weir/jobs/webhook"
	"weir/web"
)

func newServeCommand() *cobra.Command {
	var roles []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run Weir: the panel, the API, discovery and delivery",
		Long:  "Run Weir: the panel, the API, discovery and delivery. Without any setting it uses an embedded Postgres.\n\n" + configHelp(),
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig()
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("roles") {
				c.Roles = roles
			}
			log, err := newLog(c, os.Stderr)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), c, log, cmd.OutOrStdout(), nil)
		},
	}
	cmd.Flags().StringSliceVar(&roles, "roles", nil, "what this process does: web, work, discover (WEIR_ROLES)")
	return cmd
}

// serve runs until ctx ends, then stops in order: no new requests, requests under way end, the engine settles, the database closes.
// ready, if not nil, is called once everything answers.
func serve(ctx context.Context, c config, log *slog.Logger, out io.Writer, ready func(context.Context, *running) error) error {
	err := serveUntil(ctx, c, log, out, ready)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // told to stop while it was starting: that is no failure
	}
	return err
}

func serveUntil(ctx context.Context, c config, log *slog.Logger, out io.Writer, ready func(context.Context, *running) error) error {
	store, err := openStore(ctx, c, log)
	if err != nil {
		return err
	}
	defer store.close(log)
	engine, sender, err := newEngine(c, store, log)
	if err != nil {
		return err
	}
	defer sender.Close()
	if err := engine.Start(ctx); err != nil {
		return err
	}
	defer func() {
		if err := engine.Stop(ctx); err != nil {
			log.Warn("stop engine", "error", err)
		}
	}()
	r := &running{config: c, store: store, engine: engine, log: log, out: out}
	failed := make(chan error, 1)
	if slices.Contains(c.Roles, jobs.RoleWeb) {
		stop, err := r.listen(ctx, failed)
		if err != nil {
			return err
		}
		defer stop()
	}
	if ready != nil {
		if err := ready(ctx, r); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		log.Info("stopping")
		return nil
	case err := <-failed:
		return err
	case <-store.lost():
		return errors.New("serve: the embedded postgres ended by itself; its log is in the data directory")
	}
}

// running is a process that serves.
type running struct {
	config config
	store  *store
	engine *jobs.Engine
	log    *slog.Logger
	out    io.Writer
	url    string // of the panel
}

// listen starts the web server and says where it is, with the one-time link where there is no administrator yet.
func (r *running) listen(ctx context.Context, failed chan<- error) (stop func(), err error) {
	site, err := web.New(web.Options{
		Pool: r.store.pool, Engine: r.engine, Keyring: r.store.keyring, Guard: webhook.Guard{Allow: r.config.allowed}, Log: r.log,
		BodyLimit: r.config.BodyLimit, Version: version(), SecureCookies: r.config.SecureCookies,
		TrustedProxies: r.config.trusted, AuditDays: r.config.AuditDays, Settings: r.config.shown(), KeySource: r.config.keySource(),
	})
	if err != nil {
		return nil, fmt.Errorf("make web server: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", r.config.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on WEIR_ADDR: %w", err)
	}
	server := &http.Server{
		Handler: site.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(site.CloseStreams)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve: %w", err)
		}
	}()
	maintaining, stopMaintaining := context.WithCancel(ctx)
	site.Start(maintaining)
	maintained := make(chan struct{})
	go func() {
		defer close(maintained)
		maintain(maintaining, site, r.log)
	}()
	r.url = urlOf(listener.Addr())
	say(r.out, "Weir is at %s", r.url)
	invitation, err := site.InviteFirstAdministrator(ctx)
	if err != nil {
		stopMaintaining()
		_ = server.Close()
		return nil, fmt.Errorf("invite first administrator: %w", err)
	}
	if invitation != "" {
		say(r.out, "There is no administrator yet. This link makes the first, once, within a day:\n\n    %s%s\n", r.url, invitation)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			r.log.Warn("stop web server", "error", err)
		}
		stopMaintaining()
		<-maintained
	}, nil
}

// maintain removes what the web server no longer needs, now and every hour, until ctx ends.
func maintain(ctx context.Context, site *web.Server, log *slog.Logger) {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		if err := site.Maintain(ctx); err != nil && ctx.Err() == nil {
			log.Warn("remove expired sessions", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// urlOf is how a person on this machine reaches an address.
func urlOf(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "http://" + addr.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(strings.ToLower(host), port)
}
