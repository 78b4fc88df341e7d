package deploy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/cmd/kelson/internal/backend"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/operator/client"
)

// runServer runs the binary of a custom API server with the flags args until it ends or the user
// cancels. While it runs, it is registered with the cluster. temp is a folder for its certificates.
func (c *clusterFlags) runServer(command *cobra.Command, p *project.Project, binary, temp string, args []string) error {
	run := func(ctx context.Context, args ...string) error {
		return project.RunChild(ctx, p.Dir, nil, command.OutOrStdout(), command.ErrOrStderr(), binary, args...)
	}
	if isStandalone(args) {
		return run(command.Context(), args...)
	}
	kubeconfig, err := c.write(filepath.Join(temp, "kubeconfig"))
	if err != nil {
		return err
	}
	config, err := c.config()
	if err != nil {
		return err
	}
	objectClient, err := client.New(client.Config{REST: config, FieldOwner: "kelson-run"})
	if err != nil {
		return err
	}
	b, err := backend.New(p, objectClient, kubeconfig, temp)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(command.Context())
	defer cancel()
	ran, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		ran <- run(ctx, append(p.Args, args...)...)
	}()
	apply := func(ctx context.Context, objects manifests.Objects) error {
		for _, obj := range objects {
			if err := objectClient.Apply(ctx, obj.DeepCopy(), client.ForceOwnership); err != nil {
				return fmt.Errorf("apply %s %s: %w", obj.GetKind(), obj.GetName(), err)
			}
		}
		return nil
	}
	served, err := b.Register(ctx, apply, ended)
	if command.Context().Err() != nil {
		err = nil // the user canceled
	}
	if err != nil {
		cancel()
	} else if served {
		for _, v := range b.Versions() {
			fmt.Fprintf(command.OutOrStdout(), "%s serves %s\n", config.Host, v)
		}
	}
	return errors.Join(err, <-ran, b.Unregister())
}

// isStandalone reports whether the flags of an API server make it run without a cluster.
func isStandalone(args []string) bool {
	return slices.Contains(args, "--standalone") || slices.Contains(args, "--standalone=true")
}

// checkServerArgs returns an error if the flags of an API server contradict those that kelson run
// adds.
func checkServerArgs(args []string) error {
	if isStandalone(args) {
		return nil
	}
	for _, name := range []string{"--kubeconfig", "--bind-address", "--secure-port", "--cert-dir", "--tls-cert-file",
		"--authority-secret"} {
		if slices.ContainsFunc(args, func(arg string) bool { return arg == name || strings.HasPrefix(arg, name+"=") }) {
			return fmt.Errorf("%s after --: kelson run sets the address, certificates and cluster of an API server: omit the flag, or add --standalone", name)
		}
	}
	return nil
}

// write writes a kubeconfig that has only this cluster to file, and returns its name.
func (c *clusterFlags) write(file string) (string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	config, err := rules.Load()
	if err != nil {
		return "", err
	}
	if c.context != "" {
		config.CurrentContext = c.context
	}
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return file, nil
}
