package main

import (
	"github.com/spf13/cobra"

	"kelson.dev/toolchain/scaffold"
)

func deleteCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "delete",
		Short: "Take a kind out of a project",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(deleteAPICommand())
	return c
}

func deleteAPICommand() *cobra.Command {
	var group, version, kind string
	var force, generate, yes bool
	c := &cobra.Command{
		Use:   "api",
		Short: "Take back what create api and create webhook made for a version of a kind",
		Long: `Take back what create api and create webhook made for a version of a kind.

Files that were changed since are deleted only if git has them, or with --force.`,
		Example: `  kelson delete api --group webapp --version v1 --kind Welcome`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			changes, err := scaffold.DeleteAPI(".", group, version, kind, force)
			if err != nil {
				return err
			}
			report(c.OutOrStdout(), changes)
			return follow(c.Context(), c.OutOrStdout(), generate && len(changes) > 0)
		},
	}
	addKindFlags(c, &group, &version, &kind)
	f := c.Flags()
	f.BoolVar(&force, "force", false, "delete also what was changed and is not committed")
	f.BoolVar(&generate, "make", true, "generate anew what follows from the kinds that are left")
	f.BoolVarP(&yes, "yes", "y", false, "")
	_ = f.MarkHidden("yes") // kubebuilder's users give it: nothing is asked here
	return c
}
