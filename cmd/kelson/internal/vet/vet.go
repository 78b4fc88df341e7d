// Package vet implements kelson vet, which checks manifests offline with the API server's own code.
package vet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"kelson.dev/apiserver/fastpath"
	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/usage"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/toolchain/vet"
	"kelson.dev/toolchain/vet/migrate"
)

type options struct {
	against   string
	kustomize []string
	strict    bool
	quiet     bool
	output    output.Format
	migrate   string
}

// Command returns kelson vet.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "vet [PATH...]",
		Short: "Check manifests, definitions and samples offline with the API server's own code",
		Long: `Check manifests, definitions and samples offline with the API server's own code.

PATH is a file, a folder with its subfolders, or - for standard input. The
default is the folder config if it exists, otherwise the current folder. In
folders, it skips kustomizations and their patches, Helm charts, and files that
are not manifests.

It checks each object as an API server does on creation, with strict field
validation: schemas, CEL rules and admission. It warns about objects of kinds that
neither Kubernetes nor one of the files defines. Definitions are checked, and
used, as the kustomization config/crd patches them. It does not call webhooks,
and does not require that the service accounts and classes of a Pod exist.

A table shows the estimated worst-case cost of each CEL rule of a definition. For
expensive rules, it names the missing bounds that cause the cost.

With --against, it compares the definitions with those of another revision of the
git repository. Changes that break stored objects or clients are errors.

With --migrate, it instead reads a Go project that uses controller-runtime, and
reports which code moves to the operator library unchanged, which needs a change,
and which does not move.

The exit code is 1 if there are errors, and with --strict also if there are
warnings. It is 2 if the manifests could not be checked.`,
		Example: `  kelson vet
  kelson vet config/crd config/samples --against v1.2.0
  kelson vet -k config/default
  helm template chart | kelson vet -
  kelson vet --migrate .`,
		RunE: func(c *cobra.Command, args []string) error {
			progress := output.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			err := run(c.Context(), o, args, c.OutOrStdout(), progress)
			if err == nil || errors.As(err, new(exit.Code)) {
				return err
			}
			return &exit.Failure{Code: usage.Code, Err: err}
		},
	}
	c.Flags().StringVar(&o.migrate, "migrate", "",
		"`folder` of a Go project that uses controller-runtime, to report how it moves to the operator library")
	c.Flags().StringVar(&o.against, "against", "", "git `revision` to compare the definitions with")
	c.Flags().StringArrayVarP(&o.kustomize, "kustomize", "k", nil,
		"`folder` of a kustomization to build and check; may be repeated")
	c.Flags().BoolVar(&o.strict, "strict", false, "fail on warnings too")
	c.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "do not print the costs of rules")
	o.output.AddFlag(c)
	return c
}

func run(ctx context.Context, o options, paths []string, out io.Writer, progress *output.Progress) error {
	if o.migrate != "" {
		progress.Step("reading the project %s", o.migrate)
		return reportMigration(ctx, o, paths, out, progress)
	}
	if len(paths) == 0 && len(o.kustomize) == 0 {
		paths = []string{defaultManifests()}
	}
	progress.Step("reading manifests")
	manifests, err := vet.Read(paths...)
	unreadable, err := vet.Unreadable(err)
	if err != nil {
		return err
	}
	for _, dir := range o.kustomize {
		progress.Step("building the kustomization %s", dir)
		built, err := buildKustomization(dir)
		if err != nil {
			return err
		}
		manifests = append(manifests, built...)
	}
	if len(manifests) == 0 && len(unreadable) == 0 {
		return fmt.Errorf("no objects found in %s: name files or folders with manifests", strings.Join(paths, ", "))
	}
	progress.Step("checking %d objects", len(manifests))
	plane, err := controlplane.Start(ctx, planeConfig())
	if err != nil {
		return err
	}
	defer plane.Stop()
	report, err := vet.Check(ctx, plane.RESTConfig(), patched(manifests, paths))
	if err != nil {
		return err
	}
	report.Add(unreadable...)
	report.Sort()
	if o.against != "" {
		progress.Step("reading the definitions of %s", o.against)
		before, err := vet.AtRevision(ctx, ".", o.against, paths...)
		if err != nil {
			return err
		}
		report.Add(vet.Compare(before, manifests.Definitions())...)
		report.Sort()
	}
	progress.Done()
	if err := printReport(out, o, report); err != nil {
		return err
	}
	if report.Count(vet.Error) > 0 || o.strict && report.Count(vet.Warning) > 0 {
		return exit.Code(1)
	}
	return nil
}

// reportMigration prints which changes a move of a project to the operator library needs.
func reportMigration(ctx context.Context, o options, paths []string, out io.Writer, progress *output.Progress) error {
	if len(paths) > 0 || len(o.kustomize) > 0 || o.against != "" || o.strict || o.quiet {
		return errors.New("--migrate cannot be used with PATH, --kustomize, --against, --strict or --quiet: it reads one Go project and no manifests")
	}
	report, err := migrate.Read(ctx, o.migrate)
	progress.Done()
	if err != nil {
		return err
	}
	if o.output != output.Text {
		return o.output.Print(out, report)
	}
	return report.Write(out)
}

// defaultManifests returns the folder of manifests in a project, or the current folder.
func defaultManifests() string {
	if info, err := os.Stat("config"); err == nil && info.IsDir() {
		return "config"
	}
	return "."
}

// planeConfig configures a control plane that checks objects one by one. Admission plugins that
// require the existence of other objects are disabled.
func planeConfig() controlplane.Config {
	return controlplane.Config{
		Controllers: controlplane.NoControllers{}, Log: slog.New(slog.DiscardHandler),
		NoFastPaths: fastpath.DisabledByEnvironment(),
		Admission:   controlplane.Admission{Disable: []string{"ServiceAccount", "Priority", "RuntimeClass"}},
	}
}

func buildKustomization(dir string) (vet.Manifests, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("build kustomization %s: %w", dir, err)
	}
	content, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("build kustomization %s: %w", dir, err)
	}
	return vet.Parse(dir, bytes.TrimSpace(content))
}

func printReport(out io.Writer, o options, report *vet.Report) error {
	if o.output != output.Text {
		if report.Findings == nil {
			report.Findings = []vet.Finding{}
		}
		return o.output.Print(out, report)
	}
	color := output.ColorsFor(out)
	for _, f := range report.Findings {
		line := f.String()
		switch f.Severity {
		case vet.Error:
			line = color.Bad(line)
		case vet.Warning:
			line = color.Warn(line)
		}
		fmt.Fprintln(out, line)
	}
	if len(report.Rules) > 0 && !o.quiet {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "DEFINITION\tVERSION\tFIELD\tRULE\tCOST\tOF %d\n", uint64(vet.RuleLimit))
		for _, r := range report.Rules {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", r.Definition, r.Version, r.Path, vet.Quoted(r.Rule), r.Cost,
				vet.Share(r.Cost))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%d objects: %d errors, %d warnings\n", report.Objects, report.Count(vet.Error),
		report.Count(vet.Warning))
	return err
}
