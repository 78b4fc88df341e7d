package builtin

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/require"
)

const (
	benchConfigMap  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default","labels":{"app":"a"},"creationTimestamp":"2026-01-02T03:04:05Z"},"data":{"a":"1","b":"2"}}`
	benchDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"default","labels":{"app":"a"},"creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"a","image":"i","ports":[{"containerPort":80}],"env":[{"name":"A","value":"b"}]}]}}}}`
)

// BenchmarkFastPath measures each fast path of built-in kinds against the library's work that it
// saves. docs/design/fastpaths.md has the figures.
func BenchmarkFastPath(b *testing.B) {
	fast, library := resources(b, Config{}), resources(b, Config{NoFastPaths: true})
	for _, kind := range []struct{ group, plural, body string }{{"", "configmaps", benchConfigMap},
		{"apps", "deployments", benchDeployment}} {
		steps := [2]map[string]func(){
			fastPathSteps(b, fast(kind.group, kind.plural), kind.body),
			fastPathSteps(b, library(kind.group, kind.plural), kind.body),
		}
		for _, name := range slices.Sorted(maps.Keys(steps[0])) {
			for i, by := range []string{"fast", "library"} {
				b.Run(kind.plural+"/"+name+"/"+by, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						steps[i][name]()
					}
				})
			}
		}
	}
}

// fastPathSteps returns those steps of a write that have a fast path. Each step calls r.
func fastPathSteps(b *testing.B, r *resource.Resource, body string) map[string]func() {
	version := r.Versions[0].Name
	hub := decode(b, r, version, resource.MediaJSON, []byte(body))
	manager, err := r.Codec.FieldManager(version, "")
	require.NoError(b, err)
	config := &unstructured.Unstructured{}
	require.NoError(b, config.UnmarshalJSON([]byte(body)))
	unstructured.RemoveNestedField(config.Object, "metadata", "creationTimestamp")
	empty, err := Scheme().New(r.GVK(version))
	require.NoError(b, err)
	empty.GetObjectKind().SetGroupVersionKind(r.GVK(version))
	live, err := manager.Apply(empty, config, "op", true)
	require.NoError(b, err)
	for _, obj := range []runtime.Object{hub, live} {
		object, err := meta.Accessor(obj)
		require.NoError(b, err)
		object.SetUID(types.UID("u"))
		object.SetResourceVersion("1")
	}
	created, err := meta.Accessor(hub)
	require.NoError(b, err)
	stored, err := r.Codec.Store(hub)
	require.NoError(b, err)
	ctx := request.WithNamespace(b.Context(), "default")
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{APIGroup: r.Group, APIVersion: version, Resource: r.Plural})
	steps := map[string]func(){
		"own a create": func() {
			created.SetManagedFields(nil)
			manager.UpdateNoErrors(empty, hub, "op")
		},
		"apply a new one": func() {
			_, err := manager.Apply(empty, config, "op", false)
			require.NoError(b, err)
		},
		"apply the same": func() {
			_, err := manager.Apply(live, config, "op", false)
			require.NoError(b, err)
		},
		"convert for the response": func() {
			if _, ok := r.Codec.(resource.Fresh).Written(hub, stored, version); ok {
				return
			}
			loaded, err := r.Codec.Load(stored)
			require.NoError(b, err)
			_, err = r.Codec.ToVersion(loaded, version)
			require.NoError(b, err)
		},
	}
	if r.Plural == "configmaps" {
		steps["prepare a create"] = func() {
			if shortcut, ok := r.Strategy.(resource.Shortcut); ok {
				if errs, done := shortcut.BeforeCreate(ctx, hub); done && len(errs) == 0 {
					return
				}
				b.Fatal("not on the fast path")
			}
			require.NoError(b, upstream.BeforeCreate(r.Strategy, ctx, hub))
		}
	}
	return steps
}
