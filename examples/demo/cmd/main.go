// Command demo is an operator for a kind without Go types.
package main

import (
	"kelson.dev/examples/demo/internal/demo"
	"kelson.dev/operator"
)

// Every operator may record events.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

func main() {
	operator.Main(
		operator.Name("demo"),
		operator.AddToScheme(demo.AddToScheme),
		demo.Controller(),
		demo.Conversion(),
	)
}
