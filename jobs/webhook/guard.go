package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxURL is the longest URL accepted, in bytes; receivers and proxies rarely take more.
const maxURL = 2048

// Guard decides which addresses may be connected to: the public internet, and the networks in Allow. It is asked
// twice. At save it gives a person a friendly answer ([Guard.CheckURL], [Guard.CheckHost]); at send it decides, on the
// address that is really dialled ([Guard.CheckAddr]), so that a name that resolves differently later changes nothing.
// The zero Guard allows nothing but the public internet.
type Guard struct {
	Allow []netip.Prefix // see ParseNetworks
}

// CheckURL reads the URL of a destination as a person typed it, and returns it as it is to be stored: trimmed, scheme
// and host in lower case, an internationalised host in its ASCII form (RFC 5891), "/" for an empty path, path and
// query otherwise untouched. Errors are sentences for the form's field; they never repeat the input, which may hold a
// password. A refused address gives a [*BlockedError].
//
// Plain http is accepted for addresses (and localhost) inside Allow, and for names when Allow has any network; then
// the sender insists that the name leads into one.
func (g Guard) CheckURL(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if err := checkText(raw); err != nil {
		return nil, err
	}

	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, errors.New("the URL must begin with https://")
	}
	scheme = strings.ToLower(scheme)
	if scheme != "https" && scheme != "http" {
		return nil, errors.New("only https:// URLs can be delivered to (http:// inside the networks that " + settingAllow + " lists)")
	}
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
	if strings.Contains(authority, "@") {
		return nil, errors.New("the URL contains a user name or password; send the credential in a custom header instead, e.g. Authorization")
	}
	if strings.Contains(rest, "#") {
		return nil, errors.New("the URL contains a fragment (#…), which is never sent; remove it")
	}

	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("the URL cannot be read; check its host and port") // err would quote the URL
	}
	if err := g.setHost(u); err != nil {
		return nil, err
	}
	if u.Path == "" {
		u.Path = "/"
	}
	u.RawQuery = escapeNonASCII(u.RawQuery)
	u.ForceQuery = false

	return u, nil
}

// checkText refuses what no part of a URL may hold (RFC 3986 §2).
func checkText(raw string) error {
	if raw == "" {
		return errors.New("the URL is empty")
	}
	if len(raw) > maxURL {
		return fmt.Errorf("the URL is longer than %d bytes", maxURL)
	}
	if !utf8.ValidString(raw) {
		return errors.New("the URL is not valid UTF-8")
	}
	for i := range len(raw) {
		switch c := raw[i]; {
		case c == ' ':
			return errors.New("the URL contains a blank; write it as %20")
		case c < ' ' || c == 0x7f:
			return errors.New("the URL contains a control character")
		case c == '\\':
			return errors.New("the URL contains a backslash")
		case c == '%' && (i+2 >= len(raw) || !isHex("0x"+raw[i+1:i+3])):
			return errors.New("the URL contains a % that is not followed by two hexadecimal digits")
		}
	}

	return nil
}

// escapeNonASCII percent-encodes bytes outside ASCII, which net/http would put into the request line as they are.
func escapeNonASCII(s string) string {
	if isASCII(s) {
		return s
	}

	var b strings.Builder
	for i := range len(s) {
		if s[i] >= 0x80 {
			fmt.Fprintf(&b, "%%%02X", s[i])
			continue
		}
		b.WriteByte(s[i])
	}

	return b.String()
}

// CheckHost looks the host of a checked URL up, and returns a [*BlockedError] when it has addresses and none of them
// may be connected to. It is a courtesy at save: a name that does not resolve now is no error, and what counts is the
// check at send. A nil resolver is the system's.
func (g Guard) CheckHost(ctx context.Context, resolver *net.Resolver, u *url.URL) error {
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	addrs, err := resolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return nil //nolint:nilerr // see above
	}

	var first error
	for _, addr := range addrs {
		err := g.checkDial(addr, u.Scheme == "http")
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}

	return first
}

// checkDial is CheckAddr plus the rule that plain http stays inside the allowed networks.
func (g Guard) checkDial(addr netip.Addr, plain bool) error {
	if err := g.CheckAddr(addr); err != nil {
		return err
	}
	if plain && !g.allows(addr.Unmap().WithZone("")) {
		return &BlockedError{Reason: BlockedPlainHTTP, Addr: addr.Unmap()}
	}

	return nil
}
