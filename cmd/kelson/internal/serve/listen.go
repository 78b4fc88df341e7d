package serve

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	utilnet "k8s.io/utils/net"

	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/redact"
)

// NewLog returns the logger of a server. It writes text and redacts the contents of objects.
func NewLog(out io.Writer, level slog.Level) *slog.Logger {
	return redact.Logger(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})))
}

// WarnUnlessLoopback writes a warning to out if address is not a loopback address, and another if
// authorization allows every authenticated client everything.
func WarnUnlessLoopback(out io.Writer, address net.Addr, allowsAll bool) {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return
	}
	fmt.Fprintf(out, "WARNING: listening on %s: other machines may reach this control plane; use --bind-address=127.0.0.1 to prevent this\n", address)
	if allowsAll {
		fmt.Fprintln(out, "WARNING: authorization mode AlwaysAllow: every client with a valid credential may do everything")
	}
}

// servingHosts returns the names and addresses of the serving certificate: the addresses that the
// server listens on, the one that it advertises, the cluster IP of the Service kubernetes, to which
// pods connect, and others.
func servingHosts(cfg *controlplane.Config, bound net.IP, others []string) ([]string, error) {
	hosts := []string{bound.String()}
	if bound.IsUnspecified() {
		own, err := net.InterfaceAddrs()
		if err != nil {
			return nil, fmt.Errorf("list the addresses of this machine: %w", err)
		}
		for _, a := range own {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
				hosts = append(hosts, n.IP.String())
			}
		}
	}
	if at := cfg.Endpoints.Address; at.IsValid() {
		hosts = append(hosts, at.Addr().String())
	}
	services := cfg.ServiceRange
	if services == "" {
		services = builtin.DefaultServiceRange
	}
	for cidr := range strings.SplitSeq(services, ",") {
		_, ipRange, err := net.ParseCIDR(strings.TrimSpace(cidr))
		if err != nil {
			return nil, fmt.Errorf("--service-cluster-ip-range: %w", err)
		}
		first, err := utilnet.GetIndexedIP(ipRange, 1)
		if err != nil {
			return nil, fmt.Errorf("--service-cluster-ip-range: %w", err)
		}
		hosts = append(hosts, first.String())
	}
	for _, name := range others {
		if net.ParseIP(name) == nil && len(validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*."))) > 0 {
			return nil, fmt.Errorf("--tls-san %q: must be a host name or an IP address", name)
		}
		hosts = append(hosts, name)
	}
	return hosts, nil
}
