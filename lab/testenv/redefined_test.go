package testenv_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/informer"
)

// definitionOf returns the definition of the kind Gadget with a plural.
func definitionOf(plural string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": "Gadget"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
		},
	}}
}

// An informer follows a kind whose definition is deleted and created again, also with another
// plural, which is another path on the server: its watch ends with the definition.
func TestRedefinedKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t)
		gadget := &unstructured.Unstructured{}
		gadget.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"})
		informers, err := informer.New(informer.Config{Client: env.Client()})
		require.NoError(t, err)
		inf, err := informers.For(gadget)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- informers.Run(ctx) }()
		for i, plural := range []string{"gadgets", "gadgetry", "gadgets"} {
			definition := definitionOf(plural)
			env.Create(t, definition)
			name := fmt.Sprint("g", i)
			obj := gadget.DeepCopy()
			obj.SetNamespace("default")
			obj.SetName(name)
			env.Create(t, obj)
			time.Sleep(5 * time.Minute)
			if list := inf.List("default"); len(list) != 1 || list[0].GetName() != name {
				t.Errorf("%s: the informer has %d objects, want only %s", plural, len(list), name)
			}
			require.NoError(t, env.Client().Delete(t.Context(), definition))
			time.Sleep(5 * time.Minute)
		}
		cancel()
		<-ended
	})
}
