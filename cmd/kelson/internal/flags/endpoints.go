package flags

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kelson.dev/kubernetes/controlplane"
)

// Endpoints are the flags of the endpoints of the Service "kubernetes".
type Endpoints struct {
	// Local accepts a loopback --advertise-address, and publishes no endpoints then, for servers
	// that only clients on this machine use.
	Local bool

	advertise  net.IP
	reconciler string
	servers    int
}

// AddFlags registers the flags.
func (o *Endpoints) AddFlags(f *pflag.FlagSet) {
	f.IPVar(&o.advertise, "advertise-address", nil,
		"address in the endpoints of the Service kubernetes (default: --bind-address, or an address of this machine if that is 0.0.0.0 or loopback)")
	f.StringVar(&o.reconciler, "endpoint-reconciler-type", "lease",
		"how to maintain these endpoints: lease (all live servers over the same etcd), master-count (--apiserver-count servers) or none")
	f.IntVar(&o.servers, "apiserver-count", 1,
		"how many servers write to the same endpoints, for --endpoint-reconciler-type=master-count")
}

// Apply validates the flags and copies them to cfg. bound is the address of the listener. If this
// machine has only loopback addresses, no endpoints are written.
func (o *Endpoints) Apply(cfg *controlplane.Config, bound net.Addr) error {
	switch o.reconciler {
	case "none":
		return nil
	case "master-count":
		cfg.Endpoints.Servers = o.servers
	case "lease":
	default:
		return fmt.Errorf("--endpoint-reconciler-type=%s: must be lease, master-count or none", o.reconciler)
	}
	if o.servers <= 0 {
		return fmt.Errorf("--apiserver-count should be a positive number, but value '%d' provided", o.servers)
	}
	tcp, ok := bound.(*net.TCPAddr)
	if !ok {
		return nil
	}
	ip := o.advertise
	if ip == nil || ip.IsUnspecified() {
		bind := tcp.IP
		if bind.IsUnspecified() && !strings.Contains(cfg.ServiceRange, ":") {
			bind = net.IPv4zero // endpoints have the family of the Service
		}
		resolved, err := utilnet.ResolveBindAddress(bind)
		if err != nil {
			return nil //nolint:nilerr // a machine without a network has no endpoints
		}
		ip = resolved
	} else if ip.IsLoopback() && o.Local {
		return nil
	} else if ip.IsLoopback() {
		return fmt.Errorf("--advertise-address=%s: endpoints must not be loopback addresses", ip)
	}
	address, _ := netip.AddrFromSlice(ip)
	cfg.Endpoints.Address = netip.AddrPortFrom(address.Unmap(), uint16(tcp.Port))
	return nil
}
