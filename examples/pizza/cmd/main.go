// Command pizza is the operator.
package main

import (
	restaurantv1alpha1 "kelson.dev/examples/pizza/api/v1alpha1"
	restaurantv1beta1 "kelson.dev/examples/pizza/api/v1beta1"
	"kelson.dev/examples/pizza/internal/controller"
	webhookrestaurantv1beta1 "kelson.dev/examples/pizza/internal/webhook/v1beta1"
	"kelson.dev/operator"
)

// Every operator may record events.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

func main() {
	operator.Main(
		operator.Name("pizza"),
		operator.AddToScheme(restaurantv1alpha1.AddToScheme, restaurantv1beta1.AddToScheme),
		controller.PizzaController(),
		controller.PizzasByTopping(),
		webhookrestaurantv1beta1.PizzaWebhook(),
		operator.Conversion[restaurantv1beta1.Pizza](),
	)
}
