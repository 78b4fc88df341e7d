package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/apiservertest"
	"kelson.dev/operator/webhook"

	"kelson.dev/examples/pizza-apiserver/restaurant"
	"kelson.dev/examples/pizza/api/v1alpha1"
	"kelson.dev/examples/pizza/api/v1beta1"
)

// menu is a server with the default toppings.
func menu(t *testing.T) *apiservertest.Env {
	t.Helper()
	env := apiservertest.New(t, restaurant.API())
	env.Do(t, func(tx *apiserver.Tx) error {
		for _, name := range []string{"tomato", "mozzarella", "salami"} {
			if err := tx.Create(&v1alpha1.Topping{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: v1alpha1.ToppingSpec{Cost: 50}}); err != nil {
				return err
			}
		}
		return nil
	})
	return env
}

// sent returns an object as a client sends it.
func sent(t *testing.T, version string, obj runtime.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	content["apiVersion"], content["kind"] = v1beta1.GroupVersion.Group+"/"+version, "Pizza"
	return &unstructured.Unstructured{Object: content}
}

// Both versions, defaults, and the check that toppings exist.
func TestPizza(t *testing.T) {
	client := menu(t).Dynamic(t)
	v1, v2 := client.Resource(v1alpha1.GroupVersion.WithResource("pizzas")).Namespace("default"),
		client.Resource(v1beta1.GroupVersion.WithResource("pizzas")).Namespace("default")
	old := &v1alpha1.Pizza{ObjectMeta: metav1.ObjectMeta{Name: "double"},
		Spec: v1alpha1.PizzaSpec{Toppings: []string{"salami", "salami"}}}
	if _, err := v1.Create(t.Context(), sent(t, "v1alpha1", old), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := v2.Get(t.Context(), "double", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(got.Object["spec"]); text != "map[toppings:[map[name:salami quantity:2]]]" {
		t.Errorf("in v1beta1: %s", text)
	}
	plain, err := v1.Create(t.Context(), sent(t, "v1alpha1",
		&v1alpha1.Pizza{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}), metav1.CreateOptions{})
	if err != nil || fmt.Sprint(plain.Object["spec"]) != "map[toppings:[tomato mozzarella salami]]" {
		t.Errorf("default: %v, %v", plain, err)
	}
	old.Name, old.Spec.Toppings = "hawaii", []string{"pineapple"}
	_, err = v1.Create(t.Context(), sent(t, "v1alpha1", old), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `spec.toppings[0].name: Not found: "pineapple"`) {
		t.Errorf("unknown topping: %v", err)
	}
	err = client.Resource(v1alpha1.GroupVersion.WithResource("toppings")).Delete(t.Context(), "salami",
		metav1.DeleteOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "pizza default/double has this topping") {
		t.Errorf("topping in use: %v", err)
	}
}

// Of two concurrent requests, one that creates a pizza and one that deletes its topping, only one
// succeeds.
func TestRace(t *testing.T) {
	prepared := menu(t)
	for range 50 {
		env := prepared.Fork(t)
		client := env.Dynamic(t)
		var pizza, deletion error
		var both sync.WaitGroup
		both.Go(func() {
			p := &v1beta1.Pizza{ObjectMeta: metav1.ObjectMeta{Name: "p"},
				Spec: v1beta1.PizzaSpec{Toppings: []v1beta1.PizzaTopping{{Name: "tomato"}}}}
			_, pizza = client.Resource(v1beta1.GroupVersion.WithResource("pizzas")).Namespace("default").
				Create(t.Context(), sent(t, "v1beta1", p), metav1.CreateOptions{})
		})
		both.Go(func() {
			deletion = client.Resource(v1alpha1.GroupVersion.WithResource("toppings")).Delete(t.Context(), "tomato",
				metav1.DeleteOptions{})
		})
		both.Wait()
		if (pizza == nil) == (deletion == nil) {
			t.Fatalf("pizza: %v, deletion: %v", pizza, deletion)
		}
	}
}

// The conversion of a valid pizza is lossless.
func TestRoundTrip(t *testing.T) {
	apiservertest.RoundTrip[webhook.Hub](t, &v1alpha1.Pizza{}, &v1beta1.Pizza{},
		// the other version groups equal toppings
		func(s *v1alpha1.PizzaSpec, c randfill.Continue) {
			for _, name := range []string{"a", "b", "c"} {
				for range c.Intn(3) {
					s.Toppings = append(s.Toppings, name)
				}
			}
		},
		func(s *v1beta1.PizzaSpec, c randfill.Continue) {
			for _, name := range []string{"a", "b", "c"} {
				if c.Bool() {
					s.Toppings = append(s.Toppings, v1beta1.PizzaTopping{Name: name, Quantity: 1 + c.Int31n(10)})
				}
			}
		})
}
