package controller

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"

	restaurantv1alpha1 "kelson.dev/examples/pizza/api/v1alpha1"
	restaurantv1beta1 "kelson.dev/examples/pizza/api/v1beta1"
)

// +kubebuilder:rbac:groups=restaurant.programming-kubernetes.info,resources=pizzas,verbs=get;list;watch
// +kubebuilder:rbac:groups=restaurant.programming-kubernetes.info,resources=pizzas/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=restaurant.programming-kubernetes.info,resources=pizzas/finalizers,verbs=update
// +kubebuilder:rbac:groups=restaurant.programming-kubernetes.info,resources=toppings,verbs=get;list;watch

// ConditionPriced is true if the cost of a pizza is known.
const ConditionPriced = "Priced"

// PizzaController returns the part of the operator that reconciles Pizza objects.
func PizzaController() operator.Part {
	return operator.For(NewPizzaReconciler, operator.Watches((*PizzaReconciler).pizzasWith))
}

// PizzasByTopping returns the index of pizzas by the names of their toppings.
func PizzasByTopping() operator.Part {
	return operator.Index(indexTopping, func(pizza *restaurantv1beta1.Pizza) []string {
		names := make([]string, len(pizza.Spec.Toppings))
		for i, t := range pizza.Spec.Toppings {
			names[i] = t.Name
		}
		return names
	})
}

// indexTopping is the name of the index PizzasByTopping.
const indexTopping = "topping"

// PizzaReconciler computes the cost of pizzas.
type PizzaReconciler struct{ operator.Deps }

// NewPizzaReconciler returns a PizzaReconciler.
func NewPizzaReconciler(deps operator.Deps) *PizzaReconciler { return &PizzaReconciler{deps} }

// pizzasWith returns requests for the pizzas that have a topping. It uses the index.
func (r *PizzaReconciler) pizzasWith(ctx context.Context, topping *restaurantv1alpha1.Topping) []operator.Request {
	var requests []operator.Request
	pizzas, err := client.List[restaurantv1beta1.Pizza](ctx, r.Client, client.MatchingIndex{indexTopping: topping.Name})
	if err != nil {
		r.Log.Error("list pizzas", "topping", topping.Name, "err", err)
	}
	for _, pizza := range pizzas {
		requests = append(requests, operator.Request{NamespacedName: client.KeyOf(pizza)})
	}
	return requests
}

// Reconcile is called when a pizza or one of its toppings has changed.
func (r *PizzaReconciler) Reconcile(ctx context.Context, pizza *restaurantv1beta1.Pizza) (operator.Result, error) {
	var cost int64
	var missing []string
	for _, t := range pizza.Spec.Toppings {
		topping, err := client.Get[restaurantv1alpha1.Topping](ctx, r.Client, client.Key{Name: t.Name})
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, t.Name)
		case err != nil:
			return operator.Result{}, err
		default:
			cost += topping.Spec.Cost * int64(t.Quantity)
		}
	}
	priced := metav1.Condition{Type: ConditionPriced, Status: metav1.ConditionTrue, Reason: "AllKnown",
		Message: "the cost of all toppings is known"}
	if len(missing) > 0 {
		cost = 0
		priced.Status, priced.Reason = metav1.ConditionFalse, "ToppingsMissing"
		priced.Message = fmt.Sprintf("unknown topping %s", strings.Join(missing, ", "))
	}
	pizza.Status.Cost = cost
	reconcile.SetCondition(pizza, priced)
	return operator.Result{}, nil
}
