// Package dev implements kelson dev: it runs an operator project on its own control plane, or in
// another cluster, shows what happens, and follows edits.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/cmd/kelson/internal/console"
	"kelson.dev/cmd/kelson/internal/dev/deployed"
	"kelson.dev/cmd/kelson/internal/dev/devlog"
	"kelson.dev/cmd/kelson/internal/dev/loop"
	"kelson.dev/cmd/kelson/internal/dev/waitfor"
	"kelson.dev/cmd/kelson/internal/kubeconfig"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/cmd/kelson/internal/serve"
	consolepage "kelson.dev/console"
	"kelson.dev/operator/client"
	"kelson.dev/toolchain/scaffold"
)

type devOptions struct {
	serve.Options
	dir     string
	cluster string // kubeconfig of another cluster; empty: a control plane in this process
	until   string
	timeout time.Duration
	reload  bool
	gens    project.Generators
	console console.Options
	page    bool
	// files and folders with definitions to install, and with samples
	definitions, samples []string
}

// Command returns kelson dev.
func Command() *cobra.Command {
	opts := devOptions{Options: serve.InMemory()}
	c := &cobra.Command{
		Use:   "dev [DIR]",
		Short: "Run a project on its own control plane and show what happens",
		Long: `Run an operator, or a custom API server, on its own control plane and show what
happens.

The control plane runs in this process and keeps its state in memory. With
--kubeconfig, kelson uses another cluster instead; that cluster must be able to
reach this machine if the operator has webhooks. kelson generates the project's
manifests, installs its CustomResourceDefinitions, builds and runs the operator
in DIR, and applies the samples. Then it prints a line for everything that
happens: changes of objects, Events, reconciles with their causes and results,
and the output of containers.

When you save a file, kelson repeats the steps that the change affects. If the
project does not compile, it prints the errors and the current operator keeps
running. The operator serves its webhooks with certificates for this run, and
kelson registers them by URL; with ENABLE_WEBHOOKS=false in the environment, it
runs without webhooks.

Projects made by kubebuilder or operator-sdk need no changes. On the control
plane of this process, kelson applies what config/default deploys, or what the
Makefile deploys instead, and runs the operator in a pod, with the arguments,
environment, volumes and service account of its Deployment. It issues the
certificates that cert-manager would issue, and installs definitions of other
projects that the operator needs, from the modules that it imports.

A custom API server runs behind the control plane: kelson registers the
APIServices in config/apiservice, with a certificate authority for this run, and
points their Service to this machine. Changes of its objects are in the log too.
The server keeps its objects until kelson ends. With --kubeconfig, kelson deletes
the APIServices and the Service when it ends; the cluster's API server must be able
to reach localhost.

With --audit-log, the file has all requests, and kelson rights computes from it
which of them the operator's roles do not allow, and which rules it has not used.

Use the printed kubeconfig for kubectl in another terminal, and open the address
of the console in a browser. Ctrl-C stops everything.`,
		Example: `  kelson dev examples/cnat --node=process
  kelson dev . --until 'at/example-at:{.status.phase}=DONE' --timeout 1m
  kelson dev --audit-log audit.log
  kelson dev --kubeconfig ~/.kube/config`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if opts.until != "" && opts.reload && c.Flags().Changed("reload") {
				return errors.New("--reload has no effect with --until")
			}
			if opts.until != "" && !c.Flags().Changed("console") {
				opts.page = false // a run that ends by itself has no viewer
			}
			for _, name := range []string{"open", "console-listen", "console-write"} {
				if !opts.page && c.Flags().Changed(name) {
					return fmt.Errorf("--%s has no effect without --console", name)
				}
			}
			opts.dir = project.Folder(args)
			return run(c.Context(), opts, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&opts.until, "until", "", "exit with code 0 when the condition OBJECT:JSONPATH=VALUE is true, for example 'at/example-at:{.status.phase}=DONE'; disables --reload")
	f.DurationVar(&opts.timeout, "timeout", 0, "exit with code 1 after this time; 0: never")
	f.BoolVar(&opts.reload, "reload", true, "rebuild and restart when files change")
	f.StringVar(&opts.cluster, "kubeconfig", "", "kubeconfig of another cluster to run the operator against")
	f.BoolVar(&opts.page, "console", true, "serve a web page that shows what happens; the default is false with --until")
	f.BoolVar(&opts.console.Open, "open", false, "open the console in a browser")
	opts.console.AddFlags(f, "console-")
	f.IntVar(&opts.SecurePort, "secure-port", 0, "port of the control plane; 0 picks a free one")
	f.StringVar(&opts.Kubeconfig, "write-kubeconfig", "",
		"file to write the control plane's kubeconfig to (default: a temporary file)")
	f.StringVar(&opts.Node, "node", serve.DefaultNode, serve.NodeUsage)
	opts.AddVersionFlag(f)
	opts.AddUnconfinedFlag(f)
	opts.AddAuditLogFlag(f)
	f.StringSliceVar(&opts.definitions, "definitions", nil,
		"files or folders with CustomResourceDefinitions of other projects to install")
	f.StringSliceVar(&opts.samples, "samples", nil,
		"files or folders with the samples to apply (default config/samples)")
	opts.gens.AddFlags(f)
	opts.gens.AddSkipFlag(f)
	f.BoolVarP(&opts.Verbose, "verbose", "v", false, "log what the control plane does")
	for _, name := range []string{"write-kubeconfig", "node", "secure-port", "verbose", "audit-log",
		"run-pods-unconfined-as-this-user"} {
		// these flags configure the control plane of this process
		c.MarkFlagsMutuallyExclusive("kubeconfig", name)
	}
	return c
}

func run(ctx context.Context, opts devOptions, out, errOut io.Writer) error {
	var condition *waitfor.Condition
	if opts.until != "" {
		var err error
		if condition, err = waitfor.Parse(opts.until); err != nil {
			return err
		}
	}
	proj, err := project.Open(opts.dir)
	if err != nil {
		return err
	}
	if _, err := scaffold.Follow(proj.Dir); err != nil {
		return err
	}
	for _, name := range slices.Concat(opts.definitions, opts.samples) {
		if _, err := os.Stat(name); err != nil {
			return fmt.Errorf("read manifests: %w", err)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if opts.timeout > 0 {
		timer := time.AfterFunc(opts.timeout, func() { cancel(fmt.Errorf("timed out after %s", opts.timeout)) })
		defer timer.Stop()
	}

	if opts.page {
		// listen first, so that nothing is started if the port is in use
		if err := opts.console.Bind(); err != nil {
			return err
		}
		defer opts.console.Close()
	}
	c, err := opts.start(ctx, out, errOut)
	if err != nil {
		return err
	}
	closePage, err := opts.startConsole(c, proj)
	if err != nil {
		return errors.Join(err, c.stop())
	}
	err = develop(ctx, proj, opts, c, condition)
	err = errors.Join(err, closePage(), c.stop())
	switch {
	case err == nil && condition != nil:
		c.log.Printf("done", "%s", condition)
	case err == nil:
		c.log.Printf("done", "stopped")
	}
	return err
}

// cluster is the cluster that the operator uses: a control plane in this process, or another
// cluster.
type cluster struct {
	log        *devlog.Log
	client     client.Client
	rest       *rest.Config
	kubeconfig string
	// starts the log of changes, reconciles and output
	other  bool                 // not a control plane in this process
	deploy *deployed.NodeConfig // how a node connects to it; nil if it is another cluster
	follow func(ctx context.Context, dir string) (stop func(), err error)
	stop   func() error
}

// startConsole serves the web page.
func (o *devOptions) startConsole(c *cluster, proj *project.Project) (stop func() error, err error) {
	if !o.page {
		return func() error { return nil }, nil
	}
	page := consolepage.Config{Name: "kelson dev", AuditLog: o.AuditLog(),
		Traces: []consolepage.TraceSource{{Place: c.kubeconfig + project.TraceSuffix}}}
	if !proj.Server {
		page.MakePlan = planner(proj.Dir, c.kubeconfig)
	}
	url, stop, err := o.console.Beside(c.kubeconfig, page)
	if err != nil {
		return nil, err
	}
	c.log.Printf("console", "%s", url)
	if o.console.Open {
		if err := console.Browse(url); err != nil {
			c.log.Printf("console", "open in a browser: %v", err)
		}
	}
	return stop, nil
}

func (o devOptions) start(ctx context.Context, out, errOut io.Writer) (*cluster, error) {
	if o.cluster != "" {
		return otherCluster(o.cluster, out)
	}
	begin := time.Now()
	p, err := serve.Start(ctx, o.Options, errOut)
	if err != nil {
		return nil, err
	}
	served := make(chan error, 1)
	serveCtx, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	go func() { served <- p.Run(serveCtx) }()
	c := &cluster{log: devlog.New(out, p.Registry()), kubeconfig: p.Kubeconfig, rest: p.RESTConfig()}
	c.stop = func() error {
		stopServing()
		return <-served
	}
	c.follow = func(ctx context.Context, _ string) (func(), error) {
		return devlog.Follow(ctx, c.log, p.Store(), p.Transport()).Stop, nil
	}
	if c.client, err = client.New(client.Config{REST: c.rest, FieldOwner: "kelson-dev"}); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	c.deploy = &deployed.NodeConfig{Config: c.rest, Server: strings.TrimPrefix(p.URL(), "https://")}
	c.log.Printf("control plane", "%s, ready in %s", p.URL(), time.Since(begin).Round(100*time.Microsecond))
	c.log.Printf("kubeconfig", "%s", kubeconfig.Export(p.Kubeconfig))
	return c, nil
}

// otherCluster connects to the cluster of a kubeconfig.
func otherCluster(file string, out io.Writer) (*cluster, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	c := &cluster{log: devlog.New(out, nil), kubeconfig: path, rest: config, other: true, stop: func() error {
		return nil
	}}
	if c.client, err = client.New(client.Config{REST: config, FieldOwner: "kelson-dev"}); err != nil {
		return nil, err
	}
	c.follow = func(ctx context.Context, dir string) (func(), error) {
		kinds, err := followedKinds(dir)
		if err != nil {
			return nil, err
		}
		watching, err := devlog.Watch(ctx, c.log, c.client, kinds)
		if err != nil {
			return nil, err
		}
		return watching.Stop, nil
	}
	c.log.Printf("cluster", "%s", config.Host)
	return c, nil
}

// followedKinds returns the kinds whose changes are logged in another cluster: the project's own,
// the kinds that operators create most often, and Events.
func followedKinds(dir string) ([]schema.GroupVersionKind, error) {
	kinds := []schema.GroupVersionKind{
		{Version: "v1", Kind: "Event"}, {Version: "v1", Kind: "Pod"},
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "batch", Version: "v1", Kind: "Job"},
	}
	definitions, err := manifests.Definitions(dir)
	if err != nil {
		return nil, err
	}
	for _, crd := range definitions {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			if v, ok := v.(map[string]any); ok && v["storage"] == true {
				name, _ := v["name"].(string)
				kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: name, Kind: kind})
			}
		}
	}
	return kinds, nil
}

