// Command simpledeployment is the operator.
package main

import (
	appsv1 "kelson.dev/examples/rights-test-1824627127/api/v1"
	"kelson.dev/examples/rights-test-1824627127/internal/controller"
	"kelson.dev/operator"
)

// Every operator may record events.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

func main() {
	operator.Main(
		operator.Name("simpledeployment"),
		operator.AddToScheme(appsv1.AddToScheme),
		controller.SimpleDeploymentController(),
	)
}
