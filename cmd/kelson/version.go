package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	formats "kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/release"
	"kelson.dev/kubernetes/controlplane"
)

func versionCommand() *cobra.Command {
	var format formats.Format
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of Kelson and of the Kubernetes API it speaks",
		Example: "  kelson version\n  kelson version -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if format != formats.Text {
				return format.Print(c.OutOrStdout(), map[string]string{
					"version": release.Version(), "kubernetes": controlplane.KubernetesVersion, "go": runtime.Version(),
					"platform": platform,
				})
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "kelson %s, Kubernetes API %s, %s %s\n", release.Version(),
				controlplane.KubernetesVersion, runtime.Version(), platform)
			return err
		},
	}
	format.AddFlag(c)
	return c
}
