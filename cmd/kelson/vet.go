package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"kelson.dev/apiserver/fastpath"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/toolchain/vet"
)

type vetOptions struct {
	against   string
	kustomize []string
	strict    bool
	quiet     bool
	output    string
}

func vetCommand() *cobra.Command {
	var o vetOptions
	c := &cobra.Command{
		Use:   "vet [PATH...]",
		Short: "Check manifests, definitions and samples offline, with the server's own engine",
		Long: `Check manifests, definitions and samples offline, with the server's own engine.

PATH is a file, a folder (with those below it), or - for the standard input; by
default config, if there is such a folder, else the current one. In folders,
kustomizations and their patches, Helm charts and what is no object are left out.

Each object is judged as an API server judges it when it is created, with strict
field validation: schemas, CEL rules, admission. Objects of kinds that neither
Kubernetes nor one of the files defines are named with a warning. Webhooks are not
asked, and service accounts and classes that a Pod names need not be there.

For each CEL rule of a definition a table shows what it may cost at worst; where
that is much, the bounds are named whose absence makes it so.

With --against, the definitions are compared with those of another revision of the
git repository: changes that break stored objects or clients are errors.

The exit code is 1 when there are errors, with --strict also when there are warnings.`,
		Example: `  kelson vet
  kelson vet config/crd config/samples --against v1.2.0
  kelson vet -k config/default
  helm template chart | kelson vet -`,
		RunE: func(c *cobra.Command, args []string) error { return runVet(c.Context(), o, args, c.OutOrStdout()) },
	}
	c.Flags().StringVar(&o.against, "against", "", "`revision` of the git repository to compare the definitions with")
	c.Flags().StringArrayVarP(&o.kustomize, "kustomize", "k", nil, "`folder` of a kustomization to build and check; may be given several times")
	c.Flags().BoolVar(&o.strict, "strict", false, "fail upon warnings, too")
	c.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "show no costs of rules")
	c.Flags().StringVarP(&o.output, "output", "o", "text", "`format` of the findings: text or json")
	return c
}

func runVet(ctx context.Context, o vetOptions, paths []string, out io.Writer) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("invalid value %q for --output: want text or json", o.output)
	}
	if len(paths) == 0 && len(o.kustomize) == 0 {
		paths = []string{defaultManifests()}
	}
	manifests, err := vet.Read(paths...)
	if err != nil {
		return err
	}
	for _, dir := range o.kustomize {
		built, err := buildKustomization(dir)
		if err != nil {
			return err
		}
		manifests = append(manifests, built...)
	}
	if len(manifests) == 0 {
		return fmt.Errorf("there are no objects in %v", paths)
	}
	plane, err := controlplane.Start(ctx, vetPlane())
	if err != nil {
		return err
	}
	defer plane.Stop()
	report, err := vet.Ask(ctx, plane.RESTConfig(), manifests)
	if err != nil {
		return err
	}
	if o.against != "" {
		before, err := vet.AtRevision(ctx, ".", o.against, paths...)
		if err != nil {
			return err
		}
		report.Add(vet.Compare(before, manifests.Definitions())...)
		report.Sort()
	}
	if err := printVet(out, o, report); err != nil {
		return err
	}
	if report.Count(vet.Error) > 0 || o.strict && report.Count(vet.Warning) > 0 {
		return exitCode(1)
	}
	return nil
}

// defaultManifests is where projects keep theirs.
func defaultManifests() string {
	if info, err := os.Stat("config"); err == nil && info.IsDir() {
		return "config"
	}
	return "."
}

// vetPlane is a control plane that judges objects one by one. Plugins that want other objects to be there are off.
func vetPlane() controlplane.Config {
	return controlplane.Config{
		NoControllers: true, NodeLease: -1, Log: slog.New(slog.DiscardHandler), NoFastPaths: fastpath.DisabledByEnvironment(),
		Admission: controlplane.Admission{Disable: []string{"ServiceAccount", "Priority", "RuntimeClass"}},
	}
}

func buildKustomization(dir string) (vet.Manifests, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("build the kustomization %s: %w", dir, err)
	}
	content, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("build the kustomization %s: %w", dir, err)
	}
	return vet.Parse(dir, bytes.TrimSpace(content))
}

func printVet(out io.Writer, o vetOptions, report *vet.Report) error {
	if o.output == "json" {
		if report.Findings == nil {
			report.Findings = []vet.Finding{}
		}
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	for _, f := range report.Findings {
		fmt.Fprintln(out, f)
	}
	if len(report.Rules) > 0 && !o.quiet {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "DEFINITION\tVERSION\tFIELD\tRULE\tCOST\tOF %d\n", uint64(vet.RuleLimit))
		for _, r := range report.Rules {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", r.Definition, r.Version, r.Path, vet.Quoted(r.Rule), r.Cost, vet.Share(r.Cost))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%d objects: %d errors, %d warnings\n", report.Objects, report.Count(vet.Error), report.Count(vet.Warning))
	return err
}
