package shop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	v1 "kelson.dev/test/generators/shop/api/v1"
	shopac "kelson.dev/test/generators/shop/pkg/generated/applyconfiguration/shop/v1"
	"kelson.dev/test/generators/shop/pkg/generated/clientset/versioned"
	"kelson.dev/test/generators/shop/pkg/generated/clientset/versioned/fake"
	"kelson.dev/test/generators/shop/pkg/generated/informers/externalversions"
)

// A fake clientset works like those of client-gen: objects, actions, reactors, watches,
// subresources.
func TestFakeClientset(t *testing.T) {
	clients := fake.NewClientset(pizza("a"), &v1.OvenList{Items: []v1.Oven{{ObjectMeta: metav1.ObjectMeta{Name: "o"}}}})
	var _ versioned.Interface = clients
	ctx, one := t.Context(), require.Value[*v1.Pizza](t)
	pizzas := clients.ShopV1().Pizzas("default")

	watched, err := pizzas.Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	defer watched.Stop()
	got := one(pizzas.Get(ctx, "a", metav1.GetOptions{}))
	got.Labels = map[string]string{"x": "y"}
	one(pizzas.Update(ctx, got, metav1.UpdateOptions{}))
	one(pizzas.Create(ctx, pizza("b"), metav1.CreateOptions{}))
	one(pizzas.Patch(ctx, "b", types.MergePatchType, []byte(`{"spec":{"size":"Small"}}`), metav1.PatchOptions{}))
	if list := require.Value[*v1.PizzaList](t)(pizzas.List(ctx, metav1.ListOptions{LabelSelector: "x=y"})); len(list.Items) != 1 || list.Items[0].Name != "a" {
		t.Fatalf("listed %+v", list.Items)
	}
	if ovens := require.Value[*v1.OvenList](t)(clients.ShopV1().Ovens().List(ctx, metav1.ListOptions{})); len(ovens.Items) != 1 {
		t.Fatalf("there are %d ovens", len(ovens.Items))
	}
	if _, err := clients.ShopV1().Pizzas("other").Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("in another namespace: %v", err)
	}
	for _, want := range []string{"ADDED a", "MODIFIED a", "ADDED b", "MODIFIED b"} {
		event := <-watched.ResultChan()
		require.Equalf(t, string(event.Type)+" "+event.Object.(*v1.Pizza).Name, want, "watched")
	}

	clients.ClearActions()
	if _, err := pizzas.GetScale(ctx, "a", metav1.GetOptions{}); err == nil {
		t.Error("the tracker has a scale that was not created")
	}
	refused := errors.New("no more pizza")
	clients.PrependReactor("update", "pizzas", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.GetSubresource() == "status", nil, refused
	})
	if _, err := pizzas.UpdateStatus(ctx, got, metav1.UpdateOptions{}); !errors.Is(err, refused) {
		t.Errorf("the error is %v, want that of the reactor", err)
	}
	actions := clients.Actions()
	if len(actions) != 2 || !actions[0].Matches("get", "pizzas/scale") ||
		!actions[1].Matches("update", "pizzas/status") {
		t.Errorf("actions %v", actions)
	}
	if list, err := clients.Discovery().ServerResourcesForGroupVersion("shop.example.com/v1"); err != nil ||
		len(list.APIResources) != 2 {
		t.Errorf("discovered %v, %v", list, err)
	}
	var zero fake.Clientset
	if p, err := zero.ShopV1().Pizzas("x").Get(ctx, "a", metav1.GetOptions{}); err != nil || p == nil ||
		len(zero.Actions()) != 1 {
		t.Errorf("without a tracker: %v, %v", p, err)
	}
}

// Fakes implement server-side apply, and Extract functions return the applied fields, as with a
// real server in TestExtract.
func TestFakeApply(t *testing.T) {
	pizzas := fake.NewClientset().ShopV1().Pizzas("default")
	one := require.Value[*v1.Pizza](t)
	applyAndExtract(t, pizzas.Apply)
	got := one(pizzas.Get(t.Context(), "b", metav1.GetOptions{}))
	assert.Equalf(t, len(got.Spec.Toppings), 2, "there is %+v", got.Spec)
	if _, err := fake.NewSimpleClientset().ShopV1().Pizzas("default").Apply(t.Context(), shopac.Pizza("a", "default"),
		metav1.ApplyOptions{}); err == nil {
		t.Error("want an error: apply without managed fields")
	}
}

