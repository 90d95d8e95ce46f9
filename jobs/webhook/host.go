package webhook

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

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
		if err != nil || !utf8.ValidString(host) {
			return "", bad
		}
		if _, err := idna.Lookup.ToASCII(converted); err != nil { // what is stored must be accepted again
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
