package project

import (
	"fmt"

	"github.com/spf13/cobra"
)

// ManifestsCommand returns kelson manifests.
func ManifestsCommand() *cobra.Command {
	var gens Generators
	c := &cobra.Command{
		Use:   "manifests [DIR]",
		Short: "Generate CustomResourceDefinitions, roles and webhook configurations from Go types",
		Long: `Generate CustomResourceDefinitions, roles and webhook configurations from Go types.

It does the same as kelson generate crd rbac webhook and does not change code.`,
		Example: "  kelson manifests\n  kelson manifests ./welcome",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return GenerateManifests(c, Folder(args), gens) },
	}
	gens.AddFlags(c.Flags())
	return c
}

// GenerateManifests updates a project's manifests and prints the changed files.
func GenerateManifests(c *cobra.Command, dir string, gens Generators) error {
	return gens.generate(c, dir, []string{"crd", "rbac", "webhook"})
}

// generate runs the named generators, or all, and prints the adopted calls and the changed files.
func (g Generators) generate(c *cobra.Command, dir string, names []string) error {
	if g.Skip {
		return nil
	}
	plan, err := g.Plan(dir, names)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	plan.Print(c.ErrOrStderr())
	if plan.Empty() {
		return nil
	}
	result, err := plan.Run(c.Context())
	for _, w := range result.Warnings {
		fmt.Fprintln(c.ErrOrStderr(), "warning:", w)
	}
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	if len(result.Files) > 0 || names == nil { // a custom API server has no manifests to generate
		fmt.Fprintln(c.OutOrStdout(), generated(result))
	}
	return nil
}
