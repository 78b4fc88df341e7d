package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"kelson.dev/apiserver/pki"
	"kelson.dev/cmd/kelson/internal/child"
	"kelson.dev/cmd/kelson/internal/dns"
	"kelson.dev/cmd/kelson/internal/token"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/operator/client"
)

const (
	// nodeProgram is the program that runs the node, of the module cmd/kelson-node.
	nodeProgram = "kelson-node"
	// defaultPodRange is --cluster-cidr with such a node, as in the manifests of many networks.
	defaultPodRange = "10.244.0.0/16"
	// tokenLifetime limits how long the node may take to join.
	tokenLifetime = 10 * time.Minute
	// nodeStopWithin is how long kelson-node may take to end.
	nodeStopWithin = 20 * time.Second
)

// containerNode is a process of kelson-node that ends with the server.
type containerNode struct {
	program string
	dir     string // of the node's data
	server  string // URL for the node
	args    []string
	errOut  io.Writer
	// services is the range of cluster IPs.
	services string
}

// withDNS writes the image of the DNS, applies its objects, and returns the arguments with which
// the pods of kelson-node use it. If the caller named another DNS, or this machine has no
// kelson-dns, it returns no arguments. In the latter case it prints a warning.
func (n *containerNode) withDNS(ctx context.Context, p *Plane) ([]string, error) {
	if _, other := argument(n.args, "--cluster-dns"); other {
		return nil, nil
	}
	program, err := findProgram(dns.Program)
	if err != nil {
		fmt.Fprintf(n.errOut, "the cluster has no DNS: %v: build it with make kelson-dns\n", err)
		return nil, nil
	}
	addon := dns.Addon{Domain: "cluster.local"}
	if domain, ok := argument(n.args, "--cluster-domain"); ok {
		addon.Domain = domain
	}
	if addon.Address, err = dns.Address(n.services); err != nil {
		return nil, err
	}
	images := filepath.Join(n.dir, "addons")
	if addon.Image, err = dns.WriteImage(ctx, program, filepath.Join(images, dns.Program+".tar")); err != nil {
		return nil, fmt.Errorf("write the image of the DNS: %w", err)
	}
	dnsClient, err := client.New(client.Config{REST: p.RESTConfig(), FieldOwner: dns.Program})
	if err != nil {
		return nil, err
	}
	if err := addon.Apply(ctx, dnsClient); err != nil {
		return nil, fmt.Errorf("add the DNS: %w", err)
	}
	return []string{"--images", images, "--cluster-dns", addon.Address.String(), "--label", dns.NodeLabel + "=true"},
		nil
}

// argument returns the value of a flag among the arguments of kelson-node.
func argument(args []string, flag string) (value string, ok bool) {
	for i, a := range args {
		if v, found := strings.CutPrefix(a, flag+"="); found {
			value, ok = v, true
		} else if a == flag && i+1 < len(args) {
			value, ok = args[i+1], true
		}
	}
	return value, ok
}

// prepareContainers checks the options of a server with a node with containers, and sets the
// options that such a node needs.
func (o *Options) prepareContainers() (program string, err error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("--node=%s: containers need Linux, not %s: use --node=simulated", nodeContainers,
			runtime.GOOS)
	}
	if program, err = findProgram(nodeProgram); err != nil {
		return "", fmt.Errorf("--node=%s: %w: build it with make kelson-node", nodeContainers, err)
	}
	if o.state.inMemory {
		return "", fmt.Errorf("--node=%s needs a data directory, such as that of kelson serve without --in-memory",
			nodeContainers)
	}
	if ip := net.ParseIP(o.bindAddress); o.bindAddress == "localhost" || ip != nil && ip.IsLoopback() {
		return "", fmt.Errorf("--node=%s: pods cannot reach --bind-address=%s: use an address of this machine, or 0.0.0.0", nodeContainers, o.bindAddress)
	}
	if o.podRange == "" {
		o.podRange = defaultPodRange
	}
	return program, nil
}

// findProgram looks for a program next to this one and in PATH.
func findProgram(name string) (string, error) {
	if executable, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(executable), name); isFile(beside) {
			return beside, nil
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither next to kelson nor in PATH", name)
	}
	return found, nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// run joins the node to the control plane and runs it until ctx ends.
func (n *containerNode) run(ctx context.Context, p *Plane) error {
	join, err := n.join(ctx, p)
	if err != nil {
		return fmt.Errorf("create the token of the node: %w", err)
	}
	names, err := n.withDNS(ctx, p)
	if err != nil {
		return err
	}
	join = append(join, names...)
	// Linux sends the signal of nodeAttributes when the thread that started the process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, n.program, append(append(join, "--data-dir", n.dir), n.args...)...)
	cmd.Stdout, cmd.Stderr = n.errOut, n.errOut
	cmd.SysProcAttr = nodeAttributes()
	cmd.Cancel = func() error { return child.Terminate(cmd.Process) }
	cmd.WaitDelay = nodeStopWithin
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", nodeProgram, err)
	}
	return nil
}

// join creates a token and returns the arguments with which the node joins.
func (n *containerNode) join(ctx context.Context, p *Plane) ([]string, error) {
	tokenClient, err := client.New(client.Config{REST: p.RESTConfig(), FieldOwner: "kelson-token"})
	if err != nil {
		return nil, err
	}
	secret, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return nil, err
	}
	j := token.Join{Server: n.server, Authority: p.authority.PEM, Token: secret, Description: "node of kelson serve",
		Lifetime: tokenLifetime}
	if err := j.Create(ctx, tokenClient); err != nil {
		return nil, err
	}
	return j.Args()
}

// withNode runs serve and the node until ctx ends or one of them fails.
func (p *Plane) withNode(ctx context.Context, serve func(context.Context) error) error {
	if p.node == nil {
		return serve(ctx)
	}
	nodeCtx, stop := context.WithCancel(ctx)
	defer stop()
	serveCtx, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	ended := make(chan error, 1)
	go func() {
		err := p.node.run(nodeCtx, p)
		stopServing() // the node ends before the server, so that it can report its last states
		ended <- err
	}()
	err := serve(serveCtx)
	stop()
	return errors.Join(err, <-ended)
}

// admitNodes completes the configuration of a server that machines join: the server verifies the
// serving certificates of kubelets, which its authority signs, and restricts what nodes may write.
func admitNodes(cfg *controlplane.Config, authority *pki.Authority) {
	if cfg.Kubelets.Authorities == nil {
		cfg.Kubelets.Authorities = authority.Pool()
	}
	if plugins := &cfg.Admission; !slices.Contains(plugins.Enable, restriction) &&
		!slices.Contains(plugins.Disable, restriction) {
		plugins.Enable = append(plugins.Enable, restriction)
	}
}

const restriction = "NodeRestriction"
