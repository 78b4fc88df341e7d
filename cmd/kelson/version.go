package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"kelson.dev/kubernetes/controlplane"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of Kelson and of the Kubernetes API it speaks",
		Args:  cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) {
			fmt.Fprintf(c.OutOrStdout(), "kelson %s, Kubernetes API %s, %s %s/%s\n",
				ownVersion(), controlplane.KubernetesVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

// ownVersion returns the version of the module or, for a development build, the git revision.
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
