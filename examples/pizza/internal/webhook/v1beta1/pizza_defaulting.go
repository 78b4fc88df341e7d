package v1beta1

import (
	"context"

	"kelson.dev/operator/webhook"

	restaurantv1beta1 "kelson.dev/examples/pizza/api/v1beta1"
)

// +kubebuilder:webhook:path=/mutate-restaurant-programming-kubernetes-info-v1beta1-pizza,mutating=true,failurePolicy=fail,sideEffects=None,groups=restaurant.programming-kubernetes.info,resources=pizzas,verbs=create;update,versions=v1beta1,name=mpizza-v1beta1.kb.io,admissionReviewVersions=v1

var _ webhook.Defaulter[restaurantv1beta1.Pizza] = (*PizzaHooks)(nil)

// Default adds the default toppings to a pizza without toppings.
func (h *PizzaHooks) Default(_ context.Context, pizza *restaurantv1beta1.Pizza) error {
	if len(pizza.Spec.Toppings) == 0 {
		for _, name := range []string{"tomato", "mozzarella", "salami"} {
			pizza.Spec.Toppings = append(pizza.Spec.Toppings, restaurantv1beta1.PizzaTopping{Name: name, Quantity: 1})
		}
	}
	return nil
}
