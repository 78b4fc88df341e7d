package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func adds(key string) func(*review) *admissionv1.AdmissionResponse {
	return patched(fmt.Sprintf(`[{"op":"add","path":"/data/%s","value":"1"}]`, key))
}

// Webhooks run in the order of their names, each on the result of the previous ones.
func TestMutatingWebhooksInOrder(t *testing.T) {
	c := startWebhook(t)
	configMaps := rule("*", "", "v1", "configmaps")
	second, first := newHook(t, adds("b")), newHook(t, adds("a"))
	c.mutating(t, "b-second", second, configMaps) // written first
	c.mutating(t, "a-first", first, configMaps)
	made, err := c.create(t, configMapWebhook("cm", "own", "1"))
	require.NoError(t, err)
	assert.Equalf(t, len(made.Data), 3, "data %v", made.Data)
	if got := string(first.reviews()[0].Object.Raw); strings.Contains(got, `"b"`) {
		t.Errorf("the first received %s", got)
	}
	assert.Containsf(t, string(second.reviews()[0].Object.Raw), `"a":"1"`, "the second received")
	// The stored object equals the response; updates are mutated, too.
	stored, err := c.CoreV1().ConfigMaps("default").Get(t.Context(), "cm", metav1.GetOptions{})
	if err != nil || len(stored.Data) != 3 {
		t.Errorf("stored %v, %v", stored.Data, err)
	}
	after, err := c.CoreV1().ConfigMaps("default").Patch(t.Context(), "cm", types.MergePatchType,
		[]byte(`{"data":null}`), metav1.PatchOptions{})
	if err == nil {
		t.Errorf("a patch that can't be applied: %v", after.Data)
	}
	want := "Internal error occurred: add operation does not apply: doc is missing path"
	assert.ErrorContainsf(t, err, want, "patch")
}

// A webhook with reinvocationPolicy IfNeeded is called again if another webhook or a plugin changed
// the object after it.
func TestReinvocation(t *testing.T) {
	ifNeeded := func(w *admissionregistrationv1.MutatingWebhook) {
		w.ReinvocationPolicy = ptr(admissionregistrationv1.IfNeededReinvocationPolicy)
	}
	never := func(*admissionregistrationv1.MutatingWebhook) {}
	configMaps := rule("CREATE", "", "v1", "configmaps")
	for _, test := range []struct {
		name   string
		policy func(*admissionregistrationv1.MutatingWebhook)
		second func(*review) *admissionv1.AdmissionResponse
		calls  int // of the first webhook
	}{
		{"needed", ifNeeded, adds("b"), 2},
		{"no change after it", ifNeeded, allow, 1},
		{"not wanted", never, adds("b"), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := startWebhook(t)
			first, second := newHook(t, adds("a")), newHook(t, test.second)
			c.mutating(t, "a", first, configMaps, test.policy)
			c.mutating(t, "b", second, configMaps, ifNeeded)
			_, err := c.create(t, configMapWebhook("cm", "own", "1"))
			require.NoError(t, err)
			if n := len(first.reviews()); n != test.calls {
				t.Errorf("the first was called %d times, want %d", n, test.calls)
			}
			if n := len(second.reviews()); n != 1 {
				t.Errorf("the second was called %d times, want once: nothing changed after it", n)
			}
		})
	}
}

// A webhook that denies the request, or whose patch is malformed, too long or makes the object
// invalid, fails the create. Nothing is stored.
func TestMutatingWebhooksThatFail(t *testing.T) {
	c := startWebhook(t)
	for _, test := range []struct {
		name   string
		answer func(*review) *admissionv1.AdmissionResponse
		want   string
	}{
		{"denies", deny, `admission webhook "w.kelson.dev" denied the request: not today`},
		{"no patch type", func(*review) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(`[]`)}
		}, `failed calling webhook "w.kelson.dev": received invalid webhook response: webhook returned response.patch but not response.patchType`},
		{"no patch", patched(`{`), `failed calling webhook "w.kelson.dev": received undecodable patch in webhook response: unexpected end of JSON input`},
		{"too many operations", patched("[" + strings.Repeat(`{"op":"add","path":"/data/x","value":"1"},`, 10000) +
			`{"op":"add","path":"/data/x","value":"1"}]`),
			"the allowed maximum operations in a JSON patch is 10000, got 10001"},
		{"makes it invalid", patched(`[{"op":"add","path":"/data/..","value":"1"}]`),
			`ConfigMap "cm" is invalid: data[..]: Invalid value`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.mutating(t, "w", newHook(t, test.answer), rule("CREATE", "", "v1", "configmaps"))
			if _, err := c.create(t, configMapWebhook("cm", "a", "1")); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("create = %v\nwant %s", err, test.want)
			}
			err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(t.Context(), "w",
				metav1.DeleteOptions{})
			require.NoError(t, err)
			if _, err := c.CoreV1().ConfigMaps("default").Get(t.Context(), "cm",
				metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the object was stored: %v", err)
			}
		})
	}
}

const widgetsWebhook = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example}
spec:
  group: shop.example
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: &schema
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, maximum: 10}
              colour: {type: string, default: grey}
              replicas: {type: integer}
          status: {type: object, properties: {replicas: {type: integer}}}
  - name: v2
    served: true
    storage: false
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: *schema
`

func (c *hookClients) define(t *testing.T, definition string) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(definition), crd))
	_, err := c.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}).
		Create(t.Context(), crd, metav1.CreateOptions{})
	require.NoError(t, err)
}

func admittedWidget(version, name, spec string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`{"apiVersion":"shop.example/`+version+`","kind":"Widget","metadata":{"name":"`+
		name+`"},"spec":`+spec+`}`), u); err != nil {
		panic(err)
	}
	return u
}

