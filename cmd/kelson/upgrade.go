package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kelson.dev/toolchain/scaffold"
)

func upgradeCommand() *cobra.Command {
	var given string
	var force bool
	c := &cobra.Command{
		Use:   "upgrade [DIR]",
		Short: "Move a project to the present version of what projects are made of",
		Long: `Move a project to the present version of what projects are made of.

Every file is merged three ways: what kelson made once, what it would make today,
and what you made of it. Where both sides changed the same lines, the file has
both, with marks as git makes them, and the exit code is 1. go.mod is brought to
what this kelson needs, unless the project is a part of a larger module. The
project must be in git with nothing uncommitted, so that all of it can be undone.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			checkout, err := scaffold.Checkout(given)
			if err != nil {
				return err
			}
			done, err := scaffold.Upgrade(folder(args), checkout, force)
			if err != nil {
				return err
			}
			report(c.OutOrStdout(), done.Changes)
			if len(done.Conflicts) > 0 {
				return fmt.Errorf("both sides changed the same lines of %s: look for the marks <<<<<<< and >>>>>>>", strings.Join(done.Conflicts, ", "))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&given, "kelson", "", "folder with Kelson's source (default: that which this program was built from)")
	f.BoolVar(&force, "force", false, "also where it could not be undone")
	return c
}
