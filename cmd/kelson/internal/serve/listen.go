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

// NewLog returns the logger of a server. It writes text, or JSON with the members that the logs of
// Kubernetes' components have, and redacts the contents of objects.
func NewLog(out io.Writer, level slog.Level, asJSON bool) *slog.Logger {
	if asJSON {
		return redact.Logger(slog.New(slog.NewJSONHandler(out,
			&slog.HandlerOptions{Level: level, ReplaceAttr: componentAttr})))
	}
	return redact.Logger(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})))
}

// componentAttr gives an attribute its form in the logs of Kubernetes' components: the time in
// milliseconds since the Unix epoch as ts, and the level as the verbosity v.
func componentAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		return slog.Float64("ts", float64(a.Value.Time().UnixNano())/1e6)
	case slog.LevelKey:
		level, _ := a.Value.Any().(slog.Level)
		return slog.Int("v", max(0, -int(level)))
	}
	return a
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

// servingHosts returns the names and addresses for the serving certificate: the addresses that the
// server listens on, the address that it advertises, the cluster IP of the Service kubernetes, to
// which pods connect, and the given others.
func servingHosts(cfg *controlplane.Config, bound net.IP, others []string) ([]string, error) {
	hosts := []string{bound.String()}
	if bound.IsUnspecified() {
		addresses, err := net.InterfaceAddrs()
		if err != nil {
			return nil, fmt.Errorf("list the addresses of this machine: %w", err)
		}
		for _, a := range addresses {
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
