package project

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

	"kelson.dev/cmd/kelson/internal/filewatch"
	"kelson.dev/toolchain"
	"kelson.dev/toolchain/adopt"
	"kelson.dev/toolchain/loader"
)

// GenerateCommand returns kelson generate.
func GenerateCommand() *cobra.Command {
	gens := Generators{}
	opts := &gens.Own
	var watch, check bool
	c := &cobra.Command{
		Use:   "generate [GENERATOR…] [paths=PATTERN] [DIR]",
		Short: "Generate code and manifests from Go types and their markers",
		Long: `Generate code and manifests from Go types and their markers.

It reads the markers (+kubebuilder:…, +k8s:…, +genclient…, +kelson:…) in the
packages below DIR and writes the output of the named generators. By default, it
runs object, crd, rbac, webhook, and the generators that a package requests with
+kelson:generate=NAME;NAME in its doc.go. For packages of custom API servers it
also runs validation and lifecycle.

` + generatorTable() + `
It writes only files whose content changes, and writes nothing if there is an
error. It runs no other programs.

Arguments of controller-gen select packages, options and outputs:
paths=./api/..., crd:maxDescLen=0, rbac:roleName=NAME, output:crd:dir=DIR. In a
project that Kelson did not create, kelson without such arguments uses those in
the project's Makefile and scripts, or its file .kelson.yaml. There,
mistakes in markers are only warnings, as far as controller-gen accepts them, and
files that already mean the same are not rewritten.`,
		Example: `  kelson generate                       # the project here
  kelson generate --check               # for CI: fail if any file is out of date
  kelson generate crd rbac ../other     # only these, for another project
  kelson generate --watch               # again after every edit
  kelson generate crd paths=./api/...   # only these packages`,
		RunE: func(c *cobra.Command, args []string) error {
			names, dir, options, err := generateArgs(args)
			if err != nil {
				return err
			}
			if len(options) > 0 {
				// an output without a generator applies to all manifests
				names = slices.DeleteFunc(names, func(n string) bool {
					manifests := n == "crd" || n == "rbac" || n == "webhook"
					if manifests {
						options = append(options, n)
					}
					return manifests
				})
				parsed, err := adopt.Parse(options)
				if err != nil {
					return err
				}
				if err := parsed.Unsupported(); err != nil {
					return err
				}
				parsed.Apply(opts)
				names = append(names, parsed.Generators...)
			}
			opts.Check = check
			plan, err := gens.Plan(dir, names)
			if err != nil {
				return err
			}
			if plan.Empty() {
				return errors.New(strings.Join(plan.Notes, "\n"))
			}
			plan.Print(c.ErrOrStderr())
			debug.SetGCPercent(400) // most allocations live until the end
			if watch {
				return generateOnChange(c, dir, plan)
			}
			return generateOnce(c, dir, plan)
		},
	}
	flags := c.Flags()
	flags.BoolVar(&check, "check", false, "write nothing; fail if any file is out of date")
	flags.BoolVar(&watch, "watch", false, "generate again after every edit, until interrupted")
	flags.BoolVar(&opts.Lenient, "lenient", false, "only warn about markers that are unknown, misplaced or malformed")
	flags.BoolVar(&opts.AllowFloats, "allow-floats", false, "allow float32 and float64 in API types")
	flags.BoolVar(&opts.EmbeddedObjectMeta, "embedded-object-meta", false,
		"generate a schema for nested metadata, such as that of pod templates, so that servers do not prune it")
	flags.IntVar(&opts.Descriptions.PerField, "max-description", 0,
		"maximum length of a description in a definition; 0: no limit; negative: no descriptions")
	flags.IntVar(&opts.Descriptions.Size, "max-size", 0,
		"maximum size of a definition in bytes; descriptions are shortened to keep it (default 1 MiB; client-side kubectl apply needs at most 262144)")
	gens.AddFlags(flags)
	c.MarkFlagsMutuallyExclusive("check", "watch")
	c.MarkFlagsMutuallyExclusive("strict", "lenient")
	return c
}

