// Package serve implements kelson serve: a control plane on a port, with its state, keys and
// kubeconfig. kelson dev starts its control plane with the same code.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"kelson.dev/cmd/kelson/internal/console"
	"kelson.dev/cmd/kelson/internal/flags"
	clientconfig "kelson.dev/cmd/kelson/internal/kubeconfig"
	page "kelson.dev/console"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controlplane"
)

// Options configure a control plane on a port. The zero value is not usable: Command and InMemory
// set the defaults.
type Options struct {
	// SecurePort is the port to listen on; 0 picks a free one.
	SecurePort int
	// Kubeconfig is the file for the administrator's kubeconfig. Empty means "kubeconfig" in the
	// data directory, or in a temporary one.
	Kubeconfig string
	// Node is the value of --node.
	Node string
	// Verbose logs at debug level.
	Verbose bool

	state       stateOptions
	bindAddress string
	names       []string // further names of the serving certificate
	services    string   // range of cluster IPs
	podRange    string   // range of pod addresses
	nodeArgs    []string // for kelson-node
	workloads   bool
	scheduler   string // file
	pool        string // of load balancers
	cloud       string
	nodes       []string // simulated ones, as groups or files
	stages      []string // files and folders
	controllers []string
	planes      planesOptions
	gates       flags.Gates
	requests    flags.Serving
	flagged     bool                     // the flags of requests are registered
	values      func() map[string]string // of all flags; set if flagged
	signing     flags.Signing
	endpoints   flags.Endpoints
	pods        podFlags
	withStdin   bool
	console     console.Options
	page        bool
	named       namedOptions
	command     string // serve or fork
}

// InMemory returns the options of a control plane on loopback whose state is in memory. If the
// system cannot confine pods, their processes run unconfined, because only the user of this process
// creates pods.
func InMemory() Options {
	return Options{state: stateOptions{inMemory: true}, bindAddress: "127.0.0.1", workloads: true,
		pods: podFlags{mayFallBack: true}}
}

// AddVersionFlag registers the flag --emulated-version, for commands without the other flags of
// kelson serve.
func (o *Options) AddVersionFlag(f *pflag.FlagSet) { o.requests.AddVersionFlag(f) }

// AddAuditLogFlag registers the flag --audit-log, for commands without the other flags of kelson
// serve.
func (o *Options) AddAuditLogFlag(f *pflag.FlagSet) { o.gates.AddAuditLogFlag(f) }

// AuditLog returns the file with the audit log in JSON; "" if there is none.
func (o *Options) AuditLog() string { return o.gates.AuditFile() }

// Command returns kelson serve.
func Command() *cobra.Command {
	var opts Options
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a control plane for any client",
		Long: `Run a control plane for any client.

Writes are durable unless --in-memory is given: an acknowledged write survives a
crash at any time. The control plane has its own certificate authority. It writes
a kubeconfig with administrator rights. On SIGTERM or Ctrl-C, it completes the
requests in flight and exits.`,
		Example: `  kelson serve
  kelson serve --in-memory --secure-port 0 --kubeconfig /tmp/kubeconfig
  kelson serve --data-dir ./state --node=process
  kelson serve --name shop --detach   # in the background; see kelson list and kelson stop
  kelson serve --in-memory --nodes 3,zone=a/b/c --nodes 1,name=db,cpu=4,taint=db=:NoSchedule
  kelson serve --data-dir ./state --node=containers -- --images ./images
  kelson serve --data-dir ./state --history 24h,10GiB
  kelson serve --data-dir ./state --at 2026-11-23T10:00:00Z --secure-port 0
  kelson serve --in-memory --planes 100
  kelson kubectl create --raw /planes -f /dev/null   # a throwaway control plane: its URL and kubeconfig`,
	}
	opts.complete(c)
	return c
}

