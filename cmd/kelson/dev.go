package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/cmd/kelson/internal/account"
	"kelson.dev/cmd/kelson/internal/loop"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/cmd/kelson/internal/until"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/operator/client"
	"kelson.dev/toolchain/scaffold"
)

type devOptions struct {
	serveOptions
	dir     string
	cluster string // kubeconfig of another cluster
	until   string
	timeout time.Duration
	reload  bool
}

func devCommand() *cobra.Command {
	opts := devOptions{serveOptions: serveOptions{state: stateOptions{inMemory: true}, bindAddress: "127.0.0.1", workloads: true, pods: podFlags{mayFallBack: true}}}
	c := &cobra.Command{
		Use:   "dev [DIR]",
		Short: "Run an operator project on a control plane of its own and show what happens",
		Long: `Run an operator project on a control plane of its own and show what happens.

The control plane runs in this process, in memory; with --kubeconfig it is
another cluster, which must be able to reach this machine if the operator has
webhooks. The project's manifests are generated, its CustomResourceDefinitions
installed, the operator is built from DIR and run as a child, and the samples are
applied. Then everything that happens is told line by line: objects, events,
reconciles with their causes and results, the output of containers.

When files are saved, all of it is done anew, as far as it is needed; what does
not compile is shown, and the operator that runs goes on. Webhooks are served by
the operator with certificates made for the run, and registered by URL; with
ENABLE_WEBHOOKS=false in the environment there are none. Projects of kubebuilder
run as they are. The kubeconfig that is printed is for kubectl in another
terminal. Ctrl-C ends all of it.`,
		Example: `  kelson dev examples/cnat --node=process
  kelson dev . --until 'at/example-at:{.status.phase}=DONE' --timeout 1m
  kelson dev --kubeconfig ~/.kube/config`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			opts.dir = folder(args)
			return dev(c.Context(), opts, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&opts.until, "until", "", "end with exit code 0 when OBJECT:JSONPATH=VALUE holds, as 'at/example-at:{.status.phase}=DONE'")
	f.DurationVar(&opts.timeout, "timeout", 0, "end with exit code 1 after this time; 0 means never")
	f.BoolVar(&opts.reload, "reload", true, "do it anew when files change")
	f.StringVar(&opts.cluster, "kubeconfig", "", "run it against the cluster of this kubeconfig")
	f.IntVar(&opts.securePort, "secure-port", 0, "port of the control plane; 0 picks a free one")
	f.StringVar(&opts.kubeconfig, "write-kubeconfig", "", "file to write the control plane's kubeconfig to (default: a temporary file)")
	f.StringVar(&opts.node, "node", string(controlplane.NodeSimulated), "what runs pods: simulated, process (really runs their commands on this machine) or none")
	opts.pods.addUnconfinedFlag(f)
	f.BoolVarP(&opts.verbose, "verbose", "v", false, "log what the control plane does")
	c.MarkFlagsMutuallyExclusive("kubeconfig", "write-kubeconfig")
	c.MarkFlagsMutuallyExclusive("kubeconfig", "node")
	return c
}

func dev(ctx context.Context, opts devOptions, out, errOut io.Writer) error {
	var condition *until.Condition
	if opts.until != "" {
		var err error
		if condition, err = until.Parse(opts.until); err != nil {
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if opts.timeout > 0 {
		timer := time.AfterFunc(opts.timeout, func() { cancel(fmt.Errorf("timed out after %s", opts.timeout)) })
		defer timer.Stop()
	}

	c, err := opts.start(ctx, out, errOut)
	if err != nil {
		return err
	}
	err = develop(ctx, proj, opts, c, condition)
	err = errors.Join(err, c.stop())
	switch {
	case err == nil && condition != nil:
		c.tell.Printf("done", "%s", condition)
	case err == nil:
		c.tell.Printf("done", "ended")
	}
	return err
}

// devCluster is where a project is run: a control plane in this process, or another cluster.
type devCluster struct {
	tell       *account.Account
	client     client.Client
	kubeconfig string
	follow     func(ctx context.Context, dir string) (stop func(), err error) // begins to tell what happens
	wait       func(context.Context, *until.Condition) error
	stop       func() error
}

func (o devOptions) start(ctx context.Context, out, errOut io.Writer) (*devCluster, error) {
	if o.cluster != "" {
		return otherCluster(o.cluster, out)
	}
	begin := time.Now()
	p, err := startPlane(ctx, o.serveOptions, errOut)
	if err != nil {
		return nil, err
	}
	served := make(chan error, 1)
	serveCtx, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	go func() { served <- p.run(serveCtx) }()
	c := &devCluster{tell: account.New(out, p.Registry()), kubeconfig: p.kubeconfig}
	c.stop = func() error {
		stopServing()
		return <-served
	}
	c.follow = func(ctx context.Context, _ string) (func(), error) {
		return account.Follow(ctx, c.tell, p.Store(), p.Transport()).Stop, nil
	}
	c.wait = func(ctx context.Context, condition *until.Condition) error {
		return condition.Wait(ctx, p.Store(), p.Registry())
	}
	if c.client, err = client.New(client.Config{REST: p.RESTConfig(), FieldOwner: "kelson-dev"}); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	c.tell.Printf("control plane", "%s, ready in %s", p.server.URL(), time.Since(begin).Round(100*time.Microsecond))
	c.tell.Printf("kubeconfig", "export KUBECONFIG=%s", p.kubeconfig)
	return c, nil
}

// otherCluster runs projects in the cluster of a kubeconfig.
func otherCluster(kubeconfig string, out io.Writer) (*devCluster, error) {
	path, err := filepath.Abs(kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	c := &devCluster{tell: account.New(out, nil), kubeconfig: path, stop: func() error { return nil }}
	if c.client, err = client.New(client.Config{REST: config, FieldOwner: "kelson-dev"}); err != nil {
		return nil, err
	}
	c.follow = func(ctx context.Context, dir string) (func(), error) {
		kinds, err := followed(dir)
		if err != nil {
			return nil, err
		}
		watching, err := account.Watch(ctx, c.tell, c.client, kinds)
		if err != nil {
			return nil, err
		}
		return watching.Stop, nil
	}
	c.wait = func(ctx context.Context, condition *until.Condition) error { return condition.WaitIn(ctx, c.client) }
	c.tell.Printf("cluster", "%s", config.Host)
	return c, nil
}

// followed are the kinds whose changes are told in another cluster: the project's own, what operators mostly make, and Events.
func followed(dir string) ([]schema.GroupVersionKind, error) {
	kinds := []schema.GroupVersionKind{
		{Version: "v1", Kind: "Event"}, {Version: "v1", Kind: "Pod"}, {Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "batch", Version: "v1", Kind: "Job"},
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

// develop is the loop itself. It returns nil when the condition holds, or when ctx was ended by the user.
func develop(ctx context.Context, proj *project.Project, opts devOptions, c *devCluster, condition *until.Condition) error {
	stop := func() {}
	defer func() { stop() }()
	held := make(chan error, 1)
	l, err := loop.Start(ctx, loop.Config{
		Project: proj, Client: c.client, Kubeconfig: c.kubeconfig, Tell: c.tell,
		Webhooks: os.Getenv("ENABLE_WEBHOOKS") != "false", Reload: opts.reload && condition == nil,
	}, func() (err error) {
		stop, err = c.follow(ctx, proj.Dir)
		return err
	})
	if err != nil {
		return ended(ctx, err)
	}
	defer l.Stop()
	if condition != nil {
		go func() { held <- c.wait(ctx, condition) }()
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

// ended gives the reason for which ctx ended: nothing when the user ended it. Where ctx goes on, it gives err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
