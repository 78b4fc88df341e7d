package project

import (
	"github.com/spf13/cobra"

	"kelson.dev/toolchain/scaffold"
)

// DeleteCommand returns kelson delete.
func DeleteCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "delete",
		Short: "Remove a kind from a project",
	}
	c.AddCommand(deleteAPICommand())
	return c
}

func deleteAPICommand() *cobra.Command {
	var group, version, kind string
	var force, generate, yes bool
	c := &cobra.Command{
		Use:   "api",
		Short: "Remove what create api and create webhook added for a version of a kind",
		Long: `Remove what create api and create webhook added for a version of a kind.

Files that you changed are deleted only if they are committed to git, or with
--force. If the kind has other versions, its controller stays and uses one of
them; a controller that you changed must use one of them already. Before the
storage version can be deleted, another version needs the marker
+kubebuilder:storageversion, unless only one remains.`,
		Example: `  kelson delete api --group webapp --version v1 --kind Welcome`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			changes, err := scaffold.DeleteAPI(".", group, version, kind, force)
			if err != nil {
				return err
			}
			report(c.OutOrStdout(), changes)
			return regenerate(c.Context(), c.OutOrStdout(), generate && len(changes) > 0)
		},
	}
	addKindFlags(c, &group, &version, &kind)
	f := c.Flags()
	f.BoolVar(&force, "force", false, "also delete files with uncommitted changes")
	f.BoolVar(&generate, "make", true, "run the generators for the remaining kinds")
	f.BoolVarP(&yes, "yes", "y", false, "")
	// scripts for kubebuilder pass -y to skip a confirmation; kelson does not ask for one
	_ = f.MarkHidden("yes")
	return c
}
