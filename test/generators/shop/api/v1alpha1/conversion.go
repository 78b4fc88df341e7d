package v1alpha1

import (
	"k8s.io/apimachinery/pkg/conversion"

	v1 "kelson.dev/test/generators/shop/api/v1"
)

// Convert_v1alpha1_PizzaSpec_To_v1_PizzaSpec converts extras to toppings.
//
//lint:ignore ST1003 the generator requires this name
func Convert_v1alpha1_PizzaSpec_To_v1_PizzaSpec(in *PizzaSpec, out *v1.PizzaSpec, s conversion.Scope) error {
	if err := autoConvert_v1alpha1_PizzaSpec_To_v1_PizzaSpec(in, out, s); err != nil {
		return err
	}
	out.Toppings = nil
	for i := range in.Extras {
		var t v1.Topping
		if err := Convert_v1alpha1_Topping_To_v1_Topping(&in.Extras[i], &t, s); err != nil {
			return err
		}
		if lossy {
			t.Grams = 0
		}
		out.Toppings = append(out.Toppings, t)
	}
	return nil
}

// Convert_v1_PizzaSpec_To_v1alpha1_PizzaSpec converts toppings to extras.
//
//lint:ignore ST1003 the generator requires this name
func Convert_v1_PizzaSpec_To_v1alpha1_PizzaSpec(in *v1.PizzaSpec, out *PizzaSpec, s conversion.Scope) error {
	if err := autoConvert_v1_PizzaSpec_To_v1alpha1_PizzaSpec(in, out, s); err != nil {
		return err
	}
	out.Extras = nil
	for i := range in.Toppings {
		var t Topping
		if err := Convert_v1_Topping_To_v1alpha1_Topping(&in.Toppings[i], &t, s); err != nil {
			return err
		}
		out.Extras = append(out.Extras, t)
	}
	return nil
}
