//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	nodeutil "k8s.io/component-helpers/node/util"
	utilnet "k8s.io/utils/net"

	"kelson.dev/cmd/kelson-node/internal/balancer"
	"kelson.dev/cmd/kelson-node/internal/cluster"
	"kelson.dev/cmd/kelson-node/internal/machine"
	"kelson.dev/cmd/kelson-node/internal/network"
	"kelson.dev/cmd/kelson-node/internal/run"
	"kelson.dev/cmd/kelson-node/internal/settings"
)

// defaultDir is the default of --data-dir.
const defaultDir = "/var/lib/kelson-node"

// options are the flags of join.
type options struct {
	cluster cluster.Cluster
	servers []string // URLs; cluster has the one to use
	local   string   // address of the balancer
	wants   machine.Settings

	name, dir      string
	nodeIP         string
	labels, taints []string
	podCIDRs       []string
	dns            []string
	domain         string
	port, healthz  int32
	pause          string
	images         []string
	cni            string
	kubeletConfig  string
	skipChecks     bool
}

func joinCommand() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use:   "join URL… --token TOKEN --ca-hash sha256:HEX",
		Short: "Join a cluster and run the node until a signal arrives",
		Long: `Join a cluster and run the node until a signal arrives.

kelson token create prints the command to run. The machine verifies the server by
the digest of its certificate authority, and requests the certificates of the kubelet
with the token. After that it needs no token; the kubelet renews its certificates.

With several URLs, of servers of one cluster, the node uses one that is ready, and
switches to another when that one fails. For this, the command listens at
--balancer-address and forwards connections. The certificates of the servers must be
valid for that address; those of kelson serve are valid for 127.0.0.1. To change the
servers of a node that has joined, run the command with other URLs.

The command uses the container runtime that runs on the machine, such as containerd
or CRI-O. If none runs, it starts containerd with its own configuration. It runs
Kubernetes' kubelet and kube-proxy, and configures the network of pods if no other
program has. Pods keep running when the command ends.`,
		Example: `  kelson-node join https://10.0.0.1:6443 --token abcdef.0123456789abcdef --ca-hash sha256:…
  kelson-node join https://10.0.0.1:6443 https://10.0.0.2:6443 --token abcdef.0123456789abcdef --ca-hash sha256:…`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			for _, url := range args {
				o.servers = append(o.servers, strings.TrimSuffix(url, "/"))
			}
			if err := o.validate(); err != nil {
				return err
			}
			return join(c.Context(), o, slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil)))
		},
	}
	f := c.Flags()
	f.StringVar(&o.cluster.Token, "token", "", "bootstrap token, needed the first time")
	f.StringSliceVar(&o.cluster.Hashes, "ca-hash", nil,
		"digest of the public key of the server's certificate authority, sha256:HEX; may be repeated")
	f.StringVar(&o.cluster.Authority, "ca-file", "", "certificate authorities of the server, instead of --ca-hash")
	f.StringVar(&o.local, "balancer-address", "127.0.0.1:6444",
		"with several URLs: address of this machine at which the node reaches the servers")
	f.StringVar(&o.name, "name", "", "name of the node (default: the host name)")
	f.StringVar(&o.dir, "data-dir", defaultDir,
		"directory of certificates, configuration, logs, and containerd's state")
	f.StringVar(&o.nodeIP, "node-ip", "", "address of the node, or an IPv4 and an IPv6 address separated by a comma (default: that of the default route)")
	f.StringSliceVar(&o.labels, "label", nil, "label KEY=VALUE of the node; may be repeated")
	f.StringSliceVar(&o.taints, "taint", nil, "taint KEY=VALUE:EFFECT of the node; may be repeated")
	f.StringSliceVar(&o.podCIDRs, "pod-cidr", nil,
		"range of the addresses of pods, or two of different IP families separated by a comma (default: those that the cluster gives the node)")
	f.StringSliceVar(&o.dns, "cluster-dns", nil, "addresses of the cluster's DNS server")
	f.StringVar(&o.domain, "cluster-domain", "cluster.local", "domain of the cluster")
	f.Int32Var(&o.port, "port", 10250, "port of the kubelet")
	f.Int32Var(&o.healthz, "healthz-port", 10248, "port of the kubelet's health checks, on 127.0.0.1")
	f.StringVar(&o.wants.Runtime, "runtime-endpoint", "",
		"unix:///SOCKET of the container runtime (default: the one that runs, or a containerd that this command starts)")
	f.StringVar(&o.pause, "pause-image", "registry.k8s.io/pause:3.10.1",
		"image of the sandboxes of pods, for a containerd that this command starts")
	f.StringArrayVar(&o.images, "images", nil,
		"directory with archives of images (*.tar) that are imported into containerd before the kubelet starts; may be repeated")
	f.StringVar(&o.cni, "cni-config-dir", "/etc/cni/net.d", "directory of CNI configurations")
	f.StringVar(&o.wants.ProxyMode, "proxy-mode", "",
		"nftables, iptables, or none to run no kube-proxy (default: nftables or iptables, whichever works)")
	f.StringVar(&o.kubeletConfig, "kubelet-config-dir", "",
		"directory of KubeletConfiguration files (*.conf) that override this command's")
	f.BoolVar(&o.skipChecks, "skip-checks", false, "start even if the machine does not meet all requirements")
	return c
}

