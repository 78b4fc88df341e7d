package controller_test

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/reconcile"

	restaurantv1alpha1 "kelson.dev/examples/pizza/api/v1alpha1"
	restaurantv1beta1 "kelson.dev/examples/pizza/api/v1beta1"
	"kelson.dev/examples/pizza/internal/controller"
)

// EX-08
func TestCostOfPizzas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		add := []func(*runtime.Scheme) error{restaurantv1alpha1.AddToScheme, restaurantv1beta1.AddToScheme}
		for _, f := range add {
			if err := f(scheme); err != nil {
				t.Fatal(err)
			}
		}
		env := testenv.New(t, testenv.CRDs("../../config/crd/bases"), testenv.RBAC("../../config/rbac"), testenv.Scheme(scheme),
			testenv.Operator(operator.AddToScheme(add...), controller.PizzaController(), controller.PizzasByTopping()))
		topping := func(name string, cost int64) *restaurantv1alpha1.Topping {
			top := &restaurantv1alpha1.Topping{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: restaurantv1alpha1.ToppingSpec{Cost: cost}}
			env.Create(t, top)
			return top
		}
		pizza := &restaurantv1beta1.Pizza{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: restaurantv1beta1.PizzaSpec{
			Toppings: []restaurantv1beta1.PizzaTopping{{Name: "ham", Quantity: 2}, {Name: "olives", Quantity: 1}},
		}}
		want := func(cost int64, priced bool) {
			t.Helper()
			env.Settle(t)
			if env.Get(t, pizza); pizza.Status.Cost != cost || reconcile.IsTrue(pizza, controller.ConditionPriced) != priced {
				t.Errorf("status is %+v, want cost %d", pizza.Status, cost)
			}
		}
		ham := topping("ham", 150)
		env.Create(t, pizza)
		want(0, false)
		topping("olives", 80)
		want(380, true)
		ham.Spec.Cost = 200
		if err := env.Client().Update(t.Context(), ham); err != nil {
			t.Fatal(err)
		}
		want(480, true)
		if err := env.Client().Delete(t.Context(), ham); err != nil {
			t.Fatal(err)
		}
		want(0, false)
	})
}
