package webhook

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"code.dny.dev/ssrf"
)

// Reasons of a [BlockedError]: why the guard refused. Stable, as part of an error class and a metric's label.
const (
	BlockedLoopback      = "loopback"       // 127.0.0.0/8, ::1
	BlockedPrivate       = "private"        // RFC 1918, RFC 4193
	BlockedLinkLocal     = "link_local"     // RFC 3927, fe80::/10
	BlockedCGNAT         = "cgnat"          // RFC 6598
	BlockedMetadata      = "metadata"       // the cloud's metadata service
	BlockedIPv6Embedded  = "ipv6_embedded"  // NAT64, 6to4, Teredo: an IPv4 address in disguise
	BlockedMulticast     = "multicast"      //
	BlockedUnspecified   = "unspecified"    // 0.0.0.0, ::, which reach this very host
	BlockedReserved      = "reserved"       // everything else in IANA's special-purpose registries
	BlockedPlainHTTP     = "plain_http"     // http to an address outside the allowed networks
	BlockedAmbiguousHost = "ambiguous_host" // an IPv4 address that is not written as four decimal numbers
	BlockedInvalid       = "invalid"        // not an address at all
)

// settingAllow is the setting that every refusal names, so that whoever runs an inside network finds it.
const settingAllow = "WEIR_ALLOW_NETWORKS"

// BlockedError is a refusal of the guard. Its text may be shown: it holds an address, but nothing of the URL.
type BlockedError struct {
	Reason string     // one of the Blocked… reasons
	Addr   netip.Addr // the address refused, where it is known
}

// Error says what was refused, why, and which setting would change it.
func (e *BlockedError) Error() string {
	where := "the address"
	if e.Addr.IsValid() {
		where = e.Addr.String()
	}

	switch e.Reason {
	case BlockedPlainHTTP:
		return fmt.Sprintf("plain http is sent only inside the networks that %s lists, and %s is not in one; use https", settingAllow, where)
	case BlockedMetadata:
		return fmt.Sprintf("%s is a cloud metadata service; it stays blocked unless %s lists that very address", where, settingAllow)
	case BlockedAmbiguousHost:
		if e.Addr.IsValid() {
			return fmt.Sprintf("the host is another spelling of the address %s; write it as that (inside networks are listed in %s)", where, settingAllow)
		}
		return "the host is a number but not an IPv4 address; write it as four decimal numbers"
	case BlockedInvalid:
		return "the connection was refused: its address could not be read"
	default:
		return fmt.Sprintf("%s is not a public address (%s); to allow it, list its network in %s", where, e.Reason, settingAllow)
	}
}

// specialNetworks knows IANA's special-purpose registries. Ports and network types are not its business here.
var specialNetworks = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork())

// metadataAddrs are where clouds hand out credentials to whoever can connect: AWS, GCP, Azure and others on the IPv4
// address, AWS and GCP on an IPv6 address of their own, Alibaba inside the CGNAT range.
var metadataAddrs = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"),
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("100.100.100.200"),
}

// namedNetworks gives the reason for a special address. The first match names it, so narrow ones come first. It only
// names: whether an address is special is decided by specialNetworks.
var namedNetworks = []struct {
	prefix netip.Prefix
	reason string
}{
	{netip.MustParsePrefix("0.0.0.0/32"), BlockedUnspecified},
	{netip.MustParsePrefix("::/128"), BlockedUnspecified},
	{netip.MustParsePrefix("127.0.0.0/8"), BlockedLoopback},
	{netip.MustParsePrefix("::1/128"), BlockedLoopback},
	{netip.MustParsePrefix("10.0.0.0/8"), BlockedPrivate},
	{netip.MustParsePrefix("172.16.0.0/12"), BlockedPrivate},
	{netip.MustParsePrefix("192.168.0.0/16"), BlockedPrivate},
	{netip.MustParsePrefix("fc00::/7"), BlockedPrivate},
	{netip.MustParsePrefix("100.64.0.0/10"), BlockedCGNAT},
	{netip.MustParsePrefix("169.254.0.0/16"), BlockedLinkLocal},
	{netip.MustParsePrefix("fe80::/10"), BlockedLinkLocal},
	{netip.MustParsePrefix("64:ff9b::/96"), BlockedIPv6Embedded},   // NAT64, RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), BlockedIPv6Embedded}, // local NAT64, RFC 8215
	{netip.MustParsePrefix("2002::/16"), BlockedIPv6Embedded},      // 6to4, RFC 3056
	{netip.MustParsePrefix("2001::/32"), BlockedIPv6Embedded},      // Teredo, RFC 4380
	{netip.MustParsePrefix("::/96"), BlockedIPv6Embedded},          // IPv4-compatible, RFC 4291 §2.5.5.1
	{netip.MustParsePrefix("224.0.0.0/4"), BlockedMulticast},
	{netip.MustParsePrefix("ff00::/8"), BlockedMulticast},
}

