package simulatednodes

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// network is the network of the addresses of simulated nodes. It is reserved for benchmarks, so no
// real machine has these addresses. Source: RFC 2544.
var network = netip.MustParsePrefix("198.18.0.0/15")

// addresses gives each node an address. The zero value is empty.
type addresses struct {
	next   netip.Addr
	byNode map[string]netip.Addr
	used   map[netip.Addr]bool
}

// address returns the address of a node: the one in its status, the one that it had, or a free one.
func (a *addresses) address(n *corev1.Node) string {
	for _, address := range n.Status.Addresses {
		if address.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(address.Address); err == nil && network.Contains(ip) {
			a.take(n.Name, ip)
		}
		return address.Address
	}
	if ip, ok := a.byNode[n.Name]; ok {
		return ip.String()
	}
	if !a.next.IsValid() {
		a.next = network.Addr()
	}
	for {
		a.next = a.next.Next()
		if !network.Contains(a.next) {
			a.next = network.Addr().Next()
		}
		if !a.used[a.next] {
			a.take(n.Name, a.next)
			return a.next.String()
		}
	}
}

func (a *addresses) take(name string, ip netip.Addr) {
	if a.byNode == nil {
		a.byNode, a.used = map[string]netip.Addr{}, map[netip.Addr]bool{}
	}
	a.byNode[name], a.used[ip] = ip, true
}

// release frees the address of a deleted node.
func (a *addresses) release(name string) {
	delete(a.used, a.byNode[name])
	delete(a.byNode, name)
}
