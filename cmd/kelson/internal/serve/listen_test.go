package serve

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
)

// A listener that other machines can reach causes a warning.
func TestWarnUnlessLoopback(t *testing.T) {
	for _, test := range []struct {
		address   string
		allowsAll bool
		want      []string // expected parts; none: no output
	}{
		{"127.0.0.1", true, nil},
		{"127.1.2.3", true, nil},
		{"::1", true, nil},
		{"0.0.0.0", false, []string{"WARNING: listening on 0.0.0.0:6443", "--bind-address=127.0.0.1"}},
		{"::", true, []string{"WARNING: listening on [::]:6443", "AlwaysAllow"}},
		{"192.0.2.1", true, []string{"192.0.2.1:6443", "AlwaysAllow"}},
	} {
		var out strings.Builder
		WarnUnlessLoopback(&out, &net.TCPAddr{IP: net.ParseIP(test.address), Port: 6443}, test.allowsAll)
		if test.want == nil && out.Len() > 0 {
			t.Errorf("%s: %s", test.address, &out)
		}
		for _, want := range test.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q lacks %q", test.address, &out, want)
			}
		}
		if strings.Contains(out.String(), "AlwaysAllow") != (test.want != nil && test.allowsAll) {
			t.Errorf("%s: %s", test.address, &out)
		}
	}
}

// Pods read the keys of their tokens from the address that the server advertises.
func TestKeySetURL(t *testing.T) {
	advertised := netip.MustParseAddrPort("10.0.0.1:6443")
	for _, c := range []struct {
		listening  net.IP
		advertised netip.AddrPort
		want       string
	}{
		{net.IPv4zero, advertised, "https://10.0.0.1:6443/openid/v1/jwks"},
		{net.IPv6unspecified, advertised, "https://10.0.0.1:6443/openid/v1/jwks"},
		{net.IPv4zero, netip.AddrPort{}, "https://127.0.0.1:6443/openid/v1/jwks"},
		{net.IPv4(127, 0, 0, 1), advertised, "https://127.0.0.1:6443/openid/v1/jwks"},
	} {
		got := keySetURL("https://127.0.0.1:6443", &net.TCPAddr{IP: c.listening, Port: 6443},
			c.advertised)
		assert.Equalf(t, got, c.want, "listening on %s, advertising %s", c.listening, c.advertised)
	}
}
