package controller_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator"
	"kelson.dev/operator/operatortest"
	"kelson.dev/operator/reconcile"

	restaurantv1alpha1 "kelson.dev/examples/pizza/api/v1alpha1"
	restaurantv1beta1 "kelson.dev/examples/pizza/api/v1beta1"
	"kelson.dev/examples/pizza/internal/controller"
)

func TestCostOfPizzas(t *testing.T) {
	scheme := runtime.NewScheme()
	add := []func(*runtime.Scheme) error{restaurantv1alpha1.AddToScheme, restaurantv1beta1.AddToScheme}
	for _, f := range add {
		if err := f(scheme); err != nil {
			t.Fatal(err)
		}
	}
	env := operatortest.New(t, operatortest.CRDs("../../config/crd/bases"), operatortest.RBAC("../../config/rbac"),
		operatortest.Scheme(scheme),
		operatortest.Operator(operator.AddToScheme(add...), controller.PizzaController(), controller.PizzasByTopping()))
	topping := func(name string, cost int64) *restaurantv1alpha1.Topping {
		top := &restaurantv1alpha1.Topping{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: restaurantv1alpha1.ToppingSpec{Cost: cost}}
		env.Create(t, top)
		return top
	}
	pizza := &restaurantv1beta1.Pizza{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: restaurantv1beta1.PizzaSpec{
		Toppings: []restaurantv1beta1.PizzaTopping{{Name: "ham", Quantity: 2}, {Name: "olives", Quantity: 1}},
	}}
	waitForStatus := func(cost int64, priced metav1.ConditionStatus) {
		t.Helper()
		env.Eventually(t, time.Minute, func() bool {
			env.Get(t, pizza)
			condition, _ := reconcile.GetCondition(pizza, controller.ConditionPriced)
			return pizza.Status.Cost == cost && condition.Status == priced
		})
	}
	ham := topping("ham", 150)
	env.Create(t, pizza)
	waitForStatus(0, metav1.ConditionFalse)
	topping("olives", 80)
	waitForStatus(380, metav1.ConditionTrue)
	ham.Spec.Cost = 200
	if err := env.Client().Update(t.Context(), ham); err != nil {
		t.Fatal(err)
	}
	waitForStatus(480, metav1.ConditionTrue)
	if err := env.Client().Delete(t.Context(), ham); err != nil {
		t.Fatal(err)
	}
	waitForStatus(0, metav1.ConditionFalse)
}
