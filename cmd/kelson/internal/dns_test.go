package internal_test

import (
	"net/netip"
	"strings"
	"testing"

	"kelson.dev/cmd/kelson/internal/dns"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The address is the tenth of the range, as in kubeadm.
func TestAddress(t *testing.T) {
	for _, test := range []struct{ in, want, err string }{
		{in: "10.0.0.0/24", want: "10.0.0.10"},
		{in: "10.97.0.0/16,fd00::/108", want: "10.97.0.10"},
		{in: "fd00:1::/108, 10.0.0.0/24", want: "fd00:1::a"},
		{in: "10.0.0.0/29", err: "no address at position 10"},
		{in: "10.0.0.0", err: "range of cluster IPs"},
	} {
		got, err := dns.Address(test.in)
		if test.err != "" {
			assert.ErrorContainsf(t, err, test.err, "%s", test.in)
			continue
		}
		if err != nil || got.String() != test.want {
			t.Errorf("%s: %s, %v, want %s", test.in, got, err, test.want)
		}
	}
}

// The objects have the values of the cluster.
func TestObjects(t *testing.T) {
	objects, err := dns.Addon{Address: netip.MustParseAddr("fd00::a"), Domain: "example.test",
		Image: "kelson.local/kelson-dns:1"}.Objects()
	require.NoError(t, err)
	var all strings.Builder
	for _, obj := range objects {
		content, err := obj.MarshalJSON()
		require.NoError(t, err)
		all.Write(content)
	}
	for _, want := range []string{`"clusterIP":"fd00::a"`, `kubernetes example.test in-addr.arpa`,
		`"image":"kelson.local/kelson-dns:1"`} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("the objects have no %s", want)
		}
	}
	assert.Equalf(t, len(objects), 6, "objects")
}
