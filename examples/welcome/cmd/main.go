// Command welcome is the operator.
package main

import (
	webappv1 "kelson.dev/examples/welcome/api/v1"
	"kelson.dev/examples/welcome/internal/controller"
	"kelson.dev/operator"
)

// What every operator here may do: tell of what it does.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

func main() {
	operator.Main(
		operator.Name("welcome"),
		operator.AddToScheme(webappv1.AddToScheme),
		controller.WelcomeController(),
	)
}
