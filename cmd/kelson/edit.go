package main

import (
	"github.com/spf13/cobra"

	"kelson.dev/toolchain/scaffold"
)

func editCommand() *cobra.Command {
	var multi bool
	c := &cobra.Command{
		Use:   "edit",
		Short: "Change the settings of a project",
		Long: `Change the settings of the project in the current folder.

With --multigroup it may have kinds of several API groups. New ones are put into
folders by group; those that are there stay where they are.`,
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
	c.Flags().BoolVar(&multi, "multigroup", false, "kinds of several API groups are allowed")
	_ = c.MarkFlagRequired("multigroup")
	return c
}