// Informers and the library's client work with fakes as with servers, and reactors receive their
// requests.
func TestFakeInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := fake.NewClientset(pizza("a"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		factory := externalversions.NewSharedInformerFactory(clients, 0)
		lister := factory.Shop().V1().Pizzas().Lister()
		factory.Shop().V1().Pizzas().Informer()
		factory.StartWithContext(ctx)
		require.NoError(t, factory.WaitForCacheSyncWithContext(ctx))
		_, err := clients.ShopV1().Pizzas("default").Create(ctx, pizza("b"), metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		if found, err := lister.List(labels.Everything()); err != nil || len(found) != 2 {
			t.Fatalf("listed %v, %v", found, err)
		}

		c := clients.Client()
		p := pizza("c")
		require.NoError(t, c.Create(ctx, p))
		if err := c.Create(ctx, pizza("c")); !apierrors.IsAlreadyExists(err) {
			t.Errorf("created twice: %v", err)
		}
		if err := c.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`))); err != nil || p.Labels["x"] != "y" {
			t.Errorf("patched %v, %v", p.Labels, err)
		}
		p.Spec.Size = v1.Small
		assert.NoError(t, c.Update(ctx, p))
		var list v1.PizzaList
		if err := c.List(ctx, &list, client.MatchingLabels{"x": "y"}); err != nil || len(list.Items) != 1 ||
			list.Items[0].Spec.Size != v1.Small {
			t.Errorf("listed %+v, %v", list.Items, err)
		}
		assert.NoError(t, c.Delete(ctx, p))
		if err := c.Get(ctx, client.KeyOf(p), &v1.Pizza{}); !apierrors.IsNotFound(err) {
			t.Errorf("after deletion: %v", err)
		}
		synctest.Wait()
		if _, err := lister.Pizzas("default").Get("c"); !apierrors.IsNotFound(err) {
			t.Errorf("the lister after the deletion: %v", err)
		}
		clients.PrependReactor("list", "ovens", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(v1.SchemeGroupVersion.WithResource("ovens").GroupResource(), "",
				errors.New("not yours"))
		})
		if err := c.List(ctx, &v1.OvenList{}); !apierrors.IsForbidden(err) {
			t.Errorf("against the reactor: %v", err)
		}
		factory.Shutdown()
	})
}

// applyAndExtract applies different fields of a pizza as two managers, and extracts the fields that
// each has applied.
func applyAndExtract(t *testing.T, apply func(context.Context, *shopac.PizzaApplyConfiguration,
	metav1.ApplyOptions) (*v1.Pizza, error)) {
	t.Helper()
	ctx, one := t.Context(), require.Value[*v1.Pizza](t)
	one(apply(ctx, shopac.Pizza("b", "default").WithLabels(map[string]string{"a": "b"}).
		WithSpec(shopac.PizzaSpec().WithDegrees(200).WithToppings(shopac.Topping().WithName("ham").WithGrams(70))),
		metav1.ApplyOptions{FieldManager: "cook"}))
	got := one(apply(ctx, shopac.Pizza("b", "default").WithSpec(
		shopac.PizzaSpec().WithToppings(shopac.Topping().WithName("olives"))),
		metav1.ApplyOptions{FieldManager: "guest"}))

	extract := require.Value[*shopac.PizzaApplyConfiguration](t)
	cook := extract(shopac.ExtractPizza(got, "cook"))
	if *cook.GetName() != "b" || *cook.GetNamespace() != "default" || *cook.GetKind() != "Pizza" ||
		*cook.GetAPIVersion() != "shop.example.com/v1" {
		t.Errorf("the extracted configuration is %v", cook)
	}
	if s := cook.Spec; s == nil || *s.Degrees != 200 || len(s.Toppings) != 1 || *s.Toppings[0].Name != "ham" ||
		*s.Toppings[0].Grams != 70 || cook.Labels["a"] != "b" {
		t.Fatalf("the cook has applied %+v", s)
	}
	if s := extract(shopac.ExtractPizza(got, "guest")).Spec; s == nil || s.Degrees != nil || len(s.Toppings) != 1 ||
		*s.Toppings[0].Name != "olives" {
		t.Fatalf("the guest has applied %+v", s)
	}
	if nobody := extract(shopac.ExtractPizza(got, "unknown")); nobody.Spec != nil || *nobody.GetName() != "b" {
		t.Errorf("an unknown manager has applied %+v", nobody)
	}

	// Changing and applying an extracted configuration keeps the other manager's fields.
	cook.Spec.WithDegrees(220)
	if got = one(apply(ctx, cook, metav1.ApplyOptions{FieldManager: "cook"})); *got.Spec.Degrees != 220 ||
		len(got.Spec.Toppings) != 2 || got.Labels["a"] != "b" {
		t.Errorf("after another apply there is %+v", got.Spec)
	}
}
