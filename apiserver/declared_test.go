package apiserver_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/apiservertest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// menu is a hub with the methods that the generators validation and lifecycle write.
type menu struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Dishes            int64      `json:"dishes"`
	Title             string     `json:"title,omitempty"`
	Status            menuStatus `json:"status,omitzero"`
}

type menuStatus struct {
	Orders int64 `json:"orders,omitempty"`
}

func (m *menu) DeepCopyObject() runtime.Object {
	out := *m
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (m *menu) ValidateDeclaratively(ctx context.Context, op operation.Operation,
	old runtime.Object) (errs field.ErrorList) {
	before, _ := old.(*menu)
	if before == nil || before.Dishes != m.Dishes {
		errs = append(errs, validate.Maximum(ctx, op, field.NewPath("dishes"), &m.Dishes, nil, 10)...)
	}
	if before != nil {
		errs = append(errs, validate.Monotonic(ctx, op, field.NewPath("status", "orders"), &m.Status.Orders,
			&before.Status.Orders)...)
	}
	errs = append(errs, validate.MaxLength(ctx, op, field.NewPath("title"), &m.Title, nil, 1).MarkAlpha()...)
	return append(errs, validate.IfOption(ctx, op, field.NewPath("title"), &m.Title, nil, "NoTitles", true,
		validate.ForbiddenValue)...)
}

// oldMenu is a version with another name of a field.
type oldMenu struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Courses           int64      `json:"courses"`
	Title             string     `json:"title,omitempty"`
	Status            menuStatus `json:"status,omitzero"`
}

func (m *oldMenu) DeepCopyObject() runtime.Object {
	out := *m
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (m *oldMenu) ConvertTo(hub *menu) error {
	hub.ObjectMeta, hub.Dishes, hub.Title, hub.Status = m.ObjectMeta, m.Courses, m.Title, m.Status
	return nil
}

func (m *oldMenu) ConvertFrom(hub *menu) error {
	m.ObjectMeta, m.Courses, m.Title, m.Status = hub.ObjectMeta, hub.Dishes, hub.Title, hub.Status
	return nil
}

func (m *oldMenu) ValidateDeclaratively(ctx context.Context, op operation.Operation, _ runtime.Object) field.ErrorList {
	return append(validate.Maximum(ctx, op, field.NewPath("courses"), &m.Courses, nil, 10),
		validate.IfOption(ctx, op, field.NewPath("title"), &m.Title, nil, "NoTitles", true, validate.ForbiddenValue)...)
}

func (m *oldMenu) APILifecycleIntroduced() (major, minor int) { return 1, 0 }
func (m *oldMenu) APILifecycleDeprecated() (major, minor int) { return 1, 3 }
func (m *oldMenu) APILifecycleRemoved() (major, minor int)    { return 1, 6 }
func (m *oldMenu) APILifecycleReplacement() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Menu"}
}

// menuRules switches an option on for objects with a label.
type menuRules struct{}

func (menuRules) ValidationOptions(_ context.Context, obj, _ *menu) map[string]bool {
	return map[string]bool{"NoTitles": obj.Labels["plain"] == "yes"}
}

func menus(version string) []apiserver.Part {
	named := func(version string) metav1.TypeMeta {
		return metav1.TypeMeta{Kind: "Menu", APIVersion: group + "/" + version}
	}
	return []apiserver.Part{apiserver.Title("menus", version), apiserver.Group(group,
		apiserver.Kind(&menu{TypeMeta: named("v1")}, apiserver.Version(&oldMenu{TypeMeta: named("v1beta1")}),
			menuRules{}))}
}

// warned collects the warnings of a server.
type warned struct{ texts []string }

func (w *warned) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

func menuClient(t *testing.T, version string) (func(version string) dynamic.ResourceInterface, *warned) {
	t.Helper()
	env, warnings := apiservertest.New(t, menus(version)...), &warned{}
	config := rest.CopyConfig(env.RESTConfig())
	config.WarningHandler = warnings
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return func(version string) dynamic.ResourceInterface {
		return client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "menus"}).
			Namespace("default")
	}, warnings
}

func menuOf(version, name string, fields map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: fields}
	obj.SetAPIVersion(group + "/" + version)
	obj.SetKind("Menu")
	obj.SetName(name)
	return obj
}

// The library validates kinds whose types have generated functions.
func TestDeclaredRules(t *testing.T) {
	client, _ := menuClient(t, "v1.0.0")
	for _, c := range []struct {
		what, version string
		fields        map[string]any
		labels        map[string]string
		want          []string // parts of the error; empty means success
		not           string
	}{
		{what: "valid", version: "v1", fields: map[string]any{"dishes": int64(10), "title": "long"}},
		{what: "too many", version: "v1", fields: map[string]any{"dishes": int64(11)},
			want: []string{"dishes: Invalid value: 11", "10"}},
		{what: "in the client's version", version: "v1beta1", fields: map[string]any{"courses": int64(11)},
			want: []string{"courses: Invalid value: 11"}},
		{what: "an option", version: "v1", fields: map[string]any{"dishes": int64(1), "title": "x"},
			labels: map[string]string{"plain": "yes"}, want: []string{"title: Forbidden"}},
		{what: "once", version: "v1beta1", fields: map[string]any{"courses": int64(1), "title": "x"},
			labels: map[string]string{"plain": "yes"}, want: []string{"title: Forbidden"}, not: "["},
	} {
		t.Run(c.what, func(t *testing.T) {
			obj := menuOf(c.version, strings.ReplaceAll(strings.ToLower(c.what), " ", "-")[:4], c.fields)
			obj.SetLabels(c.labels)
			_, err := client(c.version).Create(t.Context(), obj, metav1.CreateOptions{DryRun: []string{"All"}})
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				assert.Containsf(t, err.Error(), want, "%v", err)
			}
			if c.not != "" && strings.Contains(err.Error(), c.not) {
				t.Errorf("%v: two errors", err)
			}
		})
	}

	created, err := client("v1").Create(t.Context(), menuOf("v1", "lunch", map[string]any{"dishes": int64(3)}),
		metav1.CreateOptions{})
	require.NoError(t, err)
	set := func(orders int64) error {
		require.NoError(t, unstructured.SetNestedField(created.Object, orders, "status", "orders"))
		next, err := client("v1").UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
		if err == nil {
			created = next
		}
		return err
	}
	assert.NoError(t, set(5))
	assert.ErrorContainsf(t, set(4), "status.orders", "decreased orders")
}

// Clients of a version that the release deprecates get Kubernetes' warning.
func TestDeprecatedByLifecycle(t *testing.T) {
	for _, c := range []struct{ release, want string }{
		{"v1.2.9", ""},
		{"v1.3.0", group + "/v1beta1 Menu is deprecated in v1.3+, unavailable in v1.6+; use " + group + "/v1 Menu"},
		{"v0.0.0", group + "/v1beta1 Menu is deprecated in v1.3+, unavailable in v1.6+; use " + group + "/v1 Menu"},
	} {
		client, warnings := menuClient(t, c.release)
		for _, version := range []string{"v1", "v1beta1"} {
			_, err := client(version).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
		}
		assert.Equalf(t, strings.Join(warnings.texts, "\n"), c.want, "release %s: warnings", c.release)
	}
}
