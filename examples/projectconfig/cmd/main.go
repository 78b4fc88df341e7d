// Command projectconfig is an operator that is configured by a file.
package main

import (
	"fmt"
	"os"

	configv2 "kelson.dev/examples/projectconfig/api/v2"
	"kelson.dev/examples/projectconfig/internal/cluster"
	"kelson.dev/examples/projectconfig/internal/config"
	"kelson.dev/operator"
)

// Every operator may record events.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

func main() {
	cfg, args, err := config.FromArgs(os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Args = args
	operator.Main(
		operator.Name("projectconfig"),
		operator.AddToScheme(configv2.AddToScheme),
		cluster.Naming(cfg.Spec.ClusterName),
	)
}
