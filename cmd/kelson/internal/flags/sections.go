// Package flags defines the flags of a control plane in groups that several commands share. Flags
// that kube-apiserver or kube-controller-manager also have keep their names and meaning.
//
// Each group has AddFlags, which registers its flags, and Apply, which validates them and copies
// them to a controlplane.Config. A group whose AddFlags was not called applies nothing.
package flags

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/flagz"
	cliflag "k8s.io/component-base/cli/flag"
)

// Sections groups the flags of a command by area, as the help of kube-apiserver does.
type Sections struct{ cliflag.NamedFlagSets }

// Area returns the flags of an area. The help shows areas in the order of the first calls.
func (s *Sections) Area(area string) *pflag.FlagSet { return s.FlagSet(area) }

// Values returns the values of all flags, by name, as /flagz shows them.
func (s *Sections) Values() map[string]string {
	return flagz.NamedFlagSetsReader{FlagSets: s.NamedFlagSets}.GetFlagz()
}

// AddTo adds all flags to c and makes its help show them by area.
func (s *Sections) AddTo(c *cobra.Command) {
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
