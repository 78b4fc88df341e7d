package shop_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/webhook"
	"kelson.dev/test/generators/shop/api/shared"
	v1 "kelson.dev/test/generators/shop/api/v1"
	"kelson.dev/test/generators/shop/api/v1alpha1"
	shopac "kelson.dev/test/generators/shop/pkg/generated/applyconfiguration/shop/v1"
	"kelson.dev/test/generators/shop/pkg/generated/clientset/versioned"
	"kelson.dev/test/generators/shop/pkg/generated/clientset/versioned/scheme"
	"kelson.dev/test/generators/shop/pkg/generated/informers/externalversions"
	"kelson.dev/test/generators/shop/pkg/generated/openapi"
)

func pizza(name string) *v1.Pizza {
	p := &v1.Pizza{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	p.Spec.Size = v1.Large
	p.Spec.Slices.Limit = 8
	p.Spec.Toppings = []v1.Topping{{Name: "basil", Grams: 5}}
	return p
}

// Generated clients work with a real control plane.
func TestClients(t *testing.T) {
	env := testenv.New(t, testenv.CRDs("config/crd"))
	clients := versioned.NewForConfigOrDie(env.RESTConfig())
	ctx := t.Context()
	pizzas := clients.ShopV1().Pizzas("default")
	one := require.Value[*v1.Pizza](t)

	made := one(pizzas.Create(ctx, pizza("a"), metav1.CreateOptions{}))
	if made.UID == "" || made.Spec.Size != v1.Large {
		t.Fatalf("created %+v", made)
	}
	made.Spec.Size = v1.Small
	made = one(pizzas.Update(ctx, made, metav1.UpdateOptions{}))
	made.Status.Conditions = []metav1.Condition{{Type: "Baked", Status: metav1.ConditionTrue, Reason: "Done",
		LastTransitionTime: metav1.Now()}}
	one(pizzas.UpdateStatus(ctx, made, metav1.UpdateOptions{}))
	got := one(pizzas.Get(ctx, "a", metav1.GetOptions{}))
	if got.Spec.Size != v1.Small || len(got.Status.Conditions) != 1 {
		t.Fatalf("got %+v", got)
	}
	one(pizzas.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`),
		metav1.PatchOptions{}))
	list := require.Value[*v1.PizzaList](t)(pizzas.List(ctx, metav1.ListOptions{LabelSelector: "x=y"}))
	require.Equalf(t, len(list.Items), 1, "listed")

	scale, err := pizzas.GetScale(ctx, "a", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 8 {
		t.Fatalf("the scale is %v, %v", scale, err)
	}
	scale.Spec.Replicas = 6
	if scale, err = pizzas.UpdateScale(ctx, "a", scale, metav1.UpdateOptions{}); err != nil ||
		scale.Spec.Replicas != 6 {
		t.Fatalf("the scale is %v, %v", scale, err)
	}

	watched, err := pizzas.Watch(ctx, metav1.ListOptions{ResourceVersion: got.ResourceVersion})
	require.NoError(t, err)
	defer watched.Stop()
	event := <-watched.ResultChan()
	require.Equalf(t, event.Object.(*v1.Pizza).Labels["x"], "y", "watched %+v", event)

	ovens := clients.ShopV1().Ovens()
	_, err = ovens.Create(ctx, &v1.Oven{ObjectMeta: metav1.ObjectMeta{Name: "o"}},
		metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, pizzas.Delete(ctx, "a", metav1.DeleteOptions{}))
	if _, err := pizzas.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("after deletion: %v", err)
	}
	require.NoError(t, pizzas.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	_, err = clients.Discovery().ServerResourcesForGroupVersion("shop.example.com/v1")
	require.NoError(t, err)
}

// Apply configurations contain only the fields that were set.
func TestApply(t *testing.T) {
	env := testenv.New(t, testenv.CRDs("config/crd"))
	pizzas := versioned.NewForConfigOrDie(env.RESTConfig()).ShopV1().Pizzas("default")
	ctx, one := t.Context(), require.Value[*v1.Pizza](t)

	opts := metav1.ApplyOptions{FieldManager: "cook"}
	applied := shopac.Pizza("b", "default").WithLabels(map[string]string{"a": "b"}).WithSpec(shopac.PizzaSpec().
		WithDegrees(200).
		WithToppings(shopac.Topping().WithName("ham").WithGrams(70)).
		WithWeight(resource.MustParse("300")).
		WithMatrix([]int32{1, 2}, []int32{3}).
		WithSeal([]byte("wax")...).
		WithSlices(shared.Limited[int32]{Limit: 8}))
	got := one(pizzas.Apply(ctx, applied, opts))
	if got.Labels["a"] != "b" || *got.Spec.Degrees != 200 || got.Spec.Toppings[0].Grams != 70 ||
		got.Spec.Weight.Value() != 300 ||
		got.Spec.Matrix[1][0] != 3 || string(got.Spec.Seal) != "wax" {
		t.Fatalf("applied %+v", got.Spec)
	}
	other := shopac.Pizza("b", "default").WithSpec(shopac.PizzaSpec().WithToppings(shopac.Topping().WithName("olives")))
	got = one(pizzas.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "guest"}))
	if len(got.Spec.Toppings) != 2 || *got.Spec.Degrees != 200 {
		t.Fatalf("applied by another: %+v", got.Spec)
	}
	status := shopac.Pizza("b", "default").WithStatus(shopac.PizzaStatus().WithBakedAt(metav1.Unix(1000, 0)))
	got = one(pizzas.ApplyStatus(ctx, status, opts))
	require.Equalf(t, got.Status.BakedAt.Unix(), 1000, "the status is %+v", got.Status)
	if _, err := pizzas.Apply(ctx, &shopac.PizzaApplyConfiguration{}, opts); err == nil {
		t.Fatal("a configuration without a name was applied")
	}
}

// Extract functions return what a field manager has applied to an object or to its status.
func TestExtract(t *testing.T) {
	env := testenv.New(t, testenv.CRDs("config/crd"))
	pizzas := versioned.NewForConfigOrDie(env.RESTConfig()).ShopV1().Pizzas("default")
	applyAndExtract(t, pizzas.Apply)

	status := shopac.Pizza("b", "default").WithStatus(shopac.PizzaStatus().WithBakedAt(metav1.Unix(1000, 0)))
	got := require.Value[*v1.Pizza](t)(pizzas.ApplyStatus(t.Context(), status, metav1.ApplyOptions{FieldManager: "cook"}))
	extract := require.Value[*shopac.PizzaApplyConfiguration](t)
	if s := extract(shopac.ExtractPizzaStatus(got, "cook")); s.Status == nil || s.Status.BakedAt.Unix() != 1000 ||
		s.Spec != nil {
		t.Errorf("of the status the cook has applied %+v", s)
	}
	if s := extract(shopac.ExtractPizza(got, "cook")); s.Status != nil || *s.Spec.Degrees != 220 {
		t.Errorf("of the object the cook has applied %+v", s)
	}
	if s := extract(shopac.ExtractPizzaScale(got, "cook")); s.Spec != nil || s.Status != nil {
		t.Errorf("of the scale the cook has applied %+v", s)
	}
}

// Generated informers and listers work with a real control plane.
func TestInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.CRDs("config/crd"), testenv.Scheme(scheme.Scheme))
		clients := versioned.NewForConfigOrDie(env.RESTConfig())
		env.Create(t, pizza("a"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		factory := externalversions.NewSharedInformerFactory(clients, 0)
		informer := factory.Shop().V1().Pizzas()
		var events []string
		registration, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { events = append(events, "add "+obj.(*v1.Pizza).Name) },
			UpdateFunc: func(_, obj any) { events = append(events, "update "+obj.(*v1.Pizza).Name) },
			DeleteFunc: func(obj any) { events = append(events, "delete "+obj.(*v1.Pizza).Name) },
		})
		require.NoError(t, err)
		err = informer.Informer().AddIndexers(cache.Indexers{"size": func(obj any) ([]string, error) {
			return []string{string(obj.(*v1.Pizza).Spec.Size)}, nil
		}})
		require.NoError(t, err)
		lister := informer.Lister()
		if _, err := lister.Pizzas("default").Get("a"); !apierrors.IsNotFound(err) {
			t.Fatalf("before the start: %v", err)
		}
		factory.StartWithContext(ctx)
		require.NoError(t, factory.WaitForCacheSyncWithContext(ctx))
		<-registration.Synced()
		if got, err := lister.Pizzas("default").Get("a"); err != nil || got.Spec.Slices.Limit != 8 {
			t.Fatalf("got %v, %v", got, err)
		}
		if found, err := informer.Informer().ByIndex("size", "Large"); err != nil || len(found) != 1 {
			t.Fatalf("by index: %v, %v", found, err)
		}
		pizzas := clients.ShopV1().Pizzas("default")
		_, err = pizzas.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`),
			metav1.PatchOptions{})
		require.NoError(t, err)
		env.Settle(t)
		if found, _ := lister.List(labels.SelectorFromSet(labels.Set{"x": "y"})); len(found) != 1 {
			t.Fatalf("listed %v", found)
		}
		require.NoError(t, pizzas.Delete(ctx, "a", metav1.DeleteOptions{}))
		env.Settle(t)
		want := []string{"add a", "update a", "delete a"}
		if len(events) != 3 || events[0] != want[0] || events[1] != want[1] || events[2] != want[2] {
			t.Fatalf("events %v, want %v", events, want)
		}

		// Informers requested after the start run immediately, including those without a type.
		generic, err := factory.ForResource(v1.SchemeGroupVersion.WithResource("ovens"))
		require.NoError(t, err)
		env.Create(t, &v1.Oven{ObjectMeta: metav1.ObjectMeta{Name: "o"}})
		env.Settle(t)
		if o, err := generic.Lister().Get("o"); err != nil || o.GetName() != "o" {
			t.Fatalf("got %v, %v", o, err)
		}
		if _, err := factory.ForResource(corev1.SchemeGroupVersion.WithResource("pods")); err == nil {
			t.Fatal("want an error for an informer of pods")
		}
		factory.Shutdown()
	})
}