// develop runs the development loop. It returns nil when the condition is true or the user cancels
// ctx.
func develop(ctx context.Context, proj *project.Project, opts devOptions, c *cluster,
	condition *waitfor.Condition) error {
	stop := func() {}
	defer func() { stop() }()
	held := make(chan error, 1)
	deploy := c.deploy
	if existing, err := project.Existing(proj.Dir); err != nil {
		return err
	} else if !existing {
		deploy = nil
	}
	l, err := loop.Start(ctx, loop.Config{
		Project: proj, Generators: opts.gens, Client: c.client, Kubeconfig: c.kubeconfig, Log: c.log,
		Unregister: c.other, Webhooks: os.Getenv("ENABLE_WEBHOOKS") != "false", Reload: opts.reload && condition == nil,
		Served: c.followServed, Deploy: deploy, Definitions: opts.definitions, Samples: opts.samples,
		AuditLog: opts.AuditLog(),
	}, func() (err error) {
		stop, err = c.follow(ctx, proj.Dir)
		return err
	})
	if err != nil {
		return ended(ctx, err)
	}
	defer l.Stop()
	if condition != nil {
		go func() { held <- condition.Wait(ctx, c.rest) }()
	}
	ran := make(chan error, 1)
	running, stopRunning := context.WithCancel(ctx)
	go func() { ran <- l.Run(running) }()
	select {
	case err = <-held:
		stopRunning()
		<-ran
	case err = <-ran:
		stopRunning()
	}
	if err != nil {
		return ended(ctx, err)
	}
	return nil
}

// ended returns the cause of the end of ctx, or nil if the user canceled it. If ctx has not ended,
// it returns err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
