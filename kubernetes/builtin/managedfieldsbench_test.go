package builtin_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/builtin"
)

// BenchmarkStructManager measures the writes of a Deployment.
func BenchmarkStructManager(b *testing.B) {
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	codec := codecOf(b, kind)
	manager, err := codec.FieldManager(kind.Version, "")
	require.NoError(b, err)
	config := func(image string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		body := `{"apiVersion":"apps/v1","kind":"Deployment",` + usualMetadata +
			`,"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":` + usualPod + `}}}`
		require.NoError(b, u.UnmarshalJSON([]byte(strings.ReplaceAll(body, "web:v1", image))))
		return u
	}
	empty, err := builtin.Scheme().New(kind)
	require.NoError(b, err)
	empty.GetObjectKind().SetGroupVersionKind(kind)
	live, err := manager.Apply(empty, config("web:v1"), "op", true)
	require.NoError(b, err)
	for name, image := range map[string]string{"apply-same": "web:v1", "apply-other": "web:v2"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			next := config(image)
			for b.Loop() {
				_, err := manager.Apply(live, next, "op", false)
				require.NoError(b, err)
			}
		})
	}
	b.Run("apply-new", func(b *testing.B) {
		b.ReportAllocs()
		next := config("web:v1")
		for b.Loop() {
			_, err := manager.Apply(empty, next, "op", false)
			require.NoError(b, err)
		}
	})
}
