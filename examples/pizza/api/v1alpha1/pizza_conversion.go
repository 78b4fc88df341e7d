package v1alpha1

import (
	"fmt"

	"kelson.dev/operator/webhook"

	restaurantv1beta1 "kelson.dev/examples/pizza/api/v1beta1"
)

// ConvertTo counts how often a topping stands there.
func (src *Pizza) ConvertTo(hub webhook.Hub) error {
	dst, ok := hub.(*restaurantv1beta1.Pizza)
	if !ok {
		return fmt.Errorf("%T is not the hub of Pizza", hub)
	}
	dst.ObjectMeta = src.ObjectMeta
	at := map[string]int{}
	for _, name := range src.Spec.Toppings {
		if i, there := at[name]; there {
			dst.Spec.Toppings[i].Quantity++
			continue
		}
		at[name] = len(dst.Spec.Toppings)
		dst.Spec.Toppings = append(dst.Spec.Toppings, restaurantv1beta1.PizzaTopping{Name: name, Quantity: 1})
	}
	dst.Status = restaurantv1beta1.PizzaStatus(src.Status)
	return nil
}

// ConvertFrom writes down a topping as often as there is of it.
func (dst *Pizza) ConvertFrom(hub webhook.Hub) error {
	src, ok := hub.(*restaurantv1beta1.Pizza)
	if !ok {
		return fmt.Errorf("%T is not the hub of Pizza", hub)
	}
	dst.ObjectMeta = src.ObjectMeta
	for _, topping := range src.Spec.Toppings {
		for range topping.Quantity {
			dst.Spec.Toppings = append(dst.Spec.Toppings, topping.Name)
		}
	}
	dst.Status = PizzaStatus(src.Status)
	return nil
}
