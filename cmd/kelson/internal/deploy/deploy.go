// Package deploy implements the commands that install, run and package an operator: run, install,
// uninstall, deploy, undeploy and package.
package deploy

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/image"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/project"
)

// DeployCommand returns kelson deploy.
func DeployCommand() *cobra.Command {
	var cluster clusterFlags
	var gens project.Generators
	var name string
	var delivery image.Delivery
	c := &cobra.Command{
		Use:   "deploy [DIR]",
		Short: "Deploy a project's operator or API server to a cluster",
		Long: `Deploy a project's operator or API server to a cluster.

It applies the kustomization config/default: the namespace, the
CustomResourceDefinitions, a service account with the permissions that the
markers request, and a Deployment of the operator's image. A custom API server
gets its Service and APIServices, and a certificate authority, which is kept in a
Secret and used again by the next deploy.

With --push or --load, it first builds the image, as kelson image does. --load
needs no --image: the image gets a local name.`,
		Example: `  kelson deploy --image registry.example/welcome:v1
  kelson deploy --image registry.example/welcome:v2 --push
  kelson deploy --load                                      # to kelson serve --node=containers`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if delivery.Push && name == "" {
				return errors.New("--push needs --image, which names the registry")
			}
			if !delivery.Wanted() && len(delivery.Files)+len(delivery.Platforms) > 0 {
				return errors.New("--file and --platform need --push or --load: without one of these, deploy builds no image")
			}
			progress := output.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			c.SetOut(progress.Above(c.OutOrStdout()))
			c.SetErr(progress.Above(c.ErrOrStderr()))
			progress.Step("generating manifests")
			objects, err := generated(c, args, gens, manifests.Default)
			if err != nil {
				return err
			}
			if delivery.Wanted() {
				if name, err = deliver(c, project.Folder(args), &delivery, name, progress); err != nil {
					return err
				}
			}
			if err := objects.SetImage(name); err != nil {
				return err
			}
			progress.Step("applying %d objects", len(objects))
			if err := cluster.certify(c.Context(), objects); err != nil {
				return err
			}
			return cluster.apply(c, objects)
		},
	}
	cluster.addFlags(c.Flags())
	gens.AddFlags(c.Flags())
	gens.AddSkipFlag(c.Flags())
	delivery.AddFlags(c.Flags())
	c.Flags().StringVar(&name, "image", "", "image of the program, instead of "+manifests.Placeholder+":latest")
	return c
}

// deliver builds the image of the project in dir and delivers it. It returns the image's name.
func deliver(c *cobra.Command, dir string, d *image.Delivery, name string, progress *output.Progress) (string, error) {
	p, err := project.Open(dir)
	if err != nil {
		return "", err
	}
	progress.Step("building the image")
	built, err := d.Build(c.Context(), p)
	if err != nil {
		return "", err
	}
	if name == "" {
		if name, err = image.LocalName(p, built); err != nil {
			return "", err
		}
	}
	progress.Step("delivering %s", name)
	if err := d.Deliver(c.Context(), built, name); err != nil {
		return "", err
	}
	fmt.Fprintln(c.OutOrStdout(), "image", name)
	return name, nil
}

// UndeployCommand returns kelson undeploy.
func UndeployCommand() *cobra.Command {
	return deleteCommand("undeploy [DIR]", "Delete from a cluster everything that deploy created", manifests.Default)
}