// complete adds the parts that kelson serve and kelson fork have in common.
func (o *Options) complete(c *cobra.Command) {
	c.Args = func(c *cobra.Command, args []string) error {
		if o.Node == nodeContainers && c.ArgsLenAtDash() == 0 {
			return nil // for kelson-node
		}
		return cobra.NoArgs(c, args)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := o.state.past.check(c); err != nil {
			return err
		}
		if o.state.past.readOnly() {
			o.quiet()
		}
		for _, name := range []string{"console-listen", "console-write"} {
			if !o.page && c.Flags().Changed(name) {
				return fmt.Errorf("--%s has no effect without --console", name)
			}
		}
		if o.state.past.readOnly() && o.console.Write {
			return errors.New("--console-write has no effect with --at: a past state does not change")
		}
		ctx := c.Context()
		if err := o.prepare(ctx, c.Flags().Changed); err != nil {
			return err
		}
		if o.command = c.Name(); o.named.detach {
			if o.withStdin {
				return errors.New("--detach and --exit-with-stdin cannot be used together")
			}
			return o.detached(ctx, c.OutOrStdout())
		}
		if o.nodeArgs = args; o.Node == nodeContainers && !c.Flags().Changed("bind-address") {
			o.bindAddress = "0.0.0.0" // pods must reach the server
		}
		if o.withStdin {
			var cancel context.CancelFunc
			ctx, cancel = untilEOF(ctx, c.InOrStdin())
			defer cancel()
		}
		return run(ctx, *o, c.OutOrStdout(), c.ErrOrStderr())
	}
	var s flags.Sections
	o.state.addFlags(s.Area("state"))
	f := s.Area("serving")
	f.StringVar(&o.bindAddress, "bind-address", "127.0.0.1", "address to listen on")
	f.IntVar(&o.SecurePort, "secure-port", 6443, "port to listen on; 0 picks a free one")
	f.StringSliceVar(&o.names, "tls-san", nil,
		"further host names and addresses for which the serving certificate is valid, such as those of a load balancer; may be repeated")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "",
		"file to write the administrator's kubeconfig to (default \"kubeconfig\" in the data directory)")
	f.StringVar(&o.Node, "node", DefaultNode,
		NodeUsage+"; or containers: also starts kelson-node, with the flags after --")
	f.StringArrayVar(&o.nodes, "nodes", nil, nodesUsage)
	f.StringArrayVar(&o.stages, "stages", nil,
		"file or folder with KWOK's Stages, which script what simulated nodes and their pods do; may be repeated")
	o.pods.addUsersFlag(f)
	o.pods.addUnconfinedFlag(f)
	o.pods.addImageFlag(f)
	f.BoolVar(&o.workloads, "workloads", true,
		"run the controllers that create pods (of Deployments, StatefulSets, Jobs and so on) and the endpoints of Services")
	f.StringVar(&o.scheduler, "scheduler-config", "",
		"file with a KubeSchedulerConfiguration: profiles, plugins and extenders of the scheduler")
	f.StringVar(&o.services, "service-cluster-ip-range", builtin.DefaultServiceRange,
		"CIDR of the cluster IPs of Services, or two CIDRs of different IP families separated by a comma")
	f.StringVar(&o.podRange, "cluster-cidr", "",
		"CIDR of the addresses of pods; each node gets a part of it for its pods, as spec.podCIDR (default: nodes get none)")
	f.StringVar(&o.pool, "load-balancer-cidr", "192.0.2.0/24",
		"CIDR of the addresses of Services of type LoadBalancer, or two CIDRs of different IP families separated by a comma; nothing listens on them; \"\" assigns none")
	f.StringSliceVar(&o.controllers, "controllers", []string{"*"},
		"controllers to run, as in kube-controller-manager: NAME, -NAME, and * for all that are not named; also kube-scheduler, simulated-volumes and service-lb-controller")
	f.StringVar(&o.cloud, "cloud-provider", "",
		"external: a cloud-controller-manager initializes the node and provides load balancers")
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "log what the control plane does")
	f.BoolVar(&o.withStdin, "exit-with-stdin", false,
		"exit when standard input is closed, so that the server ends with the process that started it")
	o.planes.addFlags(f)
	o.named.addFlags(f)
	f.BoolVar(&o.page, "console", false, "serve the console, a web page that shows the cluster, with administrator rights on a port of its own; its address is printed")
	o.console.AddFlags(f, "console-")
	o.endpoints.AddFlags(f)
	o.requests.AddFlags(s.Area("requests"))
	o.flagged = true
	o.gates.Kubelets.Preferred = nodeAddresses
	o.gates.AddFlags(&s)
	o.signing.AddFlags(s.Area("signing"))
	s.AddTo(c)
	o.values = s.Values
}

// nodeAddresses are the addresses at which this server calls kubelets. Unlike kube-apiserver, it
// prefers IP addresses, as clusters of kubeadm do: host names of nodes often do not resolve.
var nodeAddresses = []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeInternalDNS,
	corev1.NodeHostName, corev1.NodeExternalDNS}

// NodeUsage is the help of the flag --node.
const NodeUsage = "what runs pods: simulated, process (runs their commands on this machine) or none"

// AddUnconfinedFlag registers the flag that lets pods run with all rights of this user.
func (o *Options) AddUnconfinedFlag(f *pflag.FlagSet) { o.pods.addUnconfinedFlag(f) }

func run(ctx context.Context, opts Options, out, errOut io.Writer) error {
	if opts.page {
		// listen first, so that nothing is started if the port is in use
		if err := opts.console.Bind(); err != nil {
			return err
		}
		defer opts.console.Close()
	}
	begin := time.Now()
	p, err := Start(ctx, opts, errOut)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "kelson serves Kubernetes %s at %s, kubeconfig %s, ready in %s\n",
		controlplane.KubernetesVersion, p.URL(), p.Kubeconfig, time.Since(begin).Round(100*time.Microsecond))
	if p.from != "" {
		fmt.Fprintln(out, p.from)
	}
	fmt.Fprintln(out, clientconfig.Export(p.Kubeconfig))
	record := Record{Name: opts.named.name, URL: p.URL(), Kubeconfig: p.Kubeconfig, PID: os.Getpid(),
		Started: begin.UTC()}
	if !opts.page {
		return runNamed(ctx, p, record, func() {})
	}
	name := "kelson serve"
	if opts.state.past.fork {
		name = "kelson fork"
	}
	// The plane serves already when the page is opened: Run accepts connections of its listener.
	url, stop, err := opts.console.Beside(p.Kubeconfig,
		page.Config{Name: name, History: opts.state.historySource(), Moment: p.moment,
			AuditLog: opts.gates.AuditFile()})
	if err != nil {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		return errors.Join(err, p.Run(ended))
	}
	fmt.Fprintf(out, "console: %s\n", url)
	record.Console = url
	return runNamed(ctx, p, record, func() { _ = stop() })
}

// runNamed runs a plane, registered with the name of the record if it has one. It first calls
// before when the plane must stop.
func runNamed(ctx context.Context, p *Plane, r Record, before func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, before) // the plane waits for the watches of the console to end
	if r.Name == "" {
		return p.Run(ctx)
	}
	registered, err := register(r, cancel)
	if err != nil {
		cancel()
	}
	defer registered.end()
	return errors.Join(err, p.Run(ctx))
}

// untilEOF returns a context that ends when reading from in fails or ends.
func untilEOF(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx, cancel
}
