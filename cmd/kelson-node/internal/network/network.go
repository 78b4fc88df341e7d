//go:build linux

// Package network connects the pods of a node: the CNI configuration of the machine, the routes to
// the pods of other nodes, and the address under which pods reach other networks.
package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	utilnet "k8s.io/utils/net"

	"kelson.dev/cmd/kelson-node/internal/settings"
)

// Config is the network of one node.
type Config struct {
	// Node is the name of this node.
	Node string
	// Ranges are the ranges of the pods' addresses, at most one of each IP family; if there are
	// none, Run waits for the podCIDRs of the Node object and uses those.
	Ranges []string
	// Dir is the directory of CNI configurations. If another program has written one, this package
	// changes nothing.
	Dir string
	// Data is the directory that records which addresses are in use.
	Data string
	Log  *slog.Logger
}

// file is the configuration that this package writes.
const file = "10-kelson.conflist"

// foreign returns a CNI configuration in dir that another program has written, or "".
func foreign(dir string) string {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".conf", ".conflist", ".json":
			if e.Name() != file {
				return e.Name()
			}
		}
	}
	return ""
}

// Run writes the CNI configuration, and maintains the routes until ctx ends.
func Run(ctx context.Context, cfg Config, client kubernetes.Interface) error {
	if by := foreign(cfg.Dir); by != "" {
		cfg.Log.Info("the pod network is configured by another program", "dir", cfg.Dir, "file", by)
		return nil
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes()
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
	}); err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()

	var written []string
	routes := map[string]string{} // range of pod addresses → address of the node
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(time.Minute): // restores routes that others removed
		}
		var all []*corev1.Node
		for _, obj := range nodes.Informer().GetStore().List() {
			all = append(all, obj.(*corev1.Node))
		}
		ranges := cfg.Ranges
		if at := slices.IndexFunc(all, func(n *corev1.Node) bool {
			return n.Name == cfg.Node
		}); len(ranges) == 0 && at >= 0 {
			ranges = all[at].Spec.PodCIDRs
		}
		if len(ranges) > 0 && !slices.Equal(ranges, written) {
			if err := install(cfg.Dir, ranges, cfg.Data); err != nil {
				return err
			}
			cfg.Log.Info("wrote the configuration of the pod network", "file", filepath.Join(cfg.Dir, file), "ranges",
				ranges)
			written = slices.Clone(ranges)
		}
		want := others(all, cfg.Node)
		if err := sync(routes, want); err != nil {
			cfg.Log.Warn("set the routes to the pods of other nodes", "err", err)
		}
		if len(ranges) > 0 {
			if err := masquerade(ctx, ranges, want); err != nil {
				cfg.Log.Warn("let pods reach other networks", "err", err)
			}
		}
	}
}

// others maps each range of pod addresses of the nodes other than self to its node's address in the
// IP family of the range. It omits ranges whose node has no such address.
func others(nodes []*corev1.Node, self string) map[string]string {
	at := map[string]string{}
	for _, n := range nodes {
		if n.Name == self {
			continue
		}
		for _, podCIDR := range n.Spec.PodCIDRs {
			for _, a := range n.Status.Addresses {
				if _, found := at[podCIDR]; !found && a.Type == corev1.NodeInternalIP &&
					utilnet.IsIPv6String(a.Address) == utilnet.IsIPv6CIDRString(podCIDR) {
					at[podCIDR] = a.Address
				}
			}
		}
	}
	return at
}

// install writes the CNI configuration atomically, because runtimes watch the directory.
func install(dir string, podCIDRs []string, data string) error {
	content, err := settings.Network(podCIDRs, data)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temporary := filepath.Join(dir, "."+file)
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, file))
}

// sync sets the routes of want and removes those of have that are not in want.
func sync(have, want map[string]string) error {
	for podCIDR, at := range have {
		if want[podCIDR] == at {
			continue
		}
		if r, err := route(podCIDR, at); err == nil {
			_ = netlink.RouteDel(r) // the route may be gone already
		}
		delete(have, podCIDR)
	}
	for podCIDR, at := range want {
		r, err := route(podCIDR, at)
		if err != nil {
			return err
		}
		if err := netlink.RouteReplace(r); err != nil {
			return fmt.Errorf("route %s via %s: %w: the nodes must be on one network", podCIDR, at, err)
		}
		have[podCIDR] = at
	}
	return nil
}

func route(podCIDR, at string) (*netlink.Route, error) {
	_, to, err := net.ParseCIDR(podCIDR)
	if err != nil {
		return nil, err
	}
	gateway := net.ParseIP(at)
	if gateway == nil {
		return nil, fmt.Errorf("node address %q is not an IP address", at)
	}
	return &netlink.Route{Dst: to, Gw: gateway}, nil
}

// masquerade makes packets from pods to other networks leave with the address of the machine.
// Packets between pods keep the address of the pod.
func masquerade(ctx context.Context, podCIDRs []string, others map[string]string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules(podCIDRs, others))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// rules returns a table for each IP family of podCIDRs.
func rules(podCIDRs []string, others map[string]string) string {
	var b strings.Builder
	for _, podCIDR := range podCIDRs {
		family, multicast := "ip", "224.0.0.0/4"
		if utilnet.IsIPv6CIDRString(podCIDR) {
			family, multicast = "ip6", "ff00::/8"
		}
		ranges := []string{podCIDR, multicast}
		for r := range others {
			if utilnet.IsIPv6CIDRString(r) == (family == "ip6") {
				ranges = append(ranges, r)
			}
		}
		slices.Sort(ranges)
		fmt.Fprintf(&b, `table %[1]s kelson-node
delete table %[1]s kelson-node
table %[1]s kelson-node {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		%[1]s saddr %[2]s %[1]s daddr != { %[3]s } masquerade
	}
}
`, family, podCIDR, strings.Join(ranges, ", "))
	}
	return b.String()
}

// Wait returns when the Node object of this node exists.
func Wait(ctx context.Context, client kubernetes.Interface, node string) error {
	for {
		_, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Remove undoes the changes of Run: it removes the CNI configuration in a directory, the bridge and
// the rules. Routes end with the addresses of the machine's network. The directory of Config.Data
// stays.
func Remove(ctx context.Context, dir string) error {
	var errs []error
	if err := os.Remove(filepath.Join(dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	if link, err := netlink.LinkByName(settings.Bridge); err == nil {
		errs = append(errs, netlink.LinkDel(link))
	}
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader("table ip kelson-node\ndelete table ip kelson-node\ntable ip6 kelson-node\ndelete table ip6 kelson-node\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		errs = append(errs, fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(string(out))))
	}
	return errors.Join(errs...)
}
