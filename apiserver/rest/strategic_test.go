package rest

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"kelson.dev/apiserver/attacktest/bodies"
	"kelson.dev/internal/require"
)

// A strategic merge is refused before it begins if the library would compare too many elements, for
// any form of the patch.
func TestComparisons(t *testing.T) {
	schema, err := strategicpatch.NewPatchMetaFromStruct(corev1.ReplicationController{})
	require.NoError(t, err)
	env := func(list string) string {
		return `{"spec":{"template":{"spec":{"containers":[{"name":"c","env":` + list + `}]}}}}`
	}
	containers := func(member, list string) string {
		return `{"spec":{"template":{"spec":{"` + member + `":` + list + `}}}}`
	}
	finalizers := func(member, list string) string { return `{"metadata":{"` + member + `":` + list + `}}` }
	const (
		many = 4_000
		few  = 500
	)
	for _, test := range []struct {
		name          string
		object, patch func(n int) string
	}{
		{"elements", func(n int) string {
			return env(bodies.List(n, `{"name":"a%d"}`))
		}, func(n int) string { return env(bodies.List(n, `{"name":"b%d"}`)) }},
		{"one element of many", func(n int) string {
			return env(bodies.List(n, `{"name":"a%d"}`))
		}, func(int) string { return env(`[{"name":"a0"}]`) }},
		{"deletions", func(n int) string { return env(bodies.List(n, `{"name":"a%d"}`)) },
			func(n int) string { return env(bodies.List(n, `{"name":"b%d","$patch":"delete"}`)) }},
		{"an element that comes often", func(n int) string { return env(bodies.List(n/4, `{"name":"a%d"}`)) },
			func(n int) string {
				return containers("containers", bodies.List(n/4, `{"name":"c","env":[{"name":"b%d"}]}`))
			}},
		{"order", func(n int) string { return containers("containers", bodies.List(n, `{"name":"c%d"}`)) },
			func(n int) string { return containers("$setElementOrder/containers", bodies.List(n, `{"name":"c%d"}`)) }},
		{"values", func(n int) string {
			return finalizers("finalizers", bodies.List(n, `"a%d"`))
		}, func(int) string { return finalizers("finalizers", `["b"]`) }},
		{"deletion of values", func(n int) string { return finalizers("finalizers", bodies.List(n, `"a%d"`)) },
			func(n int) string { return finalizers("$deleteFromPrimitiveList/finalizers", bodies.List(n, `"a%d"`)) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			for n, want := range map[int]bool{few / 4: false, many: true} {
				var object, patch map[string]any
				require.NoError(t, json.Unmarshal([]byte(test.object(n)), &object))
				require.NoError(t, json.Unmarshal([]byte(test.patch(n)), &patch))
				var c comparisons
				if c.merge(object, []map[string]any{patch}, schema); c.tooMany() != want {
					t.Errorf("%d elements: %d comparisons, want too many: %v", n, c.count, want)
				}
			}
		})
	}
	t.Run("replaced lists cost nothing", func(t *testing.T) {
		var object, patch map[string]any
		for _, v := range []*map[string]any{&object, &patch} {
			err := json.Unmarshal([]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","args":`+
				bodies.List(many, `"a%d"`)+`}]}}}}`), v)
			require.NoError(t, err)
		}
		var c comparisons
		if c.merge(object, []map[string]any{patch}, schema); c.count > 100 {
			t.Errorf("%d comparisons", c.count)
		}
	})
	if mayBeSlow(4 << 10) {
		t.Error("a small patch is analyzed")
	}
	if !mayBeSlow(3 << 20) {
		t.Error("a large patch is not analyzed")
	}
}
