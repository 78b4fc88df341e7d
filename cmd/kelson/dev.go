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

	"kelson.dev/cmd/kelson/internal/account"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/cmd/kelson/internal/until"
	"kelson.dev/operator/client"
	"kelson.dev/server/controlplane"
	"kelson.dev/toolchain"
)

type devOptions struct {
	serveOptions
	dir     string
	until   string
	timeout time.Duration
}

func devCommand() *cobra.Command {
	opts := devOptions{serveOptions: serveOptions{state: stateOptions{inMemory: true}, bindAddress: "127.0.0.1"}}
	c := &cobra.Command{
		Use:   "dev [DIR]",
		Short: "Run an operator project on a control plane of its own and show what happens",
		Long: `Run an operator project on a control plane of its own and show what happens.

The control plane runs in this process, in memory. The project's manifests are
generated, its CustomResourceDefinitions installed, the operator is built from
DIR and run as a child, and the samples are applied. Then everything that
happens is told line by line: objects, events, reconciles with their causes and
results, the output of containers. The kubeconfig that is printed is for
kubectl in another terminal. Ctrl-C ends all of it.`,
		Example: `  kelson dev examples/cnat --node=process
  kelson dev . --until 'at/example-at:{.status.phase}=DONE' --timeout 1m`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			opts.dir = "."
			if len(args) > 0 {
				opts.dir = args[0]
			}
			return dev(c.Context(), opts, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&opts.until, "until", "", "end with exit code 0 when OBJECT:JSONPATH=VALUE holds, as 'at/example-at:{.status.phase}=DONE'")
	f.DurationVar(&opts.timeout, "timeout", 0, "end with exit code 1 after this time; 0 means never")
	f.IntVar(&opts.securePort, "secure-port", 0, "port of the control plane; 0 picks a free one")
	f.StringVar(&opts.kubeconfig, "kubeconfig", "", "file to write the kubeconfig to (default: a temporary file)")
	f.StringVar(&opts.node, "node", string(controlplane.NodeSimulated), "what runs pods: simulated, process (really runs their commands on this machine) or none")
	f.BoolVarP(&opts.verbose, "verbose", "v", false, "log what the control plane does")
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if opts.timeout > 0 {
		timer := time.AfterFunc(opts.timeout, func() { cancel(fmt.Errorf("timed out after %s", opts.timeout)) })
		defer timer.Stop()
	}

	begin := time.Now()
	p, err := startPlane(ctx, opts.serveOptions, errOut)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	serveCtx, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	go func() { served <- p.run(serveCtx) }()
	tell := account.New(out, p.Registry())
	tell.Printf("control plane", "%s, ready in %s", p.server.URL(), time.Since(begin).Round(100*time.Microsecond))
	tell.Printf("kubeconfig", "export KUBECONFIG=%s", p.kubeconfig)

	err = develop(ctx, proj, p, tell, condition)
	stopServing()
	err = errors.Join(err, <-served)
	switch {
	case err == nil && condition != nil:
		tell.Printf("done", "%s", condition)
	case err == nil:
		tell.Printf("done", "ended")
	}
	return err
}

// develop is the loop itself, on a control plane that serves. It returns nil when the condition holds, or when ctx was ended by the user.
func develop(ctx context.Context, proj *project.Project, p *plane, tell *account.Account, condition *until.Condition) error {
	wrote, err := toolchain.Generate(ctx, toolchain.Options{Dir: proj.Dir})
	if err != nil {
		return ended(ctx, fmt.Errorf("generate: %w", err))
	}
	tell.Printf("manifests", "%s", generated(wrote))

	tempDir, err := os.MkdirTemp("", "kelson-dev-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tempDir)
	binary := filepath.Join(tempDir, "operator")
	begin := time.Now()
	if err := proj.Build(ctx, binary); err != nil {
		return ended(ctx, err)
	}
	tell.Printf("operator", "built in %s", time.Since(begin).Round(time.Millisecond))

	follow := account.Follow(ctx, tell, p.Store(), p.Transport())
	defer follow.Stop()
	objects, err := client.New(client.Config{REST: p.RESTConfig(), FieldOwner: "kelson-dev"})
	if err != nil {
		return err
	}
	if err := proj.Apply(ctx, objects, "config/crd"); err != nil {
		return ended(ctx, err)
	}
	operator, err := proj.Run(binary, p.kubeconfig, tell)
	if err != nil {
		return err
	}
	defer operator.Stop()
	if err := proj.Apply(ctx, objects, "config/samples"); err != nil {
		return ended(ctx, err)
	}

	held := make(chan error, 1)
	if condition != nil {
		go func() { held <- condition.Wait(ctx, p.Store(), p.Registry()) }()
	}
	select {
	case err := <-held:
		if err != nil {
			return ended(ctx, err)
		}
		return nil
	case err := <-operator.Ended():
		return fmt.Errorf("the operator ended by itself: %w", err)
	case <-ctx.Done():
		return ended(ctx, ctx.Err())
	}
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