// generatorTable returns the list of generators for the help.
func generatorTable() string {
	var b strings.Builder
	for _, g := range toolchain.Generators() {
		fmt.Fprintf(&b, "  %-19s %s\n", g.Name, g.Doc)
	}
	return b.String()
}

// generateArgs separates the names of generators and the arguments of controller-gen from the
// directory, which comes last.
func generateArgs(args []string) (names []string, dir string, options []string, err error) {
	known := func(s string) bool {
		return slices.ContainsFunc(toolchain.Generators(), func(g toolchain.Generator) bool { return g.Name == s })
	}
	dir = "."
	for i, a := range args {
		switch {
		case known(a):
			names = append(names, a)
		case adopt.IsArgument(a):
			options = append(options, a)
		case i == len(args)-1:
			if st, err := os.Stat(a); err != nil || !st.IsDir() {
				return nil, "", nil, fmt.Errorf("%q is neither a generator nor a directory; see kelson generate --help",
					a)
			}
			dir = a
		default:
			return nil, "", nil, fmt.Errorf("unknown generator %q; see kelson generate --help", a)
		}
	}
	return names, dir, options, nil
}

// pause is how long no file must change before the project is generated again: editors write files
// in several steps.
const pause = 10 * time.Millisecond

// generateOnChange generates now and after every edit. It prints errors in the source and waits for
// the next edit.
func generateOnChange(c *cobra.Command, dir string, plan Generation) error {
	plan = plan.WithCache(&loader.Cache{})
	watch, err := filewatch.WatchPause(dir, pause)
	if err != nil {
		return err
	}
	defer watch.Close()
	reported := ""
	for {
		began := time.Now()
		result, err := plan.Run(c.Context())
		took := time.Since(began).Round(100 * time.Microsecond)
		switch {
		case c.Context().Err() != nil:
			return nil
		case err != nil && err.Error() != reported:
			fmt.Fprintln(c.ErrOrStderr(), err)
		case err == nil && (reported != "" || len(result.Changed()) > 0):
			fmt.Fprintf(c.OutOrStdout(), "%s (%v)\n", generated(result), took)
		}
		if reported = ""; err != nil {
			reported = err.Error()
		}
		for onlyOwnWrites := true; onlyOwnWrites; {
			select {
			case changed := <-watch.C():
				onlyOwnWrites = err == nil && written(dir, changed, result)
			case <-c.Context().Done():
				return nil
			}
		}
	}
}

// written reports whether all changed files have the content that the last generation wrote.
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

func generateOnce(c *cobra.Command, dir string, plan Generation) error {
	result, err := plan.Run(c.Context())
	for _, w := range result.Warnings {
		fmt.Fprintln(c.ErrOrStderr(), "warning:", w)
	}
	if errors.Is(err, toolchain.ErrStale) {
		return fmt.Errorf("%w (run kelson generate %s)", err, dir)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), generated(result))
	return nil
}

// generated summarizes a result in one line.
func generated(result toolchain.Result) string {
	var wrote, removed, parts []string
	for _, f := range result.Files {
		switch {
		case f.Removed:
			removed = append(removed, f.Path)
		case f.Changed:
			wrote = append(wrote, f.Path)
		}
	}
	if len(wrote) > 0 {
		parts = append(parts, "generated "+strings.Join(wrote, ", "))
	}
	if len(removed) > 0 {
		parts = append(parts, "removed "+strings.Join(removed, ", "))
	}
	if len(result.Files) == 0 {
		return "nothing to generate: no package has kinds, roles, webhooks or types to copy"
	}
	if len(parts) == 0 {
		return fmt.Sprintf("%d generated files are up to date", len(result.Files))
	}
	return strings.Join(parts, "; ")
}
