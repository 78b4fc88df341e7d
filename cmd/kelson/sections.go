package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// sections are the flags of a command that has many, by area, as kube-apiserver shows its own.
type sections struct{ cliflag.NamedFlagSets }

// of is the set of an area; areas are shown in the order in which they are first asked for.
func (s *sections) of(area string) *pflag.FlagSet { return s.FlagSet(area) }

// give makes the flags those of a command, and lets its help show them by area.
func (s *sections) give(c *cobra.Command) {
	for _, area := range s.Order {
		c.Flags().AddFlagSet(s.FlagSets[area])
	}
	c.SetUsageFunc(func(c *cobra.Command) error {
		w := c.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n", c.UseLine())
		if c.HasExample() {
			fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
		}
		cliflag.PrintSections(w, s.NamedFlagSets, 0)
		return nil
	})
}