// Defaults of missing fields, from markers and from functions written by hand.
func TestDefaults(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1.AddToScheme(scheme))
	p := &v1.Pizza{Spec: v1.PizzaSpec{Toppings: []v1.Topping{{Name: "a"}, {Name: "b", Grams: 1}}}}
	scheme.Default(p)
	if p.Spec.Size != v1.Large || *p.Spec.Degrees != 250 || p.Spec.Toppings[0].Grams != 30 ||
		p.Spec.Toppings[1].Grams != 1 || p.Spec.Slices.Limit != 8 {
		t.Fatalf("defaulted %+v", p.Spec)
	}
	p.Spec.Size, *p.Spec.Degrees = v1.Small, 200
	scheme.Default(&v1.PizzaList{Items: []v1.Pizza{*p}})
	if p.Spec.Size != v1.Small || *p.Spec.Degrees != 200 {
		t.Fatalf("explicit values were changed: %+v", p.Spec)
	}
	list := &v1.PizzaList{Items: make([]v1.Pizza, 1)}
	if scheme.Default(list); list.Items[0].Spec.Size != v1.Large {
		t.Fatalf("in a list: %+v", list.Items[0].Spec)
	}
	oven := &v1.Oven{}
	if scheme.Default(oven); *oven.Spec.Heat.Degrees != 300 {
		t.Fatalf("the oven is %+v", oven.Spec)
	}
}

