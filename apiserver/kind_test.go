package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

var (
	pizzas    = schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: "pizzas"}
	oldPizzas = schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "pizzas"}
	toppings  = schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "toppings"}
)

func quiet(config *rest.Config) *rest.Config {
	config.WarningHandler = rest.NoWarnings{}
	return config
}

func newServer(t testing.TB, parts ...apiserver.Part) (*apiserver.Server, dynamic.Interface) {
	t.Helper()
	s, err := apiserver.New(t.Context(), parts...)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	client, err := dynamic.NewForConfig(quiet(s.RESTConfig()))
	require.NoError(t, err)
	return s, client
}

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal([]byte(text), &u.Object))
	return u
}

func newPizza(t testing.TB, name, spec string) *unstructured.Unstructured {
	return object(t, `{"apiVersion":"`+group+`/v1beta1","kind":"Pizza","metadata":{"name":"`+name+`"},"spec":`+spec+`}`)
}

func newTopping(t testing.TB, name string) *unstructured.Unstructured {
	return object(t, `{"apiVersion":"`+group+`/v1alpha1","kind":"Topping","metadata":{"name":"`+name+
		`"},"spec":{"cost":1}}`)
}

// text returns a field of an object as JSON.
func text(t testing.TB, u *unstructured.Unstructured, path ...string) string {
	t.Helper()
	value, _, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	require.NoError(t, err)
	data, err := json.Marshal(value)
	require.NoError(t, err)
	return string(data)
}

func check(t testing.TB, what, got, want string) {
	t.Helper()
	assert.Equalf(t, got, want, "%s", what)
}

