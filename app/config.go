package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"weir/db/dbembed"
	"weir/jobs/webhook"
	"weir/web"
)

// config is every setting of a Weir process. All come from the environment, each has a working default, and the doc tag is what
// "serve --help" prints.
type config struct {
	DatabaseURL       string        `env:"DATABASE_URL" secret:"true" doc:"Postgres to use, 15 or later; empty: an embedded one in the data directory"`
	Addr              string        `env:"WEIR_ADDR" envDefault:":8080" doc:"address of the panel and the API"`
	DataDir           string        `env:"WEIR_DATA_DIR" doc:"where the embedded Postgres and the secret key live; empty: a directory of the user's"`
	SecretKey         string        `env:"WEIR_SECRET_KEY" secret:"true" doc:"key that seals signing secrets and headers: 32 bytes in base64, or id:base64,… to rotate; empty: made once, kept in the data directory"`
	AllowNetworks     string        `env:"WEIR_ALLOW_NETWORKS" doc:"CIDRs of inside networks that destinations may be in, plain http allowed there; empty: public addresses only"`
	DiscoveryInterval time.Duration `env:"WEIR_DISCOVERY_INTERVAL" envDefault:"10s" doc:"how often the outbox is read"`
	BodyLimit         int           `env:"WEIR_BODY_LIMIT" envDefault:"262144" doc:"largest payload, in bytes"`
	Workers           int           `env:"WEIR_WORKERS" envDefault:"1000" doc:"deliveries that one process has under way, those that wait for their slot included"`
	MaxConns          int           `env:"WEIR_DATABASE_CONNS" envDefault:"20" doc:"connections to Postgres, at most; one that delivers has three more for pacing"`
	Grace             time.Duration `env:"WEIR_GRACE" envDefault:"25s" doc:"how long a stop waits for requests under way"`
	SecureCookies     bool          `env:"WEIR_SECURE_COOKIES" doc:"true behind https: the session cookie is then sent over https only"`
	TrustedProxies    string        `env:"WEIR_TRUSTED_PROXIES" doc:"CIDRs of reverse proxies in front of the panel and the API: X-Forwarded-For and X-Forwarded-Proto count only from them, for limits, sessions, the audit log and Secure cookies; empty: from nobody"`
	AuditDays         int           `env:"WEIR_AUDIT_DAYS" envDefault:"730" doc:"how many days the audit log is kept, 30 at least; 0: for good"`
	LogLevel          string        `env:"WEIR_LOG_LEVEL" envDefault:"info" doc:"debug, info, warn or error; debug logs each attempt"`
	LogFormat         string        `env:"WEIR_LOG_FORMAT" envDefault:"auto" doc:"json, text, or auto: text on a terminal"`
	Roles             []string      `env:"WEIR_ROLES" envDefault:"web,work,discover" doc:"what this process does"`

	allowed  []netip.Prefix
	trusted  []netip.Prefix
	cacheDir string // of downloaded server binaries; empty: in the data directory
}

// loadConfig reads and checks the environment; the error names every variable that is wrong, and no value.
func loadConfig() (config, error) {
	c, err := env.ParseAs[config]()
	if err != nil {
		return c, fmt.Errorf("read settings: %w", err)
	}
	var errs []error
	if c.allowed, err = webhook.ParseNetworks(c.AllowNetworks); err != nil {
		errs = append(errs, fmt.Errorf("WEIR_ALLOW_NETWORKS: %w", err))
	}
	if c.trusted, err = webhook.ParseNetworks(c.TrustedProxies); err != nil {
		errs = append(errs, fmt.Errorf("WEIR_TRUSTED_PROXIES: %w", err))
	}
	between := func(name string, got, low, high int64, unit string) {
		if got < low || got > high {
			errs = append(errs, fmt.Errorf("%s: want %d to %d%s", name, low, high, unit))
		}
	}
	between("WEIR_BODY_LIMIT", int64(c.BodyLimit), 1, 16<<20, " bytes")
	between("WEIR_WORKERS", int64(c.Workers), 1, 10000, "")
	between("WEIR_DATABASE_CONNS", int64(c.MaxConns), 6, 1000, "")
	between("WEIR_DISCOVERY_INTERVAL", int64(c.DiscoveryInterval/time.Second), 1, 3600, " seconds")
	between("WEIR_GRACE", int64(c.Grace/time.Second), 1, 600, " seconds")
	if c.AuditDays != 0 {
		between("WEIR_AUDIT_DAYS", int64(c.AuditDays), 30, 36500, " days, or 0 for good")
	}
	c.DataDir = cmp.Or(c.DataDir, dbembed.DefaultDataDir())
	if err := errors.Join(errs...); err != nil {
		return c, fmt.Errorf("read settings: %w", err)
	}
	return c, nil
}

// configHelp lists the settings for --help.
func configHelp() string {
	var b strings.Builder
	b.WriteString("Settings, all by environment variable:\n\n")
	t := reflect.TypeFor[config]()
	for i := range t.NumField() {
		field := t.Field(i)
		name, ok := field.Tag.Lookup("env")
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "  %-24s %s", name, field.Tag.Get("doc"))
		if def := field.Tag.Get("envDefault"); def != "" {
			fmt.Fprintf(&b, " (%s)", def)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// shown is what the page of settings shows of the configuration: of a secret only whether it is set.
func (c config) shown() []web.Setting {
	var settings []web.Setting
	t, v := reflect.TypeFor[config](), reflect.ValueOf(c)
	for i := range t.NumField() {
		field := t.Field(i)
		name, ok := field.Tag.Lookup("env")
		if !ok {
			continue
		}
		set := web.Setting{Name: name, Doc: field.Tag.Get("doc"), Value: strings.Trim(fmt.Sprint(v.Field(i).Interface()), "[]")}
		given, ok := os.LookupEnv(name)
		set.Set = ok && given != ""
		if field.Tag.Get("secret") == "true" {
			if set.Value = ""; set.Set {
				set.Value = "set, not shown"
			}
		}
		settings = append(settings, set)
	}
	return settings
}

// keySource says where the keys come from.
func (c config) keySource() string {
	if c.SecretKey != "" {
		return "WEIR_SECRET_KEY"
	}
	return "a file in the data directory"
}
