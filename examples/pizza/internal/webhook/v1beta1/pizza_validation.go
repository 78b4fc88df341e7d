package v1beta1

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kelson.dev/operator/client"
	"kelson.dev/operator/webhook"

	restaurantv1alpha1 "kelson.dev/examples/pizza/api/v1alpha1"
	restaurantv1beta1 "kelson.dev/examples/pizza/api/v1beta1"
)

// The API server calls ValidateDelete only if verbs contains delete.
// +kubebuilder:webhook:path=/validate-restaurant-programming-kubernetes-info-v1beta1-pizza,mutating=false,failurePolicy=fail,sideEffects=None,groups=restaurant.programming-kubernetes.info,resources=pizzas,verbs=create;update,versions=v1beta1,name=vpizza-v1beta1.kb.io,admissionReviewVersions=v1

var _ webhook.Validator[restaurantv1beta1.Pizza] = (*PizzaHooks)(nil)

// ValidateCreate rejects unknown toppings.
func (h *PizzaHooks) ValidateCreate(ctx context.Context, pizza *restaurantv1beta1.Pizza) (webhook.Warnings, error) {
	return h.validate(ctx, pizza, nil)
}

// ValidateUpdate checks only added toppings, so that a pizza with a topping that no longer exists
// can still be changed.
func (h *PizzaHooks) ValidateUpdate(ctx context.Context,
	old, pizza *restaurantv1beta1.Pizza) (webhook.Warnings, error) {
	return h.validate(ctx, pizza, old.Spec.Toppings)
}

// ValidateDelete allows every deletion.
func (h *PizzaHooks) ValidateDelete(context.Context, *restaurantv1beta1.Pizza) (webhook.Warnings, error) {
	return nil, nil
}

func (h *PizzaHooks) validate(ctx context.Context, pizza *restaurantv1beta1.Pizza,
	known []restaurantv1beta1.PizzaTopping) (webhook.Warnings, error) {
	var errs field.ErrorList
	toppings := field.NewPath("spec", "toppings")
	for i, t := range pizza.Spec.Toppings {
		if slices.ContainsFunc(known, func(k restaurantv1beta1.PizzaTopping) bool { return k.Name == t.Name }) {
			continue
		}
		_, err := client.Get[restaurantv1alpha1.Topping](ctx, h.Live, client.Key{Name: t.Name})
		if apierrors.IsNotFound(err) {
			errs = append(errs, field.NotFound(toppings.Index(i).Child("name"), t.Name))
		} else if err != nil {
			return nil, err
		}
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(restaurantv1beta1.GroupVersion.WithKind("Pizza").GroupKind(), pizza.Name, errs)
	}
	return nil, nil
}
