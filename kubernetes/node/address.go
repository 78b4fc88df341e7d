package node

import (
	"net"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// MachineAddress returns the address of this machine for nodes and pods that share its network: the
// one of the default route or, without such a route, of any interface that is up. It is a loopback
// address only if the machine has no other, because Kubernetes rejects loopback addresses in
// Endpoints.
func MachineAddress() string {
	if address, err := utilnet.ChooseHostInterface(); err == nil {
		return address.String()
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return loopback
	}
	var all []net.Addr
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			continue // the interface has just disappeared
		}
		all = append(all, addresses...)
	}
	return firstGlobal(all)
}

// loopback is the address of machines without any other.
const loopback = "127.0.0.1"

// firstGlobal returns the first address that Endpoints can have, of IPv4 if there is one, or the
// loopback address.
func firstGlobal(all []net.Addr) string {
	found := ""
	for _, address := range all {
		ip, _, err := net.ParseCIDR(address.String())
		switch {
		case err != nil || !ip.IsGlobalUnicast():
		case ip.To4() != nil:
			return ip.String()
		case found == "":
			found = ip.String()
		}
	}
	if found == "" {
		return loopback
	}
	return found
}