// Webhooks receive custom resources in the version of the rule, and their result is validated.
func TestCustomResources(t *testing.T) {
	c := startWebhook(t)
	c.define(t, widgetsWebhook)
	h := newHook(t, patched(`[{"op":"replace","path":"/spec/size","value":7}]`))
	c.mutating(t, "m", h, rule("CREATE", "shop.example", "v1", "widgets"))
	validating := newHook(t, allow)
	c.validating(t, "v", validating, rule("*", "shop.example", "v2", "widgets"))
	for _, version := range []string{"v1", "v2"} {
		objects := c.dynamic.Resource(schema.GroupVersionResource{Group: "shop.example", Version: version,
			Resource: "widgets"}).Namespace("default")
		made, err := objects.Create(t.Context(), admittedWidget(version, "w-"+version, `{"size":1}`), metav1.CreateOptions{})
		require.NoError(t, err)
		if size, _, _ := unstructured.NestedInt64(made.Object, "spec", "size"); size != 7 ||
			made.GetAPIVersion() != "shop.example/"+version {
			t.Errorf("%s: created %v", version, made.Object)
		}
		r := h.reviews()[0]
		if got := string(r.Object.Raw); !strings.Contains(got, `"apiVersion":"shop.example/v1"`) ||
			!strings.Contains(got, `"colour":"grey"`) || r.RequestKind.Version != version {
			t.Errorf("%s: the mutating webhook saw %s", version, got)
		}
		if got := string(validating.reviews()[0].Object.Raw); !strings.Contains(got,
			`"apiVersion":"shop.example/v2"`) || !strings.Contains(got, `"size":7`) {
			t.Errorf("%s: the validating webhook saw %s", version, got)
		}
		require.NoError(t, objects.Delete(t.Context(), "w-"+version, metav1.DeleteOptions{}))
		if got := string(validating.reviews()[0].OldObject.Raw); !strings.Contains(got,
			`"apiVersion":"shop.example/v2"`) || !strings.Contains(got, `"size":7`) {
			t.Errorf("%s: for the deletion, the validating webhook saw %s", version, got)
		}
	}
	h.answer = patched(`[{"op":"replace","path":"/spec/size","value":11}]`)
	_, err := c.dynamic.Resource(schema.GroupVersionResource{Group: "shop.example", Version: "v1",
		Resource: "widgets"}).Namespace("default").
		Create(t.Context(), admittedWidget("v1", "big", `{"size":1}`), metav1.CreateOptions{})
	want := `Widget.shop.example "big" is invalid: spec.size: Invalid value: 11`
	assert.ErrorContainsf(t, err, want, "create")
}

// A webhook changes the scale of a custom resource.
func TestMutatingScale(t *testing.T) {
	c := startWebhook(t)
	c.define(t, widgetsWebhook)
	objects := c.dynamic.Resource(schema.GroupVersionResource{Group: "shop.example", Version: "v1",
		Resource: "widgets"}).Namespace("default")
	_, err := objects.Create(t.Context(), admittedWidget("v1", "w", `{"replicas":1}`), metav1.CreateOptions{})
	require.NoError(t, err)
	h := newHook(t, patched(`[{"op":"replace","path":"/spec/replicas","value":5}]`))
	c.mutating(t, "m", h, rule("UPDATE", "shop.example", "v1", "widgets/scale"))
	_, err = objects.Patch(t.Context(), "w", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`),
		metav1.PatchOptions{}, "scale")
	require.NoError(t, err)
	after, err := objects.Get(t.Context(), "w", metav1.GetOptions{})
	require.NoError(t, err)
	n, _, _ := unstructured.NestedInt64(after.Object, "spec", "replicas")
	assert.Equalf(t, n, 5, "replicas")
	if r := h.reviews()[0]; r.Kind.Kind != "Scale" || !strings.Contains(string(r.Object.Raw), `"replicas":3`) ||
		!strings.Contains(string(r.OldObject.Raw), `"replicas":1`) {
		t.Errorf("review %v: %s, %s", r.Kind, r.Object.Raw, r.OldObject.Raw)
	}
}

// A webhook can't change an object that is deleted.
func TestNoPatchAtDeletion(t *testing.T) {
	c := startWebhook(t)
	if _, err := c.create(t, configMapWebhook("cm")); err != nil {
		t.Fatal(err)
	}
	c.mutating(t, "m", newHook(t, patched(`[{"op":"add","path":"/data","value":{}}]`)),
		rule("DELETE", "", "v1", "configmaps"))
	err := c.CoreV1().ConfigMaps("default").Delete(t.Context(), "cm", metav1.DeleteOptions{})
	want := `admission webhook "m.kelson.dev" attempted to modify the object, which is not supported for this operation`
	assert.ErrorContainsf(t, err, want, "delete")
	_, err = c.CoreV1().ConfigMaps("default").Get(t.Context(), "cm", metav1.GetOptions{})
	assert.NoErrorf(t, err, "the object does not exist")
}

// If a webhook makes managedFields invalid, its change of them is dropped, and the client gets a
// warning.
func TestWebhookInvalidatesManagedFields(t *testing.T) {
	c := startWebhook(t)
	c.mutating(t, "m", newHook(t, patched(`[{"op":"add","path":"/metadata/managedFields/0/fieldsType","value":"nonsense"}]`)), rule("CREATE", "", "v1", "configmaps"))
	made, err := c.create(t, configMapWebhook("cm", "a", "1"))
	require.NoError(t, err)
	if len(made.ManagedFields) != 1 || made.ManagedFields[0].FieldsType != "FieldsV1" {
		t.Errorf("managedFields %v", made.ManagedFields)
	}
}
