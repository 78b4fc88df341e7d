package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"kelson.dev/cmd/kelson/internal/release"
)

func manCommand() *cobra.Command {
	var date string
	c := &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands",
		Long: `Write the manual pages of all commands to a folder, such as
~/.local/share/man/man1. Use a folder without other pages.`,
		Example: "  kelson man ~/.local/share/man/man1",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			at, err := time.Parse(time.DateOnly, date)
			if err != nil {
				return fmt.Errorf("--date: %w", err)
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "kelson " + release.Version(),
				Manual: "Kelson", Date: &at}, args[0])
		},
	}
	c.Flags().StringVar(&date, "date", time.Now().UTC().Format(time.DateOnly), "date in the pages")
	c.Flag("date").DefValue = "today"
	return c
}