// nat64 is the one embedding that an operator may have to allow (an IPv6-only host). The IPv4 address inside is then
// checked for itself.
var nat64 = ssrf.IPv6NAT64Prefix

// CheckAddr returns nil when addr may be connected to, else a [*BlockedError]. It is what the sender asks for every
// address it is about to dial. An IPv4 address mapped into IPv6 is judged as the IPv4 address that it will reach.
func (g Guard) CheckAddr(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return &BlockedError{Reason: BlockedInvalid}
	}

	allowed := g.allows(addr)
	if isMetadata(addr) && !g.listsAlone(addr) {
		return &BlockedError{Reason: BlockedMetadata, Addr: addr}
	}
	if allowed && nat64.Contains(addr) {
		raw := addr.As16()
		return g.CheckAddr(netip.AddrFrom4([4]byte(raw[12:])))
	}
	if allowed || specialNetworks.SafeAddr(addr) == nil {
		return nil
	}

	return &BlockedError{Reason: reasonFor(addr), Addr: addr}
}

// allows reports whether addr lies in one of the allowed networks.
func (g Guard) allows(addr netip.Addr) bool {
	for _, prefix := range g.Allow {
		if prefix.Contains(addr) {
			return true
		}
	}

	return false
}

// listsAlone reports whether addr is listed by itself, as a /32 or /128.
func (g Guard) listsAlone(addr netip.Addr) bool {
	for _, prefix := range g.Allow {
		if prefix.IsSingleIP() && prefix.Addr() == addr {
			return true
		}
	}

	return false
}

func isMetadata(addr netip.Addr) bool {
	for _, metadata := range metadataAddrs {
		if addr == metadata {
			return true
		}
	}

	return false
}

func reasonFor(addr netip.Addr) string {
	for _, named := range namedNetworks {
		if named.prefix.Contains(addr) {
			return named.reason
		}
	}

	return BlockedReserved
}

// ParseNetworks reads the value of WEIR_ALLOW_NETWORKS: networks in CIDR notation or single addresses, separated by
// commas or blanks. Empty means that nothing besides the public internet is allowed.
func ParseNetworks(s string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, item := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }) {
		prefix, err := netip.ParsePrefix(item)
		if err != nil {
			addr, addrErr := netip.ParseAddr(item)
			if addrErr != nil || addr.Zone() != "" {
				return nil, fmt.Errorf("%s: %q is not a network such as 10.0.0.0/8 or an address such as 10.0.0.24; host names, ports and wildcards cannot be listed", settingAllow, printable(item, 64))
			}
			addr = addr.Unmap()
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		if prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("%s: write %q as an IPv4 network", settingAllow, printable(item, 64))
		}
		networks = append(networks, prefix.Masked())
	}

	return networks, nil
}

// numericHost reports whether host would be read as an IPv4 number by the C library's inet_aton, as browsers and
// resolvers do: one to four parts, each decimal, octal (leading 0) or hexadecimal (0x), the last one filling what is
// left. addr is the address it means, invalid when the number does not fit. Canonical dotted quads count, too.
func numericHost(host string) (addr netip.Addr, numeric bool) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := parts[len(parts)-1]
	if !isDigits(last) && !isHex(last) {
		return netip.Addr{}, false // as in the WHATWG URL standard, the last part decides
	}
	if len(parts) > 4 {
		return netip.Addr{}, true
	}

	var sum uint64
	for i, part := range parts {
		value, err := strconv.ParseUint(part, 0, 64)
		if isDigits(part) && len(part) > 1 && part[0] == '0' {
			value, err = strconv.ParseUint(part, 8, 64)
		}
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if err != nil || value>>bits != 0 {
			return netip.Addr{}, true
		}
		sum = sum<<bits | value
	}

	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true
}

func isHex(s string) bool {
	digits, ok := strings.CutPrefix(strings.ToLower(s), "0x")

	return ok && strings.Trim(digits, "0123456789abcdef") == ""
}
