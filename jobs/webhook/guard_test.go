package webhook

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustNetworks(t testing.TB, s string) []netip.Prefix {
	t.Helper()

	networks, err := ParseNetworks(s)
	require.NoError(t, err)

	return networks
}

func TestCheckAddrNamesItsReason(t *testing.T) {
	t.Parallel()

	for addr, want := range map[string]string{
		"8.8.8.8": "", "1.1.1.1": "", "100.63.255.255": "", "100.128.0.0": "", "172.15.255.255": "", "172.32.0.0": "",
		"2606:4700::1111": "", "2a00:1450:4001::1": "", "::ffff:8.8.8.8": "",
		"127.0.0.1": "loopback", "127.255.255.255": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"10.0.0.24": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private",
		"fc00::1": "private", "fd12:3456::1": "private", "::ffff:10.0.0.1": "private",
		"169.254.1.1": "link_local", "fe80::1": "link_local", "fe80::1%eth0": "link_local",
		"100.64.0.0": "cgnat", "100.127.255.255": "cgnat",
		"169.254.169.254": "metadata", "fd00:ec2::254": "metadata", "100.100.100.200": "metadata",
		"::ffff:169.254.169.254": "metadata", "fd20:ce::254": "metadata",
		"64:ff9b::7f00:1": "ipv6_embedded", "64:ff9b::808:808": "ipv6_embedded", "64:ff9b:1::1": "ipv6_embedded",
		"2002:7f00:1::": "ipv6_embedded", "2001:0:4136:e378:8000:63bf:3fff:fdd2": "ipv6_embedded", "::7f00:1": "ipv6_embedded",
		"0.0.0.0": "unspecified", "::": "unspecified", "::ffff:0.0.0.0": "unspecified",
		"224.0.0.1": "multicast", "ff02::1": "multicast", "255.255.255.255": "reserved", "0.1.2.3": "reserved",
		"192.0.2.1": "reserved", "198.18.0.1": "reserved", "203.0.113.10": "reserved", "2001:db8::1": "reserved",
		"fec0::1": "reserved", "4000::1": "reserved",
	} {
		err := Guard{}.CheckAddr(netip.MustParseAddr(addr))
		if want == "" {
			require.NoError(t, err, addr)
			continue
		}
		var blocked *BlockedError
		require.ErrorAs(t, err, &blocked, addr)
		require.Equal(t, want, blocked.Reason, addr)
		require.Contains(t, err.Error(), "WEIR_ALLOW_NETWORKS", addr)
		require.Contains(t, err.Error(), blocked.Addr.String(), addr)
	}

	require.Error(t, Guard{}.CheckAddr(netip.Addr{}))
}

func TestCheckAddrWithAllowedNetworks(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		allow, addr string
		want        bool
	}{
		"listed network":                    {"10.0.0.0/8", "10.0.0.24", true},
		"mapped into IPv6":                  {"10.0.0.0/8", "::ffff:10.0.0.24", true},
		"beside the network":                {"10.0.0.0/9", "10.200.0.1", false},
		"unmasked prefix":                   {"10.1.2.3/8", "10.0.0.24", true},
		"single address":                    {"127.0.0.1", "127.0.0.1", true},
		"IPv6":                              {"fd00::/8 ::1", "fd12::1", true},
		"metadata inside a listed network":  {"169.254.0.0/16", "169.254.169.254", false},
		"metadata inside everything":        {"0.0.0.0/0,::/0", "169.254.169.254", false},
		"IPv6 metadata in a listed network": {"fd00::/8", "fd00:ec2::254", false},
		"metadata by itself":                {"169.254.0.0/16,169.254.169.254/32", "169.254.169.254", true},
		"NAT64 to a public address":         {"64:ff9b::/96", "64:ff9b::808:808", true},
		"NAT64 to loopback":                 {"64:ff9b::/96", "64:ff9b::7f00:1", false},
		"NAT64 to metadata":                 {"64:ff9b::/96,169.254.0.0/16", "64:ff9b::a9fe:a9fe", false},
		"public stays public":               {"10.0.0.0/8", "8.8.8.8", true},
	} {
		err := Guard{Allow: mustNetworks(t, tt.allow)}.CheckAddr(netip.MustParseAddr(tt.addr))
		require.Equal(t, tt.want, err == nil, "%s: %v", name, err)
	}
}