func (o *options) validate() error {
	if o.name == "" {
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		o.name = name
	}
	name, err := nodeutil.GetHostname(o.name) // lower case
	if err != nil {
		return err
	}
	o.name = name
	if errs := validation.IsDNS1123Subdomain(o.name); len(errs) > 0 {
		return fmt.Errorf("--name %q: %s", o.name, strings.Join(errs, "; "))
	}
	if err := o.validateAddresses(); err != nil {
		return err
	}
	for _, a := range o.dns {
		if net.ParseIP(a) == nil {
			return fmt.Errorf("--cluster-dns %q: not an IP address", a)
		}
	}
	switch o.wants.ProxyMode {
	case "", "nftables", "iptables", "none":
	default:
		return fmt.Errorf("--proxy-mode %q: want nftables, iptables or none", o.wants.ProxyMode)
	}
	if dir, err := filepath.Abs(o.dir); err != nil {
		return err
	} else {
		o.dir = dir
	}
	for _, url := range o.servers {
		o.cluster.Server = url
		if err := o.cluster.Validate(); err != nil {
			return err
		}
	}
	if _, port, err := net.SplitHostPort(o.local); err != nil || port == "0" {
		return fmt.Errorf("--balancer-address %q: want an address and a fixed port, such as 127.0.0.1:6444", o.local)
	}
	return nil
}

// validateAddresses checks the addresses of the node and the ranges of its pods: one of each IP
// family.
func (o *options) validateAddresses() error {
	if o.nodeIP != "" {
		var addresses []net.IP
		for a := range strings.SplitSeq(o.nodeIP, ",") {
			ip := net.ParseIP(a)
			if ip == nil {
				return fmt.Errorf("--node-ip %q: %q is not an IP address", o.nodeIP, a)
			}
			addresses = append(addresses, ip)
		}
		if dual, _ := utilnet.IsDualStackIPs(addresses); len(addresses) > 2 || len(addresses) == 2 && !dual {
			return fmt.Errorf("--node-ip %q: want one address, or two of different IP families", o.nodeIP)
		}
	}
	ranges, err := utilnet.ParseCIDRs(o.podCIDRs)
	if err != nil {
		return fmt.Errorf("--pod-cidr: %w", err)
	}
	if dual, _ := utilnet.IsDualStackCIDRs(ranges); len(ranges) > 2 || len(ranges) == 2 && !dual {
		return fmt.Errorf("--pod-cidr %s: want one range, or two of different IP families",
			strings.Join(o.podCIDRs, ","))
	}
	return nil
}

