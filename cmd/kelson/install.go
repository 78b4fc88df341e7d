package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/manifests"
)

func installCommand() *cobra.Command {
	var cluster clusterFlags
	c := &cobra.Command{
		Use:   "install [DIR]",
		Short: "Install a project's CustomResourceDefinitions in a cluster",
		Long: `Install a project's CustomResourceDefinitions in a cluster.

They are generated, applied by the server, and waited for.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := generateManifests(c, folder(args)); err != nil {
				return err
			}
			objects, err := manifests.Definitions(folder(args))
			if err != nil {
				return err
			}
			if len(objects) == 0 {
				fmt.Fprintln(c.OutOrStdout(), "the project has no CustomResourceDefinitions to install")
				return nil
			}
			if err := cluster.apply(c, objects); err != nil {
				return err
			}
			var quiet nothing
			return cluster.kubectl(c.Context(), objects, &quiet, c.ErrOrStderr(), "wait", "--for=condition=Established", "--timeout=1m")
		},
	}
	cluster.addFlags(c.Flags())
	return c
}

// nothing swallows what is written.
type nothing struct{}

func (*nothing) Write(p []byte) (int, error) { return len(p), nil }

func uninstallCommand() *cobra.Command {
	var cluster clusterFlags
	var ignore bool
	c := &cobra.Command{
		Use:   "uninstall [DIR]",
		Short: "Remove a project's CustomResourceDefinitions, and with them all their objects, from a cluster",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			objects, err := manifests.Definitions(folder(args))
			if err != nil || len(objects) == 0 {
				return err
			}
			return cluster.delete(c, objects, ignore)
		},
	}
	cluster.addFlags(c.Flags())
	c.Flags().BoolVar(&ignore, "ignore-not-found", false, "what is not there is no error")
	return c
}