// Defaults, preparation, canonical form, generation, status and versions.
func TestVersions(t *testing.T) {
	_, client := newServer(t, kinds())
	ok := require.Value[*unstructured.Unstructured](t)
	in := client.Resource(pizzas).Namespace("default")
	ctx := t.Context()

	created := ok(in.Create(ctx, newPizza(t, "a",
		`{"toppings":[{"name":"salami","quantity":2},{"name":"mozzarella"}]}`), metav1.CreateOptions{}))
	check(t, "toppings", text(t, created, "spec", "toppings"),
		`[{"name":"mozzarella","quantity":1},{"name":"salami","quantity":2}]`)
	check(t, "size", text(t, created, "spec", "size"), `"medium"`)
	check(t, "generation", text(t, created, "metadata", "generation"), "1")
	check(t, "annotations", text(t, created, "metadata", "annotations"), `{"prepared":"yes"}`)

	old := ok(client.Resource(oldPizzas).Namespace("default").Get(ctx, "a", metav1.GetOptions{}))
	check(t, "old toppings", text(t, old, "spec", "toppings"), `["mozzarella","salami","salami"]`)
	check(t, "old version", old.GetAPIVersion(), group+"/v1alpha1")

	// A write in the other version, and of the status in the wrong place.
	old.Object["spec"].(map[string]any)["toppings"] = []any{"olive"}
	old.Object["status"] = map[string]any{"cost": int64(7)}
	ok(client.Resource(oldPizzas).Namespace("default").Update(ctx, old, metav1.UpdateOptions{}))
	now := ok(in.Get(ctx, "a", metav1.GetOptions{}))
	check(t, "toppings", text(t, now, "spec", "toppings"), `[{"name":"olive","quantity":1}]`)
	check(t, "generation", text(t, now, "metadata", "generation"), "2")
	check(t, "status", text(t, now, "status"), "null")

	now.Object["status"] = map[string]any{"cost": int64(7)}
	now.Object["spec"].(map[string]any)["size"] = "large"
	now = ok(in.UpdateStatus(ctx, now, metav1.UpdateOptions{}))
	check(t, "status", text(t, now, "status", "cost"), "7")
	check(t, "size", text(t, now, "spec", "size"), `"medium"`)
	check(t, "generation", text(t, now, "metadata", "generation"), "2")

	// Patches of all types.
	ok(in.Patch(ctx, "a", types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/labels","value":{"x":"y"}}]`),
		metav1.PatchOptions{}))
	now = ok(in.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"z":"1"}}}`),
		metav1.PatchOptions{}))
	check(t, "labels", text(t, now, "metadata", "labels"), `{"x":"y","z":"1"}`)
	now = ok(in.Patch(ctx, "a", types.StrategicMergePatchType,
		[]byte(`{"spec":{"toppings":[{"name":"ham","quantity":3}]}}`), metav1.PatchOptions{}))
	check(t, "merged toppings", text(t, now, "spec", "toppings"),
		`[{"name":"ham","quantity":3},{"name":"olive","quantity":1}]`)
}

// Validation with field paths, warnings, and dry-run.
func TestValidation(t *testing.T) {
	var warned warnings
	s, err := apiserver.New(t.Context(), kinds())
	require.NoError(t, err)
	defer s.Stop()
	config := s.RESTConfig()
	config.WarningHandler = &warned
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	in := client.Resource(pizzas).Namespace("default")
	ctx := t.Context()
	_, err = in.Create(ctx, newPizza(t, "a", `{"toppings":[{"name":"x","quantity":11}]}`), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(),
		"spec.toppings[0].quantity: Invalid value: 11: must be between 1 and 10") {
		t.Errorf("create: %v", err)
	}
	if _, err = in.Create(ctx, newPizza(t, "Not_A_Name", `{}`), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("name: %v", err)
	}
	if _, err = in.Create(ctx, newPizza(t, "a", `{"sise":"small"}`),
		metav1.CreateOptions{FieldValidation: "Strict"}); !apierrors.IsBadRequest(err) ||
		!strings.Contains(err.Error(), `unknown field "spec.sise"`) {
		t.Errorf("strict: %v", err)
	}
	_, err = in.Create(ctx, newPizza(t, "a", `{}`), metav1.CreateOptions{DryRun: []string{"All"}})
	assert.NoErrorf(t, err, "dry run")
	if len(warned) != 1 || warned[0] != "a pizza without toppings" {
		t.Errorf("warnings: %q", warned)
	}
	if _, err = in.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry run: %v", err)
	}
	created, err := in.Create(ctx, newPizza(t, "a", `{"size":"small"}`), metav1.CreateOptions{})
	require.NoError(t, err)
	created.Object["spec"] = map[string]any{"size": "large"}
	if _, err = in.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "spec.size: Forbidden: is immutable") {
		t.Errorf("update: %v", err)
	}
	created.Object["status"] = map[string]any{"cost": int64(-1)}
	if _, err = in.UpdateStatus(ctx, created, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("status: %v", err)
	}
	wrong := newPizza(t, "b", `{}`)
	wrong.SetKind("Topping")
	if _, err = in.Create(ctx, wrong, metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("wrong kind: %v", err)
	}
}

type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// server-side apply merges lists by their keys, tracks owners in all versions, and reports
// conflicts.
func TestApply(t *testing.T) {
	_, client := newServer(t, kinds())
	in := client.Resource(pizzas).Namespace("default")
	ctx := t.Context()
	ok := require.Value[*unstructured.Unstructured](t)
	ok(in.Apply(ctx, "a", newPizza(t, "a", `{"toppings":[{"name":"ham","quantity":2}]}`),
		metav1.ApplyOptions{FieldManager: "one"}))
	both := ok(in.Apply(ctx, "a", newPizza(t, "a", `{"toppings":[{"name":"olive","quantity":1}]}`),
		metav1.ApplyOptions{FieldManager: "two"}))
	check(t, "toppings", text(t, both, "spec", "toppings"),
		`[{"name":"ham","quantity":2},{"name":"olive","quantity":1}]`)
	if n := len(both.GetManagedFields()); n != 2 {
		t.Errorf("%d managers: %v", n, both.GetManagedFields())
	}
	_, err := in.Apply(ctx, "a", newPizza(t, "a", `{"toppings":[{"name":"ham","quantity":3}]}`),
		metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `.spec.toppings[name="ham"].quantity`) {
		t.Errorf("conflict: %v", err)
	}
	gone := ok(in.Apply(ctx, "a", newPizza(t, "a", `{}`), metav1.ApplyOptions{FieldManager: "one"}))
	check(t, "toppings", text(t, gone, "spec", "toppings"), `[{"name":"olive","quantity":1}]`)

	old := object(t, `{"apiVersion":"`+group+
		`/v1alpha1","kind":"Pizza","metadata":{"name":"b"},"spec":{"toppings":["ham","ham"]}}`)
	ok(client.Resource(oldPizzas).Namespace("default").Apply(ctx, "b", old, metav1.ApplyOptions{FieldManager: "one"}))
	status := newPizza(t, "b", `{}`)
	delete(status.Object, "spec")
	status.Object["status"] = map[string]any{"cost": int64(3)}
	applied := ok(in.ApplyStatus(ctx, "b", status, metav1.ApplyOptions{FieldManager: "cook"}))
	check(t, "status", text(t, applied, "status", "cost"), "3")
	check(t, "toppings", text(t, applied, "spec", "toppings"), `[{"name":"ham","quantity":2}]`)
}

