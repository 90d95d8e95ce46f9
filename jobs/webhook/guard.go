package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
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

// setHost checks u's host and port and writes them back in their stored form.
func (g Guard) setHost(u *url.URL) error {
	host, port := u.Hostname(), u.Port()
	if host == "" {
		return errors.New("the URL has no host")
	}
	if strings.HasSuffix(u.Host, ":") {
		return errors.New("the URL has a colon but no port after its host")
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return errors.New("the URL's port must be between 1 and 65535")
		}
		port = strconv.FormatUint(n, 10)
	}

	host, addr, err := g.normalHost(host, strings.HasPrefix(u.Host, "["))
	if err != nil {
		return err
	}
	if u.Scheme == "http" && !g.allows(addr) && (addr.IsValid() || len(g.Allow) == 0) {
		return &BlockedError{Reason: BlockedPlainHTTP, Addr: addr}
	}

	u.Host = host
	if port != "" {
		u.Host += ":" + port
	}

	return nil
}

// normalHost returns the host as it is stored, and its address where the text alone says it.
func (g Guard) normalHost(host string, bracketed bool) (string, netip.Addr, error) {
	if bracketed {
		addr, err := netip.ParseAddr(host)
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", netip.Addr{}, errors.New("what stands in brackets is not an IPv6 address (zones cannot be used)")
		}

		return "[" + addr.String() + "]", addr.Unmap(), g.CheckAddr(addr)
	}

	ascii, err := asciiHost(host)
	if err != nil {
		return "", netip.Addr{}, err
	}
	if addr, numeric := numericHost(ascii); numeric {
		if !addr.IsValid() || ascii != addr.String() {
			return "", netip.Addr{}, &BlockedError{Reason: BlockedAmbiguousHost, Addr: addr}
		}

		return ascii, addr, g.CheckAddr(addr)
	}
	if name := strings.TrimSuffix(ascii, "."); name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761 §6.3
		addr := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if g.CheckAddr(addr) != nil && g.CheckAddr(netip.IPv6Loopback()) == nil {
			addr = netip.IPv6Loopback()
		}
		if err := g.CheckAddr(addr); err != nil {
			return "", addr, err
		}

		return name, addr, nil
	}
	if strings.HasSuffix(ascii, ".") {
		return "", netip.Addr{}, errors.New("write the host without the dot at its end")
	}

	return ascii, netip.Addr{}, nil
}

// asciiHost returns the host in lower-case ASCII. ASCII names are checked less strictly than RFC 1123 asks: inside
// networks have names with underscores.
func asciiHost(host string) (string, error) {
	bad := errors.New("the URL's host is not a valid host name")

	ascii := strings.ToLower(host)
	if !isASCII(host) || strings.Contains(ascii, "xn--") {
		converted, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", bad
		}
		ascii = converted
	}

	name := strings.TrimSuffix(ascii, ".")
	if name == "" || len(name) > 253 {
		return "", bad
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", bad
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return "", bad
		}
	}

	return ascii, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}

	return true
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
