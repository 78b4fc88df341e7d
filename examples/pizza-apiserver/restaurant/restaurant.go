// Package restaurant has the rules of pizzas and toppings. The Go types are those of the example
// pizza, which serves them as custom resources with webhooks.
package restaurant

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver"

	"kelson.dev/examples/pizza/api/v1alpha1"
	"kelson.dev/examples/pizza/api/v1beta1"
)

// API describes the server.
func API() apiserver.Part {
	return apiserver.Parts(
		apiserver.Group("restaurant.programming-kubernetes.info",
			apiserver.Kind(&v1beta1.Pizza{}, apiserver.Version(&v1alpha1.Pizza{}),
				apiserver.ListMap("spec.toppings", "name"), Pizzas{}),
			apiserver.Kind(&v1alpha1.Topping{}, apiserver.ClusterScoped(), Toppings{})),
		apiserver.Admission(ToppingsExist),
		apiserver.Admission(ToppingUnused, admission.Delete),
	)
}

// Pizzas has the rules that concern only one pizza.
type Pizzas struct{}

// Default adds the default toppings to a pizza without toppings.
func (Pizzas) Default(p *v1beta1.Pizza) {
	if len(p.Spec.Toppings) == 0 {
		for _, name := range []string{"tomato", "mozzarella", "salami"} {
			p.Spec.Toppings = append(p.Spec.Toppings, v1beta1.PizzaTopping{Name: name, Quantity: 1})
		}
	}
	for i := range p.Spec.Toppings {
		if p.Spec.Toppings[i].Quantity == 0 {
			p.Spec.Toppings[i].Quantity = 1
		}
	}
}

// Validate checks the list of toppings.
func (Pizzas) Validate(_ context.Context, p *v1beta1.Pizza) (errs field.ErrorList) {
	seen := map[string]bool{}
	for i, t := range p.Spec.Toppings {
		at := field.NewPath("spec", "toppings").Index(i)
		if t.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), "a topping has a name"))
		}
		if seen[t.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), t.Name))
		}
		if seen[t.Name] = true; t.Quantity < 1 || t.Quantity > 10 {
			errs = append(errs, field.Invalid(at.Child("quantity"), t.Quantity, "must be between 1 and 10"))
		}
	}
	return errs
}

// Columns returns the table columns of a pizza: toppings and cost.
func (Pizzas) Columns() []apiserver.Column[*v1beta1.Pizza] {
	return []apiserver.Column[*v1beta1.Pizza]{
		{Name: "Toppings", Type: "integer", Value: func(p *v1beta1.Pizza) any {
			total := int32(0)
			for _, t := range p.Spec.Toppings {
				total += t.Quantity
			}
			return total
		}},
		{Name: "Cost", Type: "integer", Value: func(p *v1beta1.Pizza) any { return p.Status.Cost }},
	}
}

// Toppings has the rules that concern only one topping.
type Toppings struct{}

// Validate checks the cost.
func (Toppings) Validate(_ context.Context, t *v1alpha1.Topping) (errs field.ErrorList) {
	if t.Spec.Cost < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "cost"), t.Spec.Cost, "must not be negative"))
	}
	return errs
}

// Columns returns the table column of a topping: its cost.
func (Toppings) Columns() []apiserver.Column[*v1alpha1.Topping] {
	return []apiserver.Column[*v1alpha1.Topping]{{Name: "Cost", Type: "integer", Value: func(t *v1alpha1.Topping) any {
		return t.Spec.Cost
	}}}
}

// ToppingsExist rejects a pizza with a topping that does not exist. The objects that a rule reads
// are preconditions of the write, so a concurrent deletion of the topping is detected too.
func ToppingsExist(_ context.Context, tx *apiserver.Tx, w *apiserver.Write[*v1beta1.Pizza]) error {
	var errs field.ErrorList
	for i, t := range w.Object.Spec.Toppings {
		topping, err := apiserver.Get[*v1alpha1.Topping](tx, "", t.Name)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err != nil || topping.DeletionTimestamp != nil {
			errs = append(errs, field.NotFound(field.NewPath("spec", "toppings").Index(i).Child("name"), t.Name))
		}
	}
	return errs.ToAggregate()
}

// ToppingUnused rejects the deletion of a topping that a pizza has.
func ToppingUnused(_ context.Context, tx *apiserver.Tx, w *apiserver.Write[*v1alpha1.Topping]) error {
	pizzas, err := apiserver.List[*v1beta1.Pizza](tx, "", nil)
	if err != nil {
		return err
	}
	for _, p := range pizzas {
		if slices.ContainsFunc(p.Spec.Toppings, func(t v1beta1.PizzaTopping) bool { return t.Name == w.Name }) {
			return fmt.Errorf("pizza %s/%s has this topping", p.Namespace, p.Name)
		}
	}
	return nil
}
