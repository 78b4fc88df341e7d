package node

import (
	"net"
	"testing"
)

func TestMachineAddressWithoutDefaultRoute(t *testing.T) {
	tests := map[string]struct {
		addresses []string
		want      string
	}{
		"loopback only":        {[]string{"127.0.0.1/8", "::1/128"}, "127.0.0.1"},
		"a bridge":             {[]string{"127.0.0.1/8", "::1/128", "fe80::1/64", "172.17.0.1/16"}, "172.17.0.1"},
		"IPv4 before IPv6":     {[]string{"fd00::5/64", "10.0.0.5/24"}, "10.0.0.5"},
		"IPv6":                 {[]string{"127.0.0.1/8", "fe80::1/64", "fd00::5/64", "fd00::6/64"}, "fd00::5"},
		"link-local addresses": {[]string{"169.254.1.1/16", "fe80::1/64"}, "127.0.0.1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var all []net.Addr
			for _, text := range test.addresses {
				ip, network, err := net.ParseCIDR(text)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, &net.IPNet{IP: ip, Mask: network.Mask})
			}
			if got := firstGlobal(all); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
