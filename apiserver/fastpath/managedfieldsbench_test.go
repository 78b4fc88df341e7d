package fastpath_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/apiserver/internal/crdtest"
	"kelson.dev/internal/require"
)

// BenchmarkMapManager measures the writes of a custom object that its manager has applied.
func BenchmarkMapManager(b *testing.B) {
	manager, err := codecOf(b).FieldManager("v1", "")
	require.NoError(b, err)
	config := func(count int64) *unstructured.Unstructured {
		return crdtest.Widget(map[string]any{"name": "w", "labels": map[string]any{"app": "web"}},
			map[string]any{"spec": map[string]any{
				"count": count, "text": "a", "flag": true, "list": []any{"a", "b"},
				"labels": map[string]any{"x": "1", "y": "2"},
				"deep":   map[string]any{"a": map[string]any{"b": "c", "c": int64(1)}},
			}})
	}
	empty := crdtest.Widget(nil, nil)
	delete(empty.Object, "metadata")
	applied, err := manager.Apply(empty, config(1), "op", false)
	require.NoError(b, err)
	live := applied.(*unstructured.Unstructured)
	live.SetUID("u")
	withPorts := func(port int64) *unstructured.Unstructured {
		u := config(1)
		u.Object["spec"].(map[string]any)["ports"] = []any{
			map[string]any{"name": "a", "port": port, "on": true},
			map[string]any{"name": "b", "port": int64(2), "on": true},
		}
		return u
	}
	withKeys, err := manager.Apply(empty, withPorts(1), "op", false)
	require.NoError(b, err)
	liveWithPorts := withKeys.(*unstructured.Unstructured)
	liveWithPorts.SetUID("u")
	apply := func(live, config *unstructured.Unstructured) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := manager.Apply(live, config, "op", false)
				require.NoError(b, err)
			}
		}
	}
	b.Run("apply-same", apply(live, config(1)))
	b.Run("apply-other", apply(live, config(2)))
	b.Run("apply-keyed", apply(liveWithPorts, withPorts(2)))
	b.Run("update", func(b *testing.B) {
		b.ReportAllocs()
		next := live.DeepCopy()
		next.Object["spec"].(map[string]any)["count"] = int64(3)
		text, err := json.Marshal(next.Object["metadata"])
		require.NoError(b, err)
		for b.Loop() {
			b.StopTimer()
			var metadata map[string]any
			require.NoError(b, json.Unmarshal(text, &metadata))
			metadata["managedFields"] = live.Object["metadata"].(map[string]any)["managedFields"]
			next.Object["metadata"] = metadata
			b.StartTimer()
			manager.UpdateNoErrors(live, next, "hand")
		}
	})
}
