package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kelson.dev/toolchain"
)

func generateCommand() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "generate [DIR]",
		Short: "Generate deep copies, CustomResourceDefinitions and RBAC roles from Go types",
		Long: `Generate deep copies, CustomResourceDefinitions and RBAC roles from Go types.

It reads the markers (+kubebuilder:…, +k8s:…, +genclient…) in the packages below
DIR and writes zz_generated.deepcopy.go beside the types, config/crd and
config/rbac. Only files whose content changes are written; where anything is
wrong, nothing is.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			result, err := toolchain.Generate(c.Context(), toolchain.Options{Dir: dir, Check: check})
			if errors.Is(err, toolchain.ErrStale) {
				return fmt.Errorf("%w: %s (run kelson generate %s)", err, strings.Join(result.Changed(), ", "), dir)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), generated(result))
			return nil
		},
	}
	c.Flags().BoolVar(&check, "check", false, "write nothing; fail if anything would be written")
	return c
}

// generated says in a line what was generated.
func generated(result toolchain.Result) string {
	changed := result.Changed()
	if len(changed) == 0 {
		return fmt.Sprintf("%d generated files are up to date", len(result.Files))
	}
	return "generated " + strings.Join(changed, ", ")
}