func TestParseNetworksRefusals(t *testing.T) {
	t.Parallel()

	require.Empty(t, mustNetworks(t, " , "))
	for _, bad := range []string{"lms.internal", "10.0.0.0/33", "10.0.0.1:8079", "*", "10.*", "fe80::1%eth0", "::ffff:10.0.0.0/104", "10.0.0.0/8;x"} {
		_, err := ParseNetworks("127.0.0.0/8," + bad)
		require.ErrorContains(t, err, "WEIR_ALLOW_NETWORKS", bad)
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()

	const inside = "10.0.0.0/8, 127.0.0.0/8"

	for _, tt := range []struct{ raw, allow, want, wantErr string }{
		{" https://rx.example.test/h \n", "", "https://rx.example.test/h", ""},
		{"https://rx.example.test", "", "https://rx.example.test/", ""},
		{"https://rx.example.test?a=1", "", "https://rx.example.test/?a=1", ""},
		{"HTTPS://RX.example.test/Case?Q=A%2fb", "", "https://rx.example.test/Case?Q=A%2fb", ""},
		{"https://rx.example.test:8443/a%2Fb/./c//d", "", "https://rx.example.test:8443/a%2Fb/./c//d", ""},
		{"https://rx.example.test/ü?q=ü", "", "https://rx.example.test/%C3%BC?q=%C3%BC", ""},
		{"https://münchen.example.test/hook", "", "https://xn--mnchen-3ya.example.test/hook", ""},
		{"https://MÜNCHEN.example.test/", "", "https://xn--mnchen-3ya.example.test/", ""},
		{"https://xn--mnchen-3ya.example.test/", "", "https://xn--mnchen-3ya.example.test/", ""},
		{"https://my_service/hook", "", "https://my_service/hook", ""},
		{"https://8.8.8.8/", "", "https://8.8.8.8/", ""},
		{"https://[2606:4700::1111]:443/", "", "https://[2606:4700::1111]:443/", ""},
		{"https://rx.example.test:0443/", "", "https://rx.example.test:443/", ""},

		{"", "", "", "empty"},
		{"   ", "", "", "empty"},
		{"rx.example.test/h", "", "", "must begin with https://"},
		{"//rx.example.test/h", "", "", "must begin with https://"},
		{"https:rx.example.test", "", "", "must begin with https://"},
		{"javascript:alert(1)", "", "", "must begin with https://"},
		{"ftp://rx/", "", "", "only https://"},
		{"wss://https://http://a:b", "", "", "only https://"},
		{"https://", "", "", "no host"},
		{"https:///path", "", "", "no host"},
		{"https://:443/", "", "", "no host"},
		{"https://rx.example.test:/", "", "", "no port"},
		{"https://rx:99999/", "", "", "between 1 and 65535"},
		{"https://rx:0/", "", "", "between 1 and 65535"},
		{"https://rx:http/", "", "", "cannot be read"},
		{"https://rx.example.test/#x", "", "", "fragment"},
		{"https://rx.example.test/#", "", "", "fragment"},
		{"https://rx/%zz", "", "", "two hexadecimal digits"},
		{"https://rx/?q=%2", "", "", "two hexadecimal digits"},
		{"https://rx/a b", "", "", "blank"},
		{"https://rx/\x00", "", "", "control character"},
		{"https://rx/a\nb", "", "", "control character"},
		{`https://rx\@evil/`, "", "", "backslash"},
		{"https://hookuser:hookpass@rx.example.test/in", "", "", "custom header"},
		{"https://@rx.example.test/in", "", "", "custom header"},
		{"https://rx..example/", "", "", "not a valid host name"},
		{"https://-rx.example/", "", "", "not a valid host name"},
		{"https://xn--a/", "", "", "not a valid host name"},
		{"https://rx.example.test./", "", "", "dot at its end"},
		{"https://[fe80::1%25eth0]/", "", "", "not an IPv6 address"},
		{"https://" + strings.Repeat("a", 2050), "", "", "longer than"},

		{"https://127.0.0.1/", "", "", "127.0.0.1 is not a public address (loopback)"},
		{"https://LOCALHOST:8080/", "", "", "127.0.0.1 is not a public address (loopback)"},
		{"https://localhost./", "", "", "127.0.0.1 is not a public address (loopback)"},
		{"https://api.localhost/", "", "", "127.0.0.1 is not a public address (loopback)"},
		{"https://2130706433/", "", "", "another spelling of the address 127.0.0.1"},
		{"https://0x7f000001/", "", "", "another spelling of the address 127.0.0.1"},
		{"https://127.1/", "", "", "another spelling of the address 127.0.0.1"},
		{"https://0177.0.0.1/", "", "", "another spelling of the address 127.0.0.1"},
		{"https://127.0.0.1./", "", "", "another spelling of the address 127.0.0.1"},
		{"https://0x7f.1/", inside, "", "another spelling of the address 127.0.0.1"},
		{"https://１２７.0.0.1/", "", "", "127.0.0.1 is not a public address"},
		{"https://4294967296/", "", "", "not an IPv4 address"},
		{"https://1.2.3.4.5/", "", "", "not an IPv4 address"},
		{"https://[::ffff:127.0.0.1]/", "", "", "loopback"},
		{"https://169.254.169.254/latest/", "169.254.0.0/16", "", "metadata"},
		{"https://10.0.0.24:8079/hook", "", "", "WEIR_ALLOW_NETWORKS"},
		{"https://10.0.0.24:8079/hook", inside, "https://10.0.0.24:8079/hook", ""},

		{"http://rx.example.test/", "", "", "plain http"},
		{"http://8.8.8.8/", inside, "", "plain http"},
		{"http://8.8.8.8/", "", "", "plain http"},
		{"http://10.0.0.24:8079/hook", inside, "http://10.0.0.24:8079/hook", ""},
		{"http://localhost:8079", inside, "http://localhost:8079/", ""},
		{"http://localhost:8079", "::1", "http://localhost:8079/", ""},
		{"http://receiver:8079", inside, "http://receiver:8079/", ""},
	} {
		u, err := Guard{Allow: mustNetworks(t, tt.allow)}.CheckURL(tt.raw)
		if tt.wantErr != "" {
			require.ErrorContains(t, err, tt.wantErr, tt.raw)
			require.NotContains(t, err.Error(), "hookpass")
			require.Nil(t, u)
			continue
		}
		require.NoError(t, err, tt.raw)
		require.Equal(t, tt.want, u.String())
	}
}

func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{"https://rx.example.test/h?a=b", "http://127.1:80/", "https://[::1]/", "https://münchen/", "https://a:b@c/#d", "https://0x/", "https://%31/", "http://\xff", "http://0\xb2", "https://%ff/"} {
		f.Add(seed)
	}
	guard := Guard{Allow: mustNetworks(f, "10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := guard.CheckURL(raw)
		if err != nil {
			return
		}
		if u.User != nil || u.Fragment != "" || u.Host == "" || !isASCII(u.String()) || strings.ContainsAny(u.String(), " \r\n\x00") {
			t.Fatalf("%q gave %q", raw, u)
		}
		// What is stored must be accepted again, and stay the same.
		again, err := guard.CheckURL(u.String())
		if err != nil || again.String() != u.String() {
			t.Fatalf("%q gave %q, then %v %v", raw, u, again, err)
		}
	})
}

