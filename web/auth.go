package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"weir/web/ui"
)

// operator is who is signed in.
type operator struct {
	ID   int64
	Name string
	Role ui.Role
}

const operatorKey = "weir.operator"

// hashParams: 19 MiB and two passes, OWASP's choice; a hash takes about 20 ms.
var hashParams = &argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// unknownHash is compared where there is no operator of that name, so that the answer takes as long.
const unknownHash = "$argon2id$v=19$m=19456,t=2,p=1$d2Vpci1ub2JvZHktaGVyZQ$Yb0mTHVnmQp5SgXKzVtF1aG4uA1d7c0i3vJc6b1oZ5E"

var errBusy = newProblem(http.StatusServiceUnavailable, "Too many people are signing in at once. Try again in a few seconds.")

// hashPlace waits for one of the two places that password hashing has, so that many sign-ins at once cost time and not memory.
func (s *Server) hashPlace(ctx context.Context) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	select {
	case s.hashing <- struct{}{}:
		return func() { <-s.hashing }, nil
	case <-ctx.Done():
		return nil, errBusy
	}
}

func (s *Server) hashPassword(ctx context.Context, password string) (string, error) {
	release, err := s.hashPlace(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	return argon2id.CreateHash(password, hashParams)
}

// authenticate returns the operator, or false with no word on why: an unknown name, a wrong password and a locked account look alike and
// take as long.
func (s *Server) authenticate(ctx context.Context, name, password string) (operator, bool, error) {
	release, err := s.hashPlace(ctx)
	if err != nil {
		return operator{}, false, err
	}
	defer release()
	hash := unknownHash
	found, err := s.queries.OperatorTry(ctx, s.Pool, name)
	switch {
	case err == nil:
		hash = found.PasswordHash
	case !errors.Is(err, pgx.ErrNoRows):
		return operator{}, false, err
	}
	match, err := argon2id.ComparePasswordAndHash(password, hash)
	if err != nil || !match || found.ID == 0 {
		return operator{}, false, err
	}
	role, _ := ui.ParseRole(found.Role) // the table's constraint leaves nothing else
	return operator{found.ID, name, role}, true, s.queries.OperatorSignedIn(ctx, s.Pool, found.ID)
}

// signIn starts a session under a new token, whatever the visitor brought, and records it: no entry, no session.
func (s *Server) signIn(ctx context.Context, o operator) error {
	if err := s.sessions.RenewToken(ctx); err != nil {
		return err
	}
	if err := s.audit(o.asWho(ctx), s.Pool, auditEntry{action: "sign_in", object: o.object()}); err != nil {
		return err
	}
	s.sessions.Put(ctx, sessionOperator, o.ID)
	return nil
}

// asWho is ctx with the operator as who asks.
func (o operator) asWho(ctx context.Context) context.Context {
	return withWho(ctx, who{kind: actorOperator, id: o.ID, name: o.Name, role: o.Role.String(), address: whoOf(ctx).address})
}

func (o operator) object() auditObject {
	return auditObject{"person", formatID(idPerson, o.ID), o.Name}
}

// signInFailed records a sign-in that was refused. The name stands in it only where it is an operator's: somebody may have typed a
// password in its place. Anybody can make such entries, so they are limited: what is over the limit is counted in the log alone.
func (s *Server) signInFailed(ctx context.Context, name string) error {
	if !s.failures.Allow() {
		s.Log.WarnContext(ctx, "sign-in refused, and left out of the audit log: there are too many")
		return nil
	}
	e := auditEntry{action: "sign_in_failed", note: "unknown name"}
	found, err := s.queries.OperatorGetByName(ctx, s.Pool, name)
	switch {
	case err == nil:
		e.object, e.note = operator{ID: found.ID, Name: found.Name}.object(), "wrong password"
		if found.Locked {
			e.note = "the account is locked"
		}
		if found.DeactivatedAt != nil {
			e.note = "the account is deactivated"
		}
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("load operator: %w", err)
	}
	return s.audit(ctx, s.Pool, e)
}

// identify finds out who is signed in, if anybody.
func (s *Server) identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		if id := s.sessions.GetInt64(ctx, sessionOperator); id != 0 {
			found, err := s.queries.OperatorGetByID(ctx, s.Pool, id)
			if err == nil {
				role, _ := ui.ParseRole(found.Role)
				o := operator{found.ID, found.Name, role}
				c.Set(operatorKey, o)
				c.SetRequest(c.Request().WithContext(o.asWho(ctx)))
			} else if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		}
		return next(c)
	}
}

// requireOperator sends everybody else to sign in, and back to the page afterwards. A form sent after the session ended is not lost on a
// dead button: its sender is told, and led back to where it was.
func (s *Server) requireOperator(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if _, ok := c.Get(operatorKey).(operator); ok {
			return next(c)
		}
		if isFragment(c) {
			return c.NoContent(http.StatusUnauthorized)
		}
		r := c.Request()
		back := r.URL.RequestURI()
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.sessions.Put(r.Context(), sessionWarning, "You were signed out, so nothing was done. Sign in, then do it again.")
			back = localPath(r.Referer(), r.Host)
		}
		target := "/login"
		if back != "/" && back != "" {
			target += "?next=" + url.QueryEscape(back)
		}
		return c.Redirect(http.StatusSeeOther, target)
	}
}

// requireRole refuses who is signed in with less than the role, and says which it takes.
func requireRole(least ui.Role) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			who, _ := c.Get(operatorKey).(operator)
			if who.Role >= least {
				return next(c)
			}
			return newProblem(http.StatusForbidden, fmt.Sprintf("This needs the role %s, and yours is %s. Nothing was done. An administrator can change your role, under People.", least, who.Role))
		}
	}
}

// localPath is the path of an address of our own, "/" for any other: a sign-in must not lead elsewhere.
func localPath(raw, host string) string {
	u, err := url.Parse(raw)
	if err != nil || (u.Host != "" && u.Host != host) || u.Opaque != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") || strings.ContainsAny(raw, "\\\t\r\n") || (u.Scheme != "" && u.Host == "") {
		return "/"
	}
	return u.RequestURI()
}

// sameOrigin refuses what another site makes a browser send. Requests without a browser's headers pass: they carry no session either.
func sameOrigin() echo.MiddlewareFunc {
	protection := http.NewCrossOriginProtection()
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := protection.Check(c.Request()); err != nil {
				return newProblem(http.StatusForbidden, "This request came from another site, so nothing was done.")
			}
			return next(c)
		}
	}
}

// limitSignIn gives an address twenty tries at once and one more every three seconds, over all processes together.
func (s *Server) limitSignIn(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		taken, err := s.queries.SignInAddressTake(c.Request().Context(), s.Pool, limitedAddress(c.RealIP()))
		if err != nil {
			return fmt.Errorf("count a try to sign in: %w", err)
		}
		if taken == 0 {
			c.Response().Header().Set("Retry-After", "30")
			return newProblem(http.StatusTooManyRequests, "Too many tries from your address. Wait half a minute, then try again.")
		}
		return next(c)
	}
}

// limitedAddress is what the tries are counted by: an IPv6 customer has a whole /64.
func limitedAddress(address string) string {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return "unknown" // one count for what has no address
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if prefix, err := addr.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return addr.String()
}
