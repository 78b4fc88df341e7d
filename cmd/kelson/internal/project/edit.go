package project

import (
	"github.com/spf13/cobra"

	"kelson.dev/toolchain/scaffold"
)

// EditCommand returns kelson edit.
func EditCommand() *cobra.Command {
	var multi bool
	c := &cobra.Command{
		Use:   "edit",
		Short: "Change the settings of a project",
		Long: `Change the settings of the project in the current folder.

With --multigroup, the project can have kinds of several API groups. New kinds go
to a folder per group; existing kinds stay where they are.`,
		Example: `  kelson edit --multigroup`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			changes, err := scaffold.SetMultiGroup(".", multi)
			if err != nil {
				return err
			}
			report(c.OutOrStdout(), changes)
			return nil
		},
	}
	c.Flags().BoolVar(&multi, "multigroup", false, "allow kinds of several API groups")
	_ = c.MarkFlagRequired("multigroup")
	return c
}
