package v1beta1

import (
	"kelson.dev/operator"

	restaurantv1beta1 "kelson.dev/examples/pizza/api/v1beta1"
)

// PizzaWebhook returns the part of the operator that serves the admission webhooks of Pizza.
func PizzaWebhook() operator.Part {
	return operator.Webhook[restaurantv1beta1.Pizza](NewPizzaHooks)
}

// PizzaHooks has the methods that the API server calls before it stores Pizza objects.
type PizzaHooks struct{ operator.Deps }

// NewPizzaHooks returns the PizzaHooks of an operator.
func NewPizzaHooks(deps operator.Deps) *PizzaHooks { return &PizzaHooks{deps} }
