package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kelson.dev/toolchain"
)

func generateCommand() *cobra.Command {
	var opts toolchain.Options
	c := &cobra.Command{
		Use:   "generate [GENERATOR…] [DIR]",
		Short: "Generate code and manifests from Go types and their markers",
		Long: `Generate code and manifests from Go types and their markers.

It reads the markers (+kubebuilder:…, +k8s:…, +genclient…, +kelson:…) in the
packages below DIR and writes what the named generators make of them. Without
names these run: object, crd, rbac, webhook, and whatever a package asks for by
+kelson:generate=NAME;NAME in its doc.go.

` + generatorTable() + `
Only files whose content changes are written; where anything is wrong, nothing
is. No other program is called.`,
		Example: `  kelson generate                       # the project here
  kelson generate --check               # for CI: fail if anything is stale
  kelson generate crd rbac ../other     # only these, for another project
  kelson generate --watch               # again after every edit`,
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if opts.Generators, opts.Dir, err = generateArgs(args); err != nil {
				return err
			}
			return generateOnce(c, opts)
		},
	}
	flags := c.Flags()
	flags.BoolVar(&opts.Check, "check", false, "write nothing; fail if anything would be written")
	flags.BoolVar(&opts.Lenient, "lenient", false, "only warn of markers that are unknown, misplaced or malformed")
	flags.BoolVar(&opts.AllowFloats, "allow-floats", false, "permit float32 and float64 in API types")
	flags.IntVar(&opts.Descriptions.PerField, "max-description", 0, "the most characters of a description in a definition; negative: no descriptions")
	flags.IntVar(&opts.Descriptions.Size, "max-size", 0, "the most bytes of a definition, kept by shortening descriptions (default 1 MiB; kubectl's client-side apply takes 262144)")
	return c
}

// generatorTable is the generators, for the help text.
func generatorTable() string {
	var b strings.Builder
	for _, g := range toolchain.Generators() {
		fmt.Fprintf(&b, "  %-19s %s\n", g.Name, g.Doc)
	}
	return b.String()
}

// generateArgs tells names of generators from the directory, which comes last.
func generateArgs(args []string) (names []string, dir string, err error) {
	known := func(s string) bool {
		return slices.ContainsFunc(toolchain.Generators(), func(g toolchain.Generator) bool { return g.Name == s })
	}
	dir = "."
	for i, a := range args {
		switch {
		case known(a):
			names = append(names, a)
		case i == len(args)-1:
			if st, err := os.Stat(a); err != nil || !st.IsDir() {
				return nil, "", fmt.Errorf("%q is neither a generator nor a directory; see kelson generate --help", a)
			}
			dir = a
		default:
			return nil, "", fmt.Errorf("unknown generator %q; see kelson generate --help", a)
		}
	}
	return names, dir, nil
}

func generateOnce(c *cobra.Command, opts toolchain.Options) error {
	result, err := toolchain.Generate(c.Context(), opts)
	for _, w := range result.Warnings {
		fmt.Fprintln(c.ErrOrStderr(), "warning:", w)
	}
	if errors.Is(err, toolchain.ErrStale) {
		return fmt.Errorf("%w (run kelson generate %s)", err, opts.Dir)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), generated(result))
	return nil
}

// generated says in a line what was generated.
func generated(result toolchain.Result) string {
	changed := result.Changed()
	if len(changed) == 0 {
		return fmt.Sprintf("%d generated files are up to date", len(result.Files))
	}
	return "generated " + strings.Join(changed, ", ")
}
