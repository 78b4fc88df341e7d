// Command home is the operator.
package main

import (
	ajdv1 "kelson.dev/examples/home/api/v1"
	"kelson.dev/examples/home/internal/controller"
	"kelson.dev/operator"
)

// Every operator may record events.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

func main() {
	operator.Main(
		operator.Name("home"),
		operator.AddToScheme(ajdv1.AddToScheme),
		controller.HomeController(),
	)
}
