package upstream

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// Flags returns the flags of kube-apiserver, one per line and sorted: name, shorthand, type and
// default value, separated by tabs.
func Flags() []byte {
	sets := options.NewServerRunOptions().Flags()
	globalflag.AddGlobalFlags(sets.FlagSet("global"), "kube-apiserver")
	all := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, area := range sets.Order {
		all.AddFlagSet(sets.FlagSets[area])
	}
	all.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	var out bytes.Buffer
	all.VisitAll(func(f *pflag.Flag) {
		fmt.Fprintf(&out, "%s\t%s\t%s\t%s\n", f.Name, f.Shorthand, f.Value.Type(),
			strings.ReplaceAll(f.DefValue, "\n", " "))
	})
	return out.Bytes()
}