// Conversion with a scheme, and by the methods that webhooks call.
func TestConversion(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	old := &v1alpha1.Pizza{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: v1alpha1.PizzaSpec{Size: "Small", Extras: []v1alpha1.Topping{{Name: "ham"}}}}
	var hub v1.Pizza
	require.NoError(t, scheme.Convert(old, &hub, nil))
	if hub.Name != "a" || hub.Spec.Size != v1.Small || hub.Spec.Toppings[0].Name != "ham" {
		t.Fatalf("converted to %+v", hub)
	}
	var spoke webhook.Convertible = &v1alpha1.Pizza{}
	require.NoError(t, spoke.ConvertFrom(&hub))
	got := spoke.(*v1alpha1.Pizza)
	require.Equalf(t, got.Spec.Extras[0].Name, "ham", "converted back to %+v", got)
}

// Generated round-trip tests name the field that a conversion loses. With the build tag lossy, a
// conversion of this project loses one.
func TestRoundTripsDetectLostFields(t *testing.T) {
	require.Long(t, "builds a test")
	out, err := exec.Command("go", "test", "-tags", "lossy", "./api/v1alpha1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "lost or changed: .spec.extras[0].grams was ") ||
		strings.Contains(string(out), `{"`) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// All references in a document of the definitions resolve.
func TestOpenAPI(t *testing.T) {
	defs := openapi.GetOpenAPIDefinitions(func(path string) spec.Ref {
		return spec.MustCreateRef("#/components/schemas/" + path)
	})
	const pizza = "kelson.dev/test/generators/shop/api/v1.PizzaSpec"
	got, ok := defs[pizza]
	if !ok {
		t.Fatalf("no definition of %s", pizza)
	}
	size := got.Schema.Properties["size"]
	if len(size.Enum) != 2 || size.Default != "Large" ||
		!strings.Contains(size.Description, "- `\"Large\"` is for two persons.") {
		t.Errorf("size is %+v", size)
	}
	toppings := got.Schema.Properties["toppings"]
	if toppings.Extensions["x-kubernetes-list-type"] != "map" ||
		toppings.Extensions["x-kubernetes-patch-merge-key"] != "name" {
		t.Errorf("toppings are %+v", toppings.Extensions)
	}
	for name, def := range defs {
		for _, d := range def.Dependencies {
			if _, ok := defs[d]; !ok {
				t.Errorf("%s depends on %s, which is not defined", name, d)
			}
		}
	}
	config := &common.OpenAPIV3Config{Info: &spec.Info{}, GetDefinitions: openapi.GetOpenAPIDefinitions,
		GetDefinitionName: func(name string) (string, spec.Extensions) { return util.ToRESTFriendlyName(name), nil }}
	_, err := builder3.BuildOpenAPIDefinitionsForResources(config, "kelson.dev/test/generators/shop/api/v1.Pizza",
		"kelson.dev/test/generators/shop/api/v1.Oven")
	require.NoError(t, err)
}

// Generated code sets FieldsV1 only by its methods: the type of its field differs between builds of
// the library, with the tag fieldsv1string.
func TestFieldsV1HasOnlyMethods(t *testing.T) {
	code, err := os.ReadFile("api/v1alpha1/zz_generated.conversion_test.go")
	require.NoError(t, err)
	for line := range strings.Lines(string(code)) {
		if strings.Contains(line, "FieldsV1") && strings.Contains(line, ".Raw") {
			t.Error(line)
		}
	}
}
