// Package deploy implements the commands that bring an operator to a cluster or to other people:
// run, install, uninstall, deploy, undeploy and package.
package deploy

import (
	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
)

// DeployCommand returns kelson deploy.
func DeployCommand() *cobra.Command {
	var cluster clusterFlags
	var gens project.Generators
	var image string
	c := &cobra.Command{
		Use:   "deploy [DIR]",
		Short: "Deploy a project's operator or API server to a cluster",
		Long: `Deploy a project's operator or API server to a cluster.

It applies the kustomization config/default: the namespace, the
CustomResourceDefinitions, a service account with the permissions that the
markers request, and a Deployment of the operator's image. A custom API server
gets its Service and APIServices, and a certificate authority, which is kept in a
Secret and used again by the next deploy.`,
		Example: `  kelson deploy --image registry.example/welcome:v1`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			objects, err := generated(c, args, gens, manifests.Default)
			if err != nil {
				return err
			}
			objects.SetImage(image)
			if err := cluster.certify(c.Context(), objects); err != nil {
				return err
			}
			return cluster.apply(c, objects)
		},
	}
	cluster.addFlags(c.Flags())
	gens.AddFlags(c.Flags())
	gens.AddSkipFlag(c.Flags())
	c.Flags().StringVar(&image, "image", "", "image of the program, instead of "+manifests.Placeholder+":latest")
	return c
}

// UndeployCommand returns kelson undeploy.
func UndeployCommand() *cobra.Command {
	return deleteCommand("undeploy [DIR]", "Delete everything that deploy created from a cluster", manifests.Default)
}
