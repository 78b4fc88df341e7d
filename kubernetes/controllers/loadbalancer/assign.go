package loadbalancer

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// addresses returns the addresses in the Service's status.
func addresses(s *corev1.Service) []netip.Addr {
	var all []netip.Addr
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		if address, err := netip.ParseAddr(ingress.IP); err == nil {
			all = append(all, address)
		}
	}
	return all
}

// assign returns one address for each IP family of the Service: the one it has, the one it asks
// for, or the first free one.
func (c *Controller) assign(sn *store.Snapshot, service *corev1.Service) ([]netip.Addr, error) {
	taken := map[netip.Addr]bool{}
	for other, err := range derived.List[corev1.Service](sn, services, "") {
		if err != nil || other.UID == service.UID {
			continue
		}
		for _, address := range addresses(other) {
			taken[address] = true
		}
	}
	var asked netip.Addr
	//nolint:staticcheck // loadBalancerIP is deprecated, and used.
	if text := service.Spec.LoadBalancerIP; text != "" {
		var err error
		if asked, err = netip.ParseAddr(text); err != nil {
			return nil, fmt.Errorf("spec.loadBalancerIP %q: %w", text, err)
		}
	}
	current := addresses(service)
	var wanted []netip.Addr
	for _, family := range service.Spec.IPFamilies {
		prefix, ok := c.prefix(family)
		if !ok {
			continue
		}
		address, err := pick(prefix, taken, current, asked)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, address)
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("the pool %v has no addresses of the families %v", c.cfg.Pool, service.Spec.IPFamilies)
	}
	if asked.IsValid() && !slices.Contains(wanted, asked) {
		return nil, fmt.Errorf("spec.loadBalancerIP %s: not in the pool %v", asked, c.cfg.Pool)
	}
	return wanted, nil
}

// prefix returns the part of the pool with addresses of a family.
func (c *Controller) prefix(family corev1.IPFamily) (netip.Prefix, bool) {
	for _, prefix := range c.cfg.Pool {
		if prefix.Addr().Is4() == (family == corev1.IPv4Protocol) {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}

// pick returns asked if it is in the prefix, an address that the Service has, or the first free
// one.
func pick(prefix netip.Prefix, taken map[netip.Addr]bool, current []netip.Addr,
	requested netip.Addr) (netip.Addr, error) {
	if requested.IsValid() && prefix.Contains(requested) {
		if taken[requested] {
			return netip.Addr{}, fmt.Errorf("spec.loadBalancerIP %s: already allocated", requested)
		}
		return requested, nil
	}
	for _, address := range current {
		if prefix.Contains(address) && !taken[address] {
			return address, nil
		}
	}
	small := prefix.Bits() >= prefix.Addr().BitLen()-1
	first := prefix.Addr()
	if !small {
		first = first.Next()
	}
	for address := first; prefix.Contains(address); address = address.Next() {
		broadcast := !small && address.Is4() && !prefix.Contains(address.Next())
		if !taken[address] && !broadcast {
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no free address in %s", prefix)
}
