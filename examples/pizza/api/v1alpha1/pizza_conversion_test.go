package v1alpha1

import (
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	restaurantv1beta1 "kelson.dev/examples/pizza/api/v1beta1"
)

// A conversion to the other version and back loses nothing; only the order of toppings may change.
func TestPizzaSurvivesConversion(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "test", Labels: map[string]string{"a": "b"}}
	for _, toppings := range [][]string{nil, {"ham"}, {"ham", "olives"}, {"ham", "olives", "ham", "ham"}} {
		before := &Pizza{ObjectMeta: meta, Spec: PizzaSpec{Toppings: toppings}, Status: PizzaStatus{Cost: 7}}
		hub, after := &restaurantv1beta1.Pizza{}, &Pizza{}
		if err := before.ConvertTo(hub); err != nil {
			t.Fatal(err)
		}
		if err := after.ConvertFrom(hub); err != nil {
			t.Fatal(err)
		}
		slices.Sort(after.Spec.Toppings)
		want := before.DeepCopy()
		slices.Sort(want.Spec.Toppings)
		if !reflect.DeepEqual(want, after) {
			t.Errorf("%v became %v", want, after)
		}
	}
	before := &restaurantv1beta1.Pizza{ObjectMeta: meta, Spec: restaurantv1beta1.PizzaSpec{
		Toppings: []restaurantv1beta1.PizzaTopping{{Name: "ham", Quantity: 2}, {Name: "olives", Quantity: 1}},
	}}
	old, after := &Pizza{}, &restaurantv1beta1.Pizza{}
	if err := old.ConvertFrom(before); err != nil {
		t.Fatal(err)
	}
	if err := old.ConvertTo(after); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, after) || !slices.Equal(old.Spec.Toppings, []string{"ham", "ham", "olives"}) {
		t.Errorf("%v became %v and %v", before, old, after)
	}
}
