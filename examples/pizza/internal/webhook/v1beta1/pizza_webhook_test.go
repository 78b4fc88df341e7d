package v1beta1_test

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest"

	restaurantv1alpha1 "kelson.dev/examples/pizza/api/v1alpha1"
	restaurantv1beta1 "kelson.dev/examples/pizza/api/v1beta1"
	webhookv1beta1 "kelson.dev/examples/pizza/internal/webhook/v1beta1"
)

func TestWebhooks(t *testing.T) {
	scheme := runtime.NewScheme()
	add := []func(*runtime.Scheme) error{restaurantv1alpha1.AddToScheme, restaurantv1beta1.AddToScheme}
	for _, f := range add {
		if err := f(scheme); err != nil {
			t.Fatal(err)
		}
	}
	env := operatortest.New(t, operatortest.CRDs("../../../config/crd/bases"), operatortest.Scheme(scheme),
		operatortest.Webhooks(),
		operatortest.Operator(operator.Name("pizza"), operator.AddToScheme(add...),
			webhookv1beta1.PizzaWebhook(), operator.Conversion[restaurantv1beta1.Pizza]()))
	for _, name := range []string{"tomato", "mozzarella", "salami"} {
		env.Create(t, &restaurantv1alpha1.Topping{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: restaurantv1alpha1.ToppingSpec{Cost: 100}})
	}
	old := func(name string, toppings ...string) *restaurantv1alpha1.Pizza {
		return &restaurantv1alpha1.Pizza{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec: restaurantv1alpha1.PizzaSpec{Toppings: toppings}}
	}
	// Objects are defaulted, validated and converted once the webhooks are registered.
	env.Eventually(t, time.Minute, func() bool {
		probe := old("probe")
		wrong := env.Client().Create(t.Context(), old("wrong", "sand"), client.DryRunAll)
		err := env.Client().Create(t.Context(), probe, client.DryRunAll)
		return err == nil && len(probe.Spec.Toppings) == 3 && apierrors.IsInvalid(wrong)
	})

	double := old("double", "salami", "tomato", "salami")
	env.Create(t, double)
	pizza := &restaurantv1beta1.Pizza{ObjectMeta: metav1.ObjectMeta{Name: "double", Namespace: "default"}}
	env.Get(t, pizza)
	if len(pizza.Spec.Toppings) != 2 || pizza.Spec.Toppings[0] != (restaurantv1beta1.PizzaTopping{Name: "salami",
		Quantity: 2}) {
		t.Errorf("as v1beta1: %+v", pizza.Spec)
	}
	pizza.Spec.Toppings = append(pizza.Spec.Toppings, restaurantv1beta1.PizzaTopping{Name: "sand", Quantity: 1})
	if err := env.Client().Update(t.Context(), pizza); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), `spec.toppings[2].name: Not found: "sand"`) {
		t.Errorf("sand: %v", err)
	}
	// A pizza keeps a topping that was deleted.
	if err := env.Client().Delete(t.Context(),
		&restaurantv1alpha1.Topping{ObjectMeta: metav1.ObjectMeta{Name: "salami"}}); err != nil {
		t.Fatal(err)
	}
	env.Get(t, pizza)
	pizza.Spec.Toppings[1].Quantity = 3
	if err := env.Client().Update(t.Context(), pizza); err != nil {
		t.Errorf("more tomato: %v", err)
	}
}
