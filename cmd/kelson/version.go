package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	formats "kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/kubernetes/controlplane"
)

func versionCommand() *cobra.Command {
	var format formats.Format
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of Kelson and of the Kubernetes API it speaks",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if format != formats.Text {
				return format.Print(c.OutOrStdout(), map[string]string{
					"version": ownVersion(), "kubernetes": controlplane.KubernetesVersion, "go": runtime.Version(), "platform": platform,
				})
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "kelson %s, Kubernetes API %s, %s %s\n", ownVersion(), controlplane.KubernetesVersion, runtime.Version(), platform)
			return err
		},
	}
	format.AddFlag(c)
	return c
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
