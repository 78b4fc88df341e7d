// Command welcome is the operator.
package main

import (
	webappv1 "kelson.dev/examples/welcome/api/v1"
	"kelson.dev/examples/welcome/internal/controller"
	"kelson.dev/operator"
)

// Every operator may record events.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

func main() {
	operator.Main(
		operator.Name("welcome"),
		operator.AddToScheme(webappv1.AddToScheme),
		controller.WelcomeController(),
	)
}
