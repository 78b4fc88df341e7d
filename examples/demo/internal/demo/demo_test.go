package demo_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"kelson.dev/operator"
	"kelson.dev/operator/operatortest"

	"kelson.dev/examples/demo/internal/demo"
)

var (
	v1     = schema.GroupVersionResource{Group: demo.Group, Version: "v1", Resource: "demos"}
	v2     = schema.GroupVersionResource{Group: demo.Group, Version: "v2", Resource: "demos"}
	plaque = corev1.SchemeGroupVersion.WithResource("configmaps")
)

func object(version, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": demo.Group + "/" + version, "kind": demo.Kind, "metadata": map[string]any{"name": name},
		"spec": spec,
	}}
}

func field(obj *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	return value
}

// until retries until a function returns nil.
func until(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

type errorString string

func (e errorString) Error() string { return string(e) }

// The life of Demos, from creation to deletion, with only the dynamic client.
func TestDemosByTheDynamicClient(t *testing.T) {
	env := operatortest.New(t, operatortest.CRDs("../../config/crd/bases"), operatortest.RBAC("../../config/rbac"),
		operatortest.Webhooks(),
		operatortest.Operator(operator.Name("demo"), operator.AddToScheme(demo.AddToScheme), demo.Controller(),
			demo.Conversion()))
	client, err := dynamic.NewForConfig(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	demos, plaques := client.Resource(v1).Namespace("default"), client.Resource(plaque).Namespace(demo.PlaqueNamespace)

	for _, wrong := range []map[string]any{
		{"name": "Flag", "size": "3x2"}, {"name": "flag", "size": "big"}, {"name": "flag"},
		{"name": "flag", "size": "3x2", "replicas": int64(101)},
	} {
		if _, err := demos.Create(ctx, object("v1", "wrong", wrong),
			metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("%v: %v", wrong, err)
		}
	}

	made, err := demos.Create(ctx, object("v1", "flag", map[string]any{"name": "flag", "size": "3x2"}),
		metav1.CreateOptions{})
	if err != nil || field(made, "spec", "replicas") != int64(1) {
		t.Fatalf("%v, %v", made, err)
	}
	var shown *unstructured.Unstructured
	// a watch ends when the definition changes, as it does when conversion is registered
	until(t, "shown", func() error {
		events, err := demos.Watch(ctx, metav1.ListOptions{ResourceVersion: made.GetResourceVersion()})
		if err != nil {
			return err
		}
		defer events.Stop()
		for event := range events.ResultChan() {
			if obj, ok := event.Object.(*unstructured.Unstructured); ok && field(obj, "status", "phase") == "Shown" {
				shown = obj
				return nil
			}
		}
		return errorString("the watch ended")
	})
	if f := shown.GetFinalizers(); len(f) != 1 || f[0] != demo.Finalizer {
		t.Errorf("finalizers: %v", f)
	}

	// Convert to the other version and back.
	var other *unstructured.Unstructured
	until(t, "as v2", func() (err error) {
		other, err = client.Resource(v2).Namespace("default").Get(ctx, "flag", metav1.GetOptions{})
		if err == nil && field(other, "spec", "size", "width") != int64(3) {
			err = errorString("it was not converted")
		}
		return err
	})
	if err := unstructured.SetNestedField(other.Object, int64(5), "spec", "size", "height"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(v2).Namespace("default").Update(ctx, other, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if back, err := demos.Get(ctx, "flag", metav1.GetOptions{}); err != nil || field(back, "spec", "size") != "3x5" {
		t.Errorf("%v, %v", back, err)
	}

	// A write of the subresource scale changes the spec; one of status does not.
	scaled, err := demos.Patch(ctx, "flag", types.MergePatchType, []byte(`{"spec":{"replicas":4}}`),
		metav1.PatchOptions{}, "scale")
	if err != nil || field(scaled, "kind") != "Scale" {
		t.Fatalf("%v, %v", scaled, err)
	}
	ignored, err := demos.Patch(ctx, "flag", types.MergePatchType, []byte(`{"spec":{"replicas":9}}`),
		metav1.PatchOptions{}, "status")
	if err != nil || field(ignored, "spec", "replicas") != int64(4) {
		t.Errorf("%v, %v", ignored, err)
	}
	text := func(want string) func() error {
		return func() error {
			cm, err := plaques.Get(ctx, demo.PlaqueName("default", "flag"), metav1.GetOptions{})
			if err == nil && field(cm, "data", "text") != want {
				err = errorString(field(cm, "data", "text").(string))
			}
			return err
		}
	}
	until(t, "the plaque", text("4 × flag, 3x5"))

	// The operator repairs a plaque that a user has deleted.
	if err := plaques.Delete(ctx, demo.PlaqueName("default", "flag"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the plaque again", text("4 × flag, 3x5"))

	if err := demos.Delete(ctx, "flag", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the end", func() error {
		if _, err := demos.Get(ctx, "flag", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errorString("it is still there")
		}
		return nil
	})
	if _, err := plaques.Get(ctx, demo.PlaqueName("default", "flag"), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the plaque was not deleted: %v", err)
	}
}