// Watch, label and field selectors, deletecollection, finalizers and graceful deletion.
func TestLifecycle(t *testing.T) {
	_, client := newServer(t, kinds())
	in := client.Resource(pizzas).Namespace("default")
	ctx := t.Context()
	ok := require.Value[*unstructured.Unstructured](t)
	w, err := client.Resource(oldPizzas).Namespace("default").Watch(ctx,
		metav1.ListOptions{FieldSelector: "spec.size=large"})
	require.NoError(t, err)
	defer w.Stop()
	for name, size := range map[string]string{"a": "small", "b": "large"} {
		ok(in.Create(ctx, newPizza(t, name, `{"size":"`+size+`"}`), metav1.CreateOptions{}))
	}
	if e := <-w.ResultChan(); e.Type != watch.Added || e.Object.(*unstructured.Unstructured).GetName() != "b" ||
		e.Object.(*unstructured.Unstructured).GetAPIVersion() != group+"/v1alpha1" {
		t.Errorf("event: %v", e)
	}
	list, err := in.List(ctx, metav1.ListOptions{FieldSelector: "spec.size!=large"})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "a" {
		t.Errorf("list: %v, %v", list, err)
	}
	if _, err := in.List(ctx, metav1.ListOptions{FieldSelector: "spec.color=red"}); !apierrors.IsBadRequest(err) {
		t.Errorf("unknown field: %v", err)
	}

	// A finalizer holds the object.
	ok(in.Patch(ctx, "b", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/x"]}}`),
		metav1.PatchOptions{}))
	<-w.ResultChan()
	require.NoError(t, in.Delete(ctx, "b", metav1.DeleteOptions{}))
	if held := ok(in.Get(ctx, "b", metav1.GetOptions{})); held.GetDeletionTimestamp() == nil {
		t.Error("no deletionTimestamp")
	}
	<-w.ResultChan()
	ok(in.Patch(ctx, "b", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	e := <-w.ResultChan()
	assert.Equalf(t, e.Type, watch.Deleted, "event: %v", e)

	// A grace period does, too.
	ok(in.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"oven":"yes"}}}`),
		metav1.PatchOptions{}))
	require.NoError(t, in.Delete(ctx, "a", metav1.DeleteOptions{}))
	marked := ok(in.Get(ctx, "a", metav1.GetOptions{}))
	if seconds := marked.GetDeletionGracePeriodSeconds(); seconds == nil || *seconds != 30 {
		t.Errorf("grace period %v", seconds)
	}
	require.NoError(t, in.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)},
		metav1.ListOptions{}))
	if list, err = in.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("after deletecollection: %v, %v", list, err)
	}
}

// Tables, discovery, OpenAPI, CBOR, and the refusal of protobuf.
func TestDocuments(t *testing.T) {
	s, client := newServer(t, kinds())
	ctx := t.Context()
	_, err := client.Resource(pizzas).Namespace("default").Create(ctx, newPizza(t, "a", `{"size":"large"}`),
		metav1.CreateOptions{})
	require.NoError(t, err)
	path := "/apis/" + group + "/v1alpha1/namespaces/default/pizzas"
	table := body(t, s, path, "application/json;as=Table;v=v1;g=meta.k8s.io")
	for _, want := range []string{`"name":"Name"`, `"name":"Size"`, `"name":"Age"`, `"cells":["a","large",`} {
		if !strings.Contains(table, want) {
			t.Errorf("table has no %s: %s", want, table)
		}
	}
	if got := body(t, s, path+"/a", "application/cbor"); !strings.HasPrefix(got, "\xd9\xd9\xf7") {
		t.Errorf("CBOR: %q", got)
	}
	config := rest.CopyConfig(s.RESTConfig())
	found, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	resources, err := found.ServerResourcesForGroupVersion(group + "/v1beta1")
	if err != nil || len(resources.APIResources) != 2 || resources.APIResources[0].Name != "pizzas" ||
		resources.APIResources[0].ShortNames[0] != "pz" || resources.APIResources[1].Name != "pizzas/status" {
		t.Errorf("resources: %+v, %v", resources, err)
	}
	doc, err := found.OpenAPISchema()
	if err != nil || len(doc.GetPaths().GetPath()) == 0 {
		t.Errorf("OpenAPI v2: %v", err)
	}
	v3 := body(t, s, "/openapi/v3/apis/"+group+"/v1beta1", "application/json")
	for _, want := range []string{`"com.example.restaurant.v1beta1.Pizza"`, `"x-kubernetes-list-map-keys":["name"]`,
		`/namespaces/{namespace}/pizzas/{name}/status`} {
		if !strings.Contains(v3, want) {
			t.Errorf("OpenAPI v3 has no %s", want)
		}
	}
	resp := do(t, s, path+"/a", "application/vnd.kubernetes.protobuf")
	resp.Body.Close()
	assert.Equalf(t, resp.StatusCode, http.StatusNotAcceptable, "protobuf: %s", resp.Status)
}

func do(t testing.TB, s *apiserver.Server, path, accept string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server"+path, nil)
	require.NoError(t, err)
	req.Header.Set("Accept", accept)
	resp, err := s.RESTConfig().Transport.RoundTrip(req)
	require.NoError(t, err)
	return resp
}

func body(t testing.TB, s *apiserver.Server, path, accept string) string {
	t.Helper()
	resp := do(t, s, path, accept)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v: %s", path, resp.Status, err, data)
	}
	return string(data)
}

type wrongSignature struct{}

func (wrongSignature) Validate(*pizza) field.ErrorList { return nil }

type noConversion struct{ oldPizza }

func (*noConversion) ConvertTo(*topping) error   { return nil }
func (*noConversion) ConvertFrom(*topping) error { return nil }

// New returns errors for mistakes that the compiler cannot find.
func TestMistakes(t *testing.T) {
	hub := &pizza{TypeMeta: typeMeta("v1beta1", "Pizza")}
	for name, test := range map[string]struct {
		part apiserver.Part
		want string
	}{
		"no version": {apiserver.Group(group, apiserver.Kind(&pizza{})),
			`"apiserver_test" is not the name of a version`},
		"wrong signature": {apiserver.Group(group, apiserver.Kind(hub, wrongSignature{})),
			"the method Validate must be func(context.Context, *apiserver_test.pizza) field.ErrorList, and is func(*apiserver_test.pizza) field.ErrorList"},
		"no rules": {apiserver.Group(group, apiserver.Kind(hub, struct{}{})), "has no method of a rule"},
		"another hub": {apiserver.Group(group, apiserver.Kind(hub, apiserver.Version(&noConversion{}))),
			"converts to *apiserver_test.topping"},
		"no group": {apiserver.Group("pizzas", apiserver.Kind(hub)), "must be a domain name"},
		"storage version": {apiserver.Group(group, apiserver.Kind(hub, apiserver.StorageVersion("v9"))),
			`storage version "v9"`},
		"twice": {apiserver.Group(group, apiserver.Kind(hub),
			apiserver.Kind(&topping{TypeMeta: typeMeta("v1", "Other")}, apiserver.Names("pizzas"))),
			"two kinds are served as pizzas." + group},
		"no such list": {apiserver.Group(group, apiserver.Kind(hub, apiserver.ListMap("spec.toppings", "color"))),
			"no version has a list at spec.toppings"},
		"unknown type": {apiserver.Admission(func(context.Context, *apiserver.Tx, *apiserver.Write[*pizza]) error {
			return nil
		}), "not the type of a kind"},
	} {
		s, err := apiserver.New(t.Context(), test.part)
		if err == nil {
			s.Stop()
		}
		assert.ErrorContainsf(t, err, test.want, "%s", name)
	}
}

// Health checks, metrics and flow control are those of kube-apiserver.
func TestOperation(t *testing.T) {
	s, _ := newServer(t, kinds(), apiserver.Check("oven", func(context.Context) error { return errors.New("cold") }))
	assert.Equalf(t, body(t, s, "/livez/ping", "*/*"), "ok", "ping")
	resp := do(t, s, "/readyz", "*/*")
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusInternalServerError ||
		!strings.Contains(string(data), "[-]oven failed: reason withheld\n[+]store ok") &&
			!strings.Contains(string(data), "[+]store ok\n[-]oven failed") {
		t.Errorf("readyz: %s, %v: %s", resp.Status, err, data)
	}
	list := do(t, s, "/apis/"+group+"/v1beta1/pizzas", "application/json")
	list.Body.Close()
	if list.Header.Get("X-Kubernetes-Pf-Flowschema-Uid") == "" && list.Header["X-Kubernetes-Pf-Flowschema-Uid"] == nil {
		t.Errorf("no flow control: %v", list.Header)
	}
	if got := body(t, s, "/metrics", "*/*"); !strings.Contains(got, `apiserver_request_total{`) ||
		!strings.Contains(got, `resource="pizzas"`) {
		t.Error("no metrics of requests")
	}
}
