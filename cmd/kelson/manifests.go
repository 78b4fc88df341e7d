package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"kelson.dev/toolchain"
)

func manifestsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "manifests [DIR]",
		Short: "Generate CustomResourceDefinitions, roles and webhook configurations from Go types",
		Long: `Generate CustomResourceDefinitions, roles and webhook configurations from Go types.

It is kelson generate crd rbac webhook: code is left as it is.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return generateManifests(c, folder(args)) },
	}
}

// generateManifests brings a project's manifests up to date.
func generateManifests(c *cobra.Command, dir string) error {
	result, err := toolchain.Generate(c.Context(), toolchain.Options{Dir: dir, Generators: []string{"crd", "rbac", "webhook"}})
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	fmt.Fprintln(c.OutOrStdout(), generated(result))
	return nil
}
