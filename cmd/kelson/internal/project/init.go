package project

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/release"
	"kelson.dev/toolchain/scaffold"
)

// InitCommand returns kelson init.
func InitCommand() *cobra.Command {
	var opts scaffold.InitOptions
	var plugin, checkout string
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Create a project for an operator or a custom API server",
		Long: `Create a project for an operator or, with --plugin apiserver, for a custom API
server.

The project is a Go module: cmd/main.go, config with the manifests, a Makefile
and a Dockerfile. Operators have kubebuilder's layout. Add kinds with
kelson create api.
go.mod requires the modules of this release of kelson. If this kelson is not a
release, a replace directive points to the source from which it was built;
--kelson names another folder with the source.`,
		Example: `  kelson init --domain example.com --repo example.com/welcome
  kelson init welcome --domain example.com --repo example.com/welcome
  kelson init --domain example.com --repo example.com/welcome --license apache2 --owner "Example Inc."
  kelson init pizza --plugin apiserver --domain example.com --repo example.com/pizza`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			opts.Dir = Folder(args)
			switch plugin {
			case "operator":
			case "apiserver":
				opts.Server = true
			default:
				return fmt.Errorf("--plugin %q: known plugins: operator, apiserver", plugin)
			}
			source, err := scaffold.SourceOf(checkout, release.Published())
			if err != nil {
				return err
			}
			opts.Source = source
			changes, err := scaffold.Init(opts)
			if err != nil {
				return err
			}
			report(c.OutOrStdout(), changes)
			if len(changes) > 0 && source.Checkout != "" {
				fmt.Fprintf(c.ErrOrStderr(), "this kelson is not a release: go.mod points to its source in %s\n",
					source.Checkout)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&opts.Domain, "domain", "my.domain", "domain of the project: the last part of its API groups")
	f.StringVar(&opts.Repo, "repo", "", "path of the project's Go module (default: the path in an existing go.mod)")
	f.StringVar(&opts.Name, "project-name", "", "name of the project (default: the name of the folder)")
	f.StringVar(&plugin, "plugin", "operator", "kind of project: operator or apiserver")
	f.StringVar(&opts.License, "license", "none", "license of generated code: apache2, copyright or none")
	f.StringVar(&opts.Owner, "owner", "", "owner of the copyright, for the license")
	f.StringVar(&checkout, "kelson", "", "folder with Kelson's source (default: the published version of this program or, if it is not a release, its source)")
	return c
}

// Folder returns the project's folder: the first of args, or the current folder.
func Folder(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return "."
}

// report prints the changes of a project, one line per file.
func report(out io.Writer, changes []scaffold.Change) {
	for _, c := range changes {
		fmt.Fprintf(out, "%-8s %s\n", c.What, c.Path)
	}
	if len(changes) == 0 {
		fmt.Fprintln(out, "nothing to change")
	}
}