// join runs the node until ctx ends.
func join(ctx context.Context, o *options, log *slog.Logger) error {
	m, err := machine.Inspect(ctx, o.wants)
	if !o.skipChecks {
		if err == nil {
			err = m.Try(ctx)
		}
		if err != nil {
			return fmt.Errorf("this machine cannot run a node:\n%w", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(o.dir, "logs"), 0o700); err != nil {
		return err
	}
	unlock, err := lock(o.dir)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	// Processes end in the reverse order of their start: containerd ends after the kubelet.
	defer parts.Wait()
	defer cancel(nil)
	if len(o.servers) > 1 {
		b, err := balancer.Listen(o.local, o.servers, log)
		if err != nil {
			return err
		}
		o.cluster.Server = b.URL()
		parts.Go(func() { b.Run(ctx) })
	}
	files := cluster.FilesIn(o.dir)
	if err := o.cluster.Prepare(ctx, files); err != nil {
		return err
	}
	n := &node{options: o, machine: m, files: files, log: log}
	start := func(p run.Process) {
		parts.Go(func() {
			if err := p.Run(ctx, log); err != nil {
				cancel(err)
			}
		})
	}
	if m.Runtime == "" {
		p, err := n.containerd()
		if err != nil {
			return err
		}
		start(p)
		if err := n.waitForRuntime(ctx); err != nil {
			return err
		}
	}
	if err := n.importImages(ctx); err != nil {
		return err
	}
	kubelet, err := n.kubelet(ctx)
	if err != nil {
		return err
	}
	start(kubelet)
	client, err := n.credentials(ctx)
	if err != nil {
		return err
	}
	log.Info("joined", "servers", o.servers, "node", o.name)
	if err := n.setLabels(ctx, client); err != nil {
		return err
	}
	parts.Go(func() {
		cfg := network.Config{Node: o.name, Ranges: o.podCIDRs, Dir: o.cni, Data: n.path("addresses"), Log: log}
		if err := network.Run(ctx, cfg, client); err != nil {
			cancel(err)
		}
	})
	if m.ProxyMode != "none" {
		p, err := n.proxy(ctx, client)
		if err != nil {
			return err
		}
		start(p)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// node holds what join computes while it starts a node.
type node struct {
	*options
	machine *machine.Machine
	files   cluster.Files
	log     *slog.Logger
}

func (n *node) path(name string) string    { return filepath.Join(n.dir, name) }
func (n *node) logFile(name string) string { return filepath.Join(n.dir, "logs", name+".log") }

// containerd writes the configuration of containerd, and returns its process.
func (n *node) containerd() (run.Process, error) {
	config, err := settings.Containerd{
		Root: n.path("containerd/root"), State: n.path("containerd/state"), Socket: n.path(containerdSocket),
		Plugins: n.machine.Plugins, Network: n.cni, Pause: n.pause,
		RestrictOOMScore: n.machine.CgroupVersion == 1, SystemdCgroup: n.machine.CgroupVersion == 2 &&
			n.machine.Systemd,
	}.Config()
	if err != nil {
		return run.Process{}, err
	}
	if err := os.MkdirAll(n.path("containerd"), 0o700); err != nil {
		return run.Process{}, err
	}
	file := n.path("containerd/config.toml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return run.Process{}, err
	}
	return n.containerdProcess(file), nil
}

// containerdSocket is the socket of a containerd that join starts, in the data directory.
const containerdSocket = "containerd/containerd.sock"

// containerdProcess returns containerd with a configuration, and sets the endpoint of the runtime.
func (n *node) containerdProcess(config string) run.Process {
	n.machine.Runtime = "unix://" + n.path(containerdSocket)
	return run.Process{Name: "containerd", Path: n.machine.Containerd, Args: []string{"--config", config},
		Log: n.logFile("containerd")}
}

func (n *node) waitForRuntime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := machine.Ready(ctx, n.machine.Runtime); err != nil {
		return fmt.Errorf("start containerd: %w: see %s", err, n.logFile("containerd"))
	}
	return nil
}

// importImages imports the archives in the directories of images into containerd.
func (n *node) importImages(ctx context.Context) error {
	for _, dir := range n.images {
		if name, err := machine.RuntimeName(ctx, n.machine.Runtime); err != nil || name != "containerd" {
			return errors.Join(err, fmt.Errorf(
				"--images %s: archives can only be imported into containerd, and %s is %q", dir, n.machine.Runtime,
				name))
		}
		archives, err := filepath.Glob(filepath.Join(dir, "*.tar"))
		if err != nil {
			return err
		}
		for _, archive := range archives {
			cmd := exec.CommandContext(ctx, "ctr", "--address", strings.TrimPrefix(n.machine.Runtime, "unix://"),
				"--namespace", "k8s.io", "images", "import", archive)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("import %s: %w: %s", archive, err, strings.TrimSpace(string(out)))
			}
		}
		n.log.Info("imported images", "archives", len(archives), "dir", dir)
	}
	return nil
}

// kubelet writes the configuration of the kubelet.
func (n *node) kubelet(ctx context.Context) (run.Process, error) {
	systemd, err := machine.SystemdCgroups(ctx, n.machine.Runtime)
	if err != nil {
		return run.Process{}, err
	}
	// A kubelet removes cgroups of pods that it does not run, so kubelets of one machine must not
	// share them.
	root := ""
	if n.machine.CgroupVersion == 1 && !systemd {
		if root, err = machine.CreateCgroup("kelson-" + n.name); err != nil {
			return run.Process{}, err
		}
	}
	config := n.path("kubelet.yaml")
	if err := settings.Write(config, settings.Kubelet{
		Endpoint: n.machine.Runtime, Authority: n.files.Authority,
		CgroupVersion: n.machine.CgroupVersion, SystemdCgroup: systemd, CgroupRoot: root,
		DNS: n.dns, Domain: n.domain, Resolver: machine.Resolver(), Port: n.port, HealthzPort: n.healthz,
		Logs: n.path("pods/logs"),
	}.Config()); err != nil {
		return run.Process{}, err
	}
	args := []string{
		"kubelet", "--config=" + config, "--kubeconfig=" + n.files.Kubeconfig,
		"--bootstrap-kubeconfig=" + n.files.Bootstrap,
		"--cert-dir=" + n.files.Pki, "--root-dir=" + n.path("kubelet"), "--hostname-override=" + n.name,
	}
	if n.nodeIP != "" {
		args = append(args, "--node-ip="+n.nodeIP)
	}
	if len(n.labels) > 0 {
		args = append(args, "--node-labels="+strings.Join(n.labels, ","))
	}
	if len(n.taints) > 0 {
		args = append(args, "--register-with-taints="+strings.Join(n.taints, ","))
	}
	if n.kubeletConfig != "" {
		args = append(args, "--config-dir="+n.kubeletConfig)
	}
	return self("kubelet", args, n.logFile("kubelet"))
}

// credentials waits until the kubelet has the node's certificate, and returns a client that uses
// it.
func (n *node) credentials(ctx context.Context) (kubernetes.Interface, error) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	began := time.Now()
	for hinted := false; !n.files.Joined(); {
		if !hinted && time.Since(began) > 20*time.Second {
			hinted = true
			n.log.Warn("the node has no certificate yet: the token may have expired, or its CertificateSigningRequest may need approval", "log", n.logFile("kubelet"))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-ticker.C:
		}
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", n.files.Kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return client, network.Wait(ctx, client, n.name)
}

// setLabels sets the labels of the Node object. The kubelet does so only when it creates the
// object.
func (n *node) setLabels(ctx context.Context, client kubernetes.Interface) error {
	if len(n.labels) == 0 {
		return nil
	}
	labels := map[string]string{}
	for _, l := range n.labels {
		key, value, _ := strings.Cut(l, "=")
		labels[key] = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, n.name, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("set the labels of the node: %w", err)
	}
	return nil
}

// proxy writes the configuration of kube-proxy.
func (n *node) proxy(ctx context.Context, client kubernetes.Interface) (run.Process, error) {
	config := n.path("kube-proxy.yaml")
	if err := settings.Write(config, settings.Proxy(n.machine.ProxyMode, n.files.Kubeconfig, n.name,
		strings.Join(n.podCIDRs, ","))); err != nil {
		return run.Process{}, err
	}
	return self("kube-proxy", []string{"kube-proxy", "--config=" + config}, n.logFile("kube-proxy"))
}

// self returns a Process that runs this program with other arguments.
func self(name string, args []string, log string) (run.Process, error) {
	path, err := os.Executable()
	return run.Process{Name: name, Path: path, Args: args, Log: log}, err
}

func checkCommand() *cobra.Command {
	var wants machine.Settings
	c := &cobra.Command{
		Use:   "check",
		Short: "Report what this machine lacks for running a node",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := machine.Inspect(c.Context(), wants)
			if err == nil {
				err = m.Try(c.Context())
			}
			if err != nil {
				return fmt.Errorf("this machine cannot run a node:\n%w", err)
			}
			runtime := m.Runtime
			if runtime == "" {
				runtime = m.Containerd + " (starts with the node)"
			}
			fmt.Fprintf(c.OutOrStdout(), "cgroups version %d, systemd %t\ncontainer runtime %s\nCNI plugins %s\nkube-proxy %s\n",
				m.CgroupVersion, m.Systemd, runtime, m.Plugins, m.ProxyMode)
			return nil
		},
	}
	c.Flags().StringVar(&wants.Runtime, "runtime-endpoint", "", "unix:///SOCKET of the container runtime")
	c.Flags().StringVar(&wants.ProxyMode, "proxy-mode", "", "nftables, iptables or none")
	return c
}
