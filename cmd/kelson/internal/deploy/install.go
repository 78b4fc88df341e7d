package deploy

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
)

// InstallCommand returns kelson install.
func InstallCommand() *cobra.Command {
	var cluster clusterFlags
	var gens project.Generators
	c := &cobra.Command{
		Use:   "install [DIR]",
		Short: "Install a project's CustomResourceDefinitions in a cluster",
		Long: `Install a project's CustomResourceDefinitions in a cluster.

It generates the definitions, applies them with server-side apply, and waits
until they are established.`,
		Example: "  kelson install\n  kelson install ./welcome --kubeconfig ~/.kube/config",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			objects, err := generated(c, args, gens, manifests.Definitions)
			if err != nil {
				return err
			}
			if len(objects) == 0 {
				fmt.Fprintln(c.OutOrStdout(), "nothing to install: the project has no CustomResourceDefinitions")
				return nil
			}
			if err := cluster.apply(c, objects); err != nil {
				return err
			}
			return cluster.kubectl(c.Context(), objects, io.Discard, c.ErrOrStderr(), "wait",
				"--for=condition=Established", "--timeout=1m")
		},
	}
	cluster.addFlags(c.Flags())
	gens.AddFlags(c.Flags())
	gens.AddSkipFlag(c.Flags())
	return c
}

// UninstallCommand returns kelson uninstall.
func UninstallCommand() *cobra.Command {
	return deleteCommand("uninstall [DIR]", "Delete a project's CustomResourceDefinitions and all their objects from a cluster", manifests.Definitions)
}
