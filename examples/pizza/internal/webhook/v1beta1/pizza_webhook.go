package v1beta1

import (
	"kelson.dev/operator"

	restaurantv1beta1 "kelson.dev/examples/pizza/api/v1beta1"
)

// PizzaWebhook is the part of the operator that takes part when Pizza objects are written.
func PizzaWebhook() operator.Part {
	return operator.Webhook[restaurantv1beta1.Pizza](NewPizzaHooks)
}

// PizzaHooks are called by the API server before it stores Pizza objects.
type PizzaHooks struct{ operator.Deps }

// NewPizzaHooks makes them.
func NewPizzaHooks(deps operator.Deps) *PizzaHooks { return &PizzaHooks{deps} }