func TestCheckHeader(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct{ name, value, wantErr string }{
		{"X-Api-Key", "s3cr3t-value", ""},
		{"Authorization", "Bearer s3cr3t-value", ""},
		{"webhook-id", "s3cr3t-value", "reserved"},
		{"Webhook_Signature", "s3cr3t-value", "reserved"},
		{"WEIR-anything", "s3cr3t-value", "reserved"},
		{"Idempotency-Key", "s3cr3t-value", "reserved"},
		{"X-Idempotency-Key", "s3cr3t-value", "reserved"},
		{"Content-Type", "s3cr3t-value", "reserved"},
		{"user-agent", "s3cr3t-value", "reserved"},
		{"Host", "s3cr3t-value", "reserved"},
		{"Content-Length", "s3cr3t-value", "reserved"},
		{"Transfer-Encoding", "s3cr3t-value", "reserved"},
		{"Connection", "s3cr3t-value", "reserved"},
		{"Proxy-Authorization", "s3cr3t-value", "reserved"},
		{"Expect", "s3cr3t-value", "reserved"},
		{"", "s3cr3t-value", "empty"},
		{"X Api", "s3cr3t-value", "not a header name"},
		{"X-Äpi", "s3cr3t-value", "not a header name"},
		{"X:Api", "s3cr3t-value", "not a header name"},
		{strings.Repeat("x", 200), "s3cr3t-value", "longer"},
		{"X-Api-Key", "s3cr3t-value\r\nEvil: 1", "line break"},
		{"X-Api-Key", "s3cr3t-value\n", "line break"},
		{"X-Api-Key", "s3cr3t-value\x00", "control"},
		{"X-Api-Key", "s3cr3t-välue", "ASCII"},
		{"X-Api-Key", " s3cr3t-value", "blank"},
		{"X-Api-Key", "", "empty"},
		{"X-Api-Key", strings.Repeat("s3cr3t-value", 400), "longer"},
	} {
		err := CheckHeader(tt.name, tt.value)
		if tt.wantErr == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, tt.wantErr, tt.name)
		require.NotContains(t, err.Error(), "s3cr3t")
	}
}
