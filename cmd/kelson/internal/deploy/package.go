package deploy

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"kelson.dev/cmd/kelson/internal/deploy/pack"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/toolchain/scaffold"
)

// packaging is a format in which an operator can be packaged.
type packaging struct {
	name, short, output string
	versioned           bool // the format has a version
	sampled             bool // the format contains the samples
	make                func(pack.Operator, string) error
}

var packagings = []packaging{
	{"installer", "Write all manifests to one file for kubectl apply", "install.yaml", false, false,
		func(o pack.Operator, output string) error {
			data, err := pack.Installer(o)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
				return err
			}
			return os.WriteFile(output, data, 0o644)
		}},
	{"helm", "Create a Helm chart with a schema of its values", "chart", true, false, folderOf(pack.Chart)},
	{"olm", "Create a bundle for the Operator Lifecycle Manager", "bundle", true, true, folderOf(pack.Bundle)},
}

func folderOf(files func(pack.Operator) (pack.Files, error)) func(pack.Operator, string) error {
	return func(o pack.Operator, output string) error {
		made, err := files(o)
		if err != nil {
			return err
		}
		return made.Write(output)
	}
}

// PackageCommand returns kelson package.
func PackageCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "package",
		Short: "Package a project as an installer, a Helm chart or an OLM bundle",
		Long: `Package an operator, or a custom API server, as an installer, a Helm chart or an
OLM bundle.

Each command generates the manifests and packages the kustomization
config/default. A custom API server from a package creates its certificate
authority in the cluster when it starts, and writes it to its APIServices.`,
		Args: cobra.NoArgs,
	}
	for _, p := range packagings {
		c.AddCommand(p.command())
	}
	return c
}

func (p packaging) command() *cobra.Command {
	var image, version, output string
	var gens project.Generators
	c := &cobra.Command{
		Use:     p.name + " [DIR]",
		Short:   p.short,
		Example: "  kelson package " + p.name + " --image registry.example/welcome:v0.1.0",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := project.Folder(args)
			if p.versioned && !semver.IsValid("v"+version) {
				return fmt.Errorf("--version %q: must be a semantic version, such as 0.1.0", version)
			}
			if err := project.GenerateManifests(c, dir, gens); err != nil {
				return err
			}
			o, err := readOperator(dir)
			if err != nil {
				return err
			}
			o.Image, o.Version = image, version
			if p.sampled {
				if o.Samples, err = manifests.Samples(dir); err != nil {
					fmt.Fprintf(c.ErrOrStderr(), "warning: the package has no samples: %v\n", err)
				}
			}
			to := output
			if to == "" {
				to = filepath.Join(dir, "dist", p.output)
			}
			if err := p.make(o, to); err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), "wrote", to)
			return nil
		},
	}
	gens.AddFlags(c.Flags())
	gens.AddSkipFlag(c.Flags())
	c.Flags().StringVar(&image, "image", "", "image of the program, instead of "+manifests.Placeholder+":latest")
	if p.versioned {
		c.Flags().StringVar(&version, "version", "0.1.0", "version of the package")
	}
	c.Flags().StringVarP(&output, "output", "o", "", "output path (default dist/"+p.output+
		" in the project); other files in a folder stay")
	return c
}

// readOperator reads the parts of a project that are packaged.
func readOperator(dir string) (o pack.Operator, err error) {
	settings, err := scaffold.ReadProject(dir)
	if other := new(scaffold.VersionError); errors.Is(err, scaffold.ErrNoProject) || errors.As(err, &other) {
		settings, err = &scaffold.Project{}, nil // the manifests are those of any operator
	}
	if err != nil {
		return o, err
	}
	o.Name = settings.Name
	if o.Name == "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return o, err
		}
		o.Name = nameOf(abs)
	}
	if o.Objects, err = manifests.Default(dir); err != nil {
		return o, err
	}
	if settings.IsServer() {
		o.Objects, err = pack.SelfSigned(o.Objects)
	}
	return o, err
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// nameOf returns the name of a project's folder in the form of names of Kubernetes objects and
// charts.
func nameOf(dir string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(filepath.Base(dir)), "-"), "-")
	return cmp.Or(name, "operator")
}
