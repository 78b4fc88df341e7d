package v1alpha1

import (
	"fmt"

	"kelson.dev/operator/webhook"

	restaurantv1beta1 "kelson.dev/examples/pizza/api/v1beta1"
)

// ConvertTo converts repeated toppings to quantities.
func (p *Pizza) ConvertTo(hub webhook.Hub) error {
	dst, ok := hub.(*restaurantv1beta1.Pizza)
	if !ok {
		return fmt.Errorf("%T is not the hub of Pizza", hub)
	}
	dst.ObjectMeta = p.ObjectMeta
	at := map[string]int{}
	for _, name := range p.Spec.Toppings {
		if i, ok := at[name]; ok {
			dst.Spec.Toppings[i].Quantity++
			continue
		}
		at[name] = len(dst.Spec.Toppings)
		dst.Spec.Toppings = append(dst.Spec.Toppings, restaurantv1beta1.PizzaTopping{Name: name, Quantity: 1})
	}
	dst.Status = restaurantv1beta1.PizzaStatus(p.Status)
	return nil
}

// ConvertFrom converts quantities to repeated toppings.
func (p *Pizza) ConvertFrom(hub webhook.Hub) error {
	src, ok := hub.(*restaurantv1beta1.Pizza)
	if !ok {
		return fmt.Errorf("%T is not the hub of Pizza", hub)
	}
	p.ObjectMeta = src.ObjectMeta
	for _, topping := range src.Spec.Toppings {
		for range topping.Quantity {
			p.Spec.Toppings = append(p.Spec.Toppings, topping.Name)
		}
	}
	p.Status = PizzaStatus(src.Status)
	return nil
}
