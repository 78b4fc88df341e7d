package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/changes"
	"kelson.dev/toolchain"
	"kelson.dev/toolchain/loader"
)

func generateCommand() *cobra.Command {
	var opts toolchain.Options
	var watch bool
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
			debug.SetGCPercent(400) // most of what is read is needed to the end
			if watch {
				return generateAgain(c, opts)
			}
			return generateOnce(c, opts)
		},
	}
	flags := c.Flags()
	flags.BoolVar(&opts.Check, "check", false, "write nothing; fail if anything would be written")
	flags.BoolVar(&watch, "watch", false, "generate again after every edit, until interrupted")
	flags.BoolVar(&opts.Lenient, "lenient", false, "only warn of markers that are unknown, misplaced or malformed")
	flags.BoolVar(&opts.AllowFloats, "allow-floats", false, "permit float32 and float64 in API types")
	flags.BoolVar(&opts.EmbeddedObjectMeta, "embedded-object-meta", false, "give metadata inside of objects, as that of pod templates, a schema, so that servers keep it")
	flags.IntVar(&opts.Descriptions.PerField, "max-description", 0, "the most characters of a description in a definition; negative: no descriptions")
	flags.IntVar(&opts.Descriptions.Size, "max-size", 0, "the most bytes of a definition, kept by shortening descriptions (default 1 MiB; kubectl's client-side apply takes 262144)")
	c.MarkFlagsMutuallyExclusive("check", "watch")
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

// settled is how long a project must be left alone before it is looked at again: editors write files in several steps.
const settled = 10 * time.Millisecond

// generateAgain generates now and after every edit. What is wrong with the source is told and waited out.
func generateAgain(c *cobra.Command, opts toolchain.Options) error {
	opts.Cache = &loader.Cache{}
	watch, err := changes.WatchResting(opts.Dir, settled)
	if err != nil {
		return err
	}
	defer watch.Close()
	told := ""
	for {
		began := time.Now()
		result, err := toolchain.Generate(c.Context(), opts)
		took := time.Since(began).Round(100 * time.Microsecond)
		switch {
		case c.Context().Err() != nil:
			return nil
		case err != nil && err.Error() != told:
			fmt.Fprintln(c.ErrOrStderr(), err)
		case err == nil && (told != "" || len(result.Changed()) > 0):
			fmt.Fprintf(c.OutOrStdout(), "%s (%v)\n", generated(result), took)
		}
		if told = ""; err != nil {
			told = err.Error()
		}
		for own := true; own; {
			select {
			case changed := <-watch.C():
				own = err == nil && written(opts.Dir, changed, result)
			case <-c.Context().Done():
				return nil
			}
		}
	}
}

// written says that the files that changed are those that were generated, as they were.
func written(dir string, changed []string, result toolchain.Result) bool {
	for _, name := range changed {
		i := slices.IndexFunc(result.Files, func(f toolchain.File) bool { return f.Path == name })
		if i < 0 {
			return false
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if removed := result.Files[i].Removed; removed != (err != nil) || !bytes.Equal(data, result.Files[i].Content) {
			return false
		}
	}
	return true
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
	var wrote, removed, told []string
	for _, f := range result.Files {
		switch {
		case f.Removed:
			removed = append(removed, f.Path)
		case f.Changed:
			wrote = append(wrote, f.Path)
		}
	}
	if len(wrote) > 0 {
		told = append(told, "generated "+strings.Join(wrote, ", "))
	}
	if len(removed) > 0 {
		told = append(told, "removed "+strings.Join(removed, ", "))
	}
	if len(told) == 0 {
		return fmt.Sprintf("%d generated files are up to date", len(result.Files))
	}
	return strings.Join(told, "; ")
}
