package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kelson.dev/toolchain/scaffold"
)

func initCommand() *cobra.Command {
	var opts scaffold.InitOptions
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make a project for an operator",
		Long: `Make a project for an operator.

The project is a Go module with the layout of kubebuilder's projects: cmd/main.go,
config with the manifests, a Makefile, a Dockerfile. kelson create api adds kinds
to it. Until Kelson is published, its go.mod points by replace at the source that
this kelson was built from, or that --kelson names.`,
		Example: `  kelson init --domain example.com --repo example.com/welcome
  kelson init welcome --domain example.com --repo example.com/welcome`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			opts.Dir = folder(args)
			checkout, err := scaffold.Checkout(opts.Checkout)
			if err != nil {
				return err
			}
			opts.Checkout = checkout
			changes, err := scaffold.Init(opts)
			if err != nil {
				return err
			}
			report(c.OutOrStdout(), changes)
			if len(changes) > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "go.mod points at Kelson's source in %s until Kelson is published\n", checkout)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&opts.Domain, "domain", "my.domain", "the end of the names of the project's API groups")
	f.StringVar(&opts.Repo, "repo", "", "path of the project's Go module (default: that of the go.mod which is there)")
	f.StringVar(&opts.Name, "project-name", "", "name of the project (default: the folder's)")
	f.StringVar(&opts.Checkout, "kelson", "", "folder with Kelson's source (default: that which this program was built from)")
	return c
}

// folder is the first argument of a command that takes a project's folder; by default the current one.
func folder(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return "."
}

// report tells what was done to a project, a line for each file.
func report(out io.Writer, changes []scaffold.Change) {
	for _, c := range changes {
		fmt.Fprintf(out, "%-8s %s\n", c.What, c.Path)
	}
	if len(changes) == 0 {
		fmt.Fprintln(out, "nothing to change")
	}
}
