//go:build linux

package network

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(name string, ranges []string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: ranges}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

// The routes of each IP family go to the first address of that family.
func TestOthers(t *testing.T) {
	got := others([]*corev1.Node{
		node("own", []string{"10.244.0.0/24"}, "10.0.0.1"),
		node("dual", []string{"10.244.1.0/24", "fd00:244:1::/64"}, "fd00::2", "10.0.0.2", "10.0.0.22"),
		node("only4", []string{"10.244.2.0/24", "fd00:244:2::/64"}, "10.0.0.3"),
		node("new", nil, "10.0.0.4"),
	}, "own")
	want := map[string]string{"10.244.1.0/24": "10.0.0.2", "fd00:244:1::/64": "fd00::2", "10.244.2.0/24": "10.0.0.3"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Each IP family has a table with the ranges of that family only.
func TestRules(t *testing.T) {
	text := rules([]string{"10.244.0.0/24", "fd00:244::/64"},
		map[string]string{"10.244.1.0/24": "10.0.0.2", "fd00:244:1::/64": "fd00::2"})
	for _, want := range []string{
		"ip saddr 10.244.0.0/24 ip daddr != { 10.244.0.0/24, 10.244.1.0/24, 224.0.0.0/4 } masquerade",
		"ip6 saddr fd00:244::/64 ip6 daddr != { fd00:244:1::/64, fd00:244::/64, ff00::/8 } masquerade",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nwant %q", text, want)
		}
	}
	only4 := rules([]string{"10.244.0.0/24"}, nil)
	if strings.Contains(only4, "ip6") || !slices.Contains(strings.Split(only4, "\n"), "table ip kelson-node {") {
		t.Errorf("IPv4 only: %s", only4)
	}
}
