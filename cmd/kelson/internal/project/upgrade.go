package project

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/release"
	"kelson.dev/toolchain/scaffold"
)

// UpgradeCommand returns kelson upgrade.
func UpgradeCommand() *cobra.Command {
	var given string
	var force bool
	c := &cobra.Command{
		Use:   "upgrade [DIR]",
		Short: "Update a project's generated files to this version of kelson",
		Long: `Update a project's generated files to this version of kelson.

It merges every file three ways: the version that kelson created originally, the
version that it would create today, and yours. If both sides changed the same
lines, the file gets conflict markers as in git, and the exit code is 1. It
updates go.mod to what this kelson needs, unless the project is part of a larger
module. The project must be in git without uncommitted changes, so that you can
undo the upgrade.`,
		Example: "  kelson upgrade\n  kelson upgrade ./welcome",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			source, err := scaffold.SourceOf(given, release.Published())
			if err != nil {
				return err
			}
			done, err := scaffold.Upgrade(Folder(args), source, force)
			if err != nil {
				return err
			}
			report(c.OutOrStdout(), done.Changes)
			if len(done.Conflicts) > 0 {
				return fmt.Errorf("merge conflicts in %s: resolve the lines between <<<<<<< and >>>>>>>",
					strings.Join(done.Conflicts, ", "))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&given, "kelson", "", "folder with Kelson's source (default: the published version of this program or, if it is not a release, its source)")
	f.BoolVar(&force, "force", false, "upgrade even if it cannot be undone with git")
	return c
}
