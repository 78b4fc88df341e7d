// Command projectconfig is an operator that is configured by a file.
package main

import (
	configv2 "kelson.dev/examples/projectconfig/api/v2"
	"kelson.dev/examples/projectconfig/internal/cluster"
	"kelson.dev/examples/projectconfig/internal/config"
	"kelson.dev/operator"
)

// Every operator may record events.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

func main() {
	file := &config.File{}
	operator.Main(
		operator.Name("projectconfig"),
		operator.AddToScheme(configv2.AddToScheme),
		operator.Flags(file.Register),
		operator.Configure(file.Configure),
		operator.Parts(func(*operator.Config) ([]operator.Part, error) {
			return []operator.Part{cluster.Naming(file.Spec.ClusterName)}, nil
		}),
	)
}
