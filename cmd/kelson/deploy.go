package main

import (
	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/manifests"
)

func deployCommand() *cobra.Command {
	var cluster clusterFlags
	var image string
	c := &cobra.Command{
		Use:   "deploy [DIR]",
		Short: "Deploy a project's operator to a cluster",
		Long: `Deploy a project's operator to a cluster: all of config/default.

That is its namespace, its CustomResourceDefinitions, a service account with the
rights that its markers ask for, and a Deployment of its image.`,
		Example: `  kelson deploy --image registry.example/welcome:v1`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := generateManifests(c, folder(args)); err != nil {
				return err
			}
			objects, err := manifests.Default(folder(args))
			if err != nil {
				return err
			}
			objects.SetImage(image)
			return cluster.apply(c, objects)
		},
	}
	cluster.addFlags(c.Flags())
	c.Flags().StringVar(&image, "image", "", "the operator's image, in place of "+manifests.Placeholder+":latest")
	return c
}

func undeployCommand() *cobra.Command {
	var cluster clusterFlags
	var ignore bool
	c := &cobra.Command{
		Use:   "undeploy [DIR]",
		Short: "Remove all that deploy made from a cluster",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			objects, err := manifests.Default(folder(args))
			if err != nil {
				return err
			}
			return cluster.delete(c, objects, ignore)
		},
	}
	cluster.addFlags(c.Flags())
	c.Flags().BoolVar(&ignore, "ignore-not-found", false, "what is not there is no error")
	return c
}
