package builtin

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/require"
)

const benchPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"default","labels":{"app":"a"}},"spec":{"containers":[{"name":"a","image":"i","env":[{"name":"A","value":"b"}]}]}}`

// BenchmarkWrite measures the steps of a create.
func BenchmarkWrite(b *testing.B) {
	r := resources(b, Config{})("", "pods")
	hub := decode(b, r, "v1", resource.MediaJSON, []byte(benchPod))
	manager, err := r.Codec.FieldManager("v1", "")
	require.NoError(b, err)
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			decode(b, r, "v1", resource.MediaJSON, []byte(benchPod))
		}
	})
	b.Run("managedFields", func(b *testing.B) {
		for b.Loop() {
			manager.UpdateNoErrors(r.Codec.New(), hub, "m")
		}
	})
	b.Run("store", func(b *testing.B) {
		for b.Loop() {
			_, err := r.Codec.Store(hub)
			require.NoError(b, err)
		}
	})
	stored, _ := r.Codec.Store(hub)
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			_, err := r.Codec.Load(stored)
			require.NoError(b, err)
		}
	})
	var versioned runtime.Object
	b.Run("convert", func(b *testing.B) {
		for b.Loop() {
			versioned, _ = r.Codec.ToVersion(hub, "v1")
		}
	})
	_ = versioned
}

// BenchmarkSchemas measures the schema that the first write of a process builds for managedFields.
func BenchmarkSchemas(b *testing.B) {
	kind := resources(b, Config{})("", "pods").GVK("v1")
	for b.Loop() {
		s := &schemas{types: map[string]smd.TypeDef{}, kinds: map[schema.GroupVersionKind]*typed.ParseableType{}}
		_, err := s.typeOf(kind)
		require.NoError(b, err)
	}
}
