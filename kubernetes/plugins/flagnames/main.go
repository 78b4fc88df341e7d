// Flagnames writes the flags of kube-apiserver of the linked Kubernetes version, one per line:
// name, shorthand, type and default value, separated by tabs.
//
//	flagnames FILE
package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: flagnames FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], table(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func table() []byte {
	sets := options.NewServerRunOptions().Flags()
	globalflag.AddGlobalFlags(sets.FlagSet("global"), "kube-apiserver")
	all := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, area := range sets.Order {
		all.AddFlagSet(sets.FlagSets[area])
	}
	all.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	var out bytes.Buffer
	all.VisitAll(func(f *pflag.Flag) {
		fmt.Fprintf(&out, "%s\t%s\t%s\t%s\n", f.Name, f.Shorthand, f.Value.Type(), strings.ReplaceAll(f.DefValue, "\n", " "))
	})
	return out.Bytes()
}
