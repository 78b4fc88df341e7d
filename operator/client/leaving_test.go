package client_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest/apiserver"
)

// docs/guides/leaving.md. Objects that the client created in place of an apply have fields of a
// second manager, which an apply by client-go does not remove. After one apply with Plain.Applies,
// client-go's apply removes them.
func TestLeavingStory(t *testing.T) {
	cfg := apiserver.For(t)
	ctx := t.Context()
	owner := func(plain client.Plain) client.Client {
		c, err := client.New(client.Config{REST: cfg, FieldOwner: "leaver", Plain: plain})
		must(t, err)
		return c
	}
	plain, err := clientgo.NewForConfig(cfg)
	must(t, err)
	name := "leaving-" + strings.ReplaceAll(time.Now().Format("150405.000"), ".", "-")
	configMap := func(suffix string, data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + suffix}, Data: data}
	}
	// left applies an object without b with client-go, and returns the resulting object.
	left := func(suffix string) (fields, managers []string) {
		data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": name + suffix, "namespace": "default"},
			"data":     map[string]any{"a": "2"}})
		must(t, err)
		u := &unstructured.Unstructured{}
		must(t, u.UnmarshalJSON(data))
		got, err := plain.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).
			Namespace("default").
			Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "leaver", Force: true})
		must(t, err)
		values, _, _ := unstructured.NestedStringMap(got.Object, "data")
		for field, value := range values {
			fields = append(fields, field+"="+value)
		}
		for _, e := range got.GetManagedFields() {
			managers = append(managers, e.Manager+" "+string(e.Operation))
		}
		slices.Sort(fields)
		slices.Sort(managers)
		return fields, managers
	}
	for suffix, want := range map[string]struct{ fields, managers []string }{
		"-stranded": {[]string{"a=2", "b=1"}, []string{"leaver Apply", "leaver:apply Update"}},
		"-left":     {[]string{"a=2"}, []string{"leaver Apply"}},
		"-never":    {[]string{"a=2"}, []string{"leaver Apply"}},
	} {
		t.Run(suffix[1:], func(t *testing.T) {
			isNew, data := client.WriteOptions{New: true}, map[string]string{"a": "1", "b": "1"}
			t.Cleanup(func() { _ = owner(client.Plain{}).Delete(context.Background(), configMap(suffix, nil)) })
			must(t, owner(client.Plain{Applies: suffix == "-never"}).Apply(ctx, configMap(suffix, data), isNew))
			if suffix == "-left" { // after one run of an operator configured to leave
				must(t, owner(client.Plain{Applies: true}).Apply(ctx, configMap(suffix, data)))
			}
			if fields, managers := left(suffix); !slices.Equal(fields, want.fields) ||
				!slices.Equal(managers, want.managers) {
				t.Errorf("left %q of %q, want %q of %q", fields, managers, want.fields, want.managers)
			}
		})
	}
}

// The optimizations of statuses can be turned off one by one.
func TestPlainStatusStory(t *testing.T) {
	cfg := apiserver.For(t)
	ctx := t.Context()
	group := "bay" + time.Now().Format("150405") + ".kelson.dev"
	admin, err := client.New(client.Config{REST: cfg, FieldOwner: "other"})
	must(t, err)
	crd := &unstructured.Unstructured{}
	must(t, json.Unmarshal([]byte(strings.ReplaceAll(lighthouseCRD, "GROUP", group)), &crd.Object))
	must(t, admin.Create(ctx, crd))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd) })
	for name, tt := range map[string]struct {
		plain client.Plain
		want  []string
	}{
		"default":  {client.Plain{}, []string{sentProbe, sentUpdate}},
		"statuses": {client.Plain{Statuses: true}, []string{sentPatch}},
		"custom":   {client.Plain{IsCustom: func(schema.GroupVersionKind) bool { return true }}, []string{sentUpdate}},
		"builtin":  {client.Plain{IsCustom: func(schema.GroupVersionKind) bool { return false }}, []string{sentPatch}},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Lighthouse",
				"spec": map[string]any{"height": int64(30)}}}
			u.SetNamespace("default")
			u.SetName(name)
			for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
				if err := admin.Create(ctx, u); err == nil {
					break
				} else if time.Since(begin) > time.Minute {
					t.Fatal(err)
				}
			}
			sent := &requests{}
			wrapped := rest.CopyConfig(cfg)
			wrapped.Wrap(sent.wrap)
			c, err := client.New(client.Config{REST: wrapped, FieldOwner: "founder", Plain: tt.plain})
			must(t, err)
			must(t, c.Subresource("status").Patch(ctx, u.DeepCopy(), client.StatusPatch{
				Before: u, Old: []byte("null"), New: []byte(`{"lit":true}`),
				Document: []byte(`{"metadata":{"resourceVersion":"` + u.GetResourceVersion() +
					`"},"status":{"lit":true}}`),
			}))
			sent.want(t, tt.want...)
		})
	}
}
