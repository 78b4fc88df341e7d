package project

import (
	"fmt"

	"github.com/spf13/cobra"

	"kelson.dev/toolchain"
)

// ManifestsCommand returns kelson manifests.
func ManifestsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "manifests [DIR]",
		Short: "Generate CustomResourceDefinitions, roles and webhook configurations from Go types",
		Long: `Generate CustomResourceDefinitions, roles and webhook configurations from Go types.

It does the same as kelson generate crd rbac webhook and does not change code.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return GenerateManifests(c, Folder(args)) },
	}
}

// GenerateManifests updates a project's manifests and prints what changed.
func GenerateManifests(c *cobra.Command, dir string) error {
	result, err := toolchain.Generate(c.Context(), toolchain.Options{Dir: dir, Generators: []string{"crd", "rbac", "webhook"}})
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	fmt.Fprintln(c.OutOrStdout(), generated(result))
	return nil
}
