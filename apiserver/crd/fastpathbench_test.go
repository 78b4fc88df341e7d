package crd

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/fastpath/trees"
	"kelson.dev/apiserver/internal/crdtest"
	"kelson.dev/internal/require"
)

// BenchmarkFastPath measures each fast path of custom kinds against the library's work that it
// saves, on a widget of 1 KB. docs/design/fastpaths.md has the figures.
func BenchmarkFastPath(b *testing.B) {
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(b, json.Unmarshal([]byte(crdtest.Definition), &definition))
	compiledAs := func(off bool) *compiled {
		return (&definitionRevision{revision: 1, definition: &definition}).compile(&Definitions{noFastPaths: off})
	}
	fast, library := fastPathSteps(b, compiledAs(false), false), fastPathSteps(b, compiledAs(true), true)
	for _, name := range slices.Sorted(maps.Keys(fast)) {
		for _, by := range []struct {
			name string
			run  func()
		}{{"fast", fast[name]}, {"library", library[name]}} {
			b.Run(name+"/"+by.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					by.run()
				}
			})
		}
	}
}

// fastPathSteps returns the steps of writes that have a fast path, as c takes them.
func fastPathSteps(b *testing.B, c *compiled, off bool) map[string]func() {
	manager, err := c.models.manager("v1", "")
	require.NoError(b, err)
	rules, err := c.versions["v1"].rules()
	require.NoError(b, err)
	empty := crdtest.Widget(nil, nil)
	delete(empty.Object, "metadata")
	config := func() *unstructured.Unstructured {
		return crdtest.Widget(map[string]any{"name": "w", "namespace": "default",
			"labels": map[string]any{"app": "web"}}, map[string]any{"spec": benchSpec()})
	}
	applied, err := manager.Apply(empty, config(), "op", false)
	require.NoError(b, err)
	live := applied.(*unstructured.Unstructured)
	live.SetUID("u")
	live.SetResourceVersion("1")
	live.SetGeneration(1)
	metadata := live.Object["metadata"].(map[string]any)
	metadata["creationTimestamp"] = "2026-01-02T03:04:05Z"
	next := live.DeepCopy()
	next.Object["spec"].(map[string]any)["count"] = int64(2)
	stored, configured := []byte(crdtest.Text(live)), []byte(crdtest.Text(config()))
	patch := []byte(`{"spec":{"count":2}}`)
	ctx := request.WithNamespace(b.Context(), "default")
	s, codec := &strategy{compiled: c, hub: "v1"}, &codec{compiled: c, hub: "v1"}
	must := func(ok bool, err error) {
		if !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
	return map[string]func(){
		"own a create": func() { manager.UpdateNoErrors(empty, config(), "op") },
		"own an apply": func() {
			_, err := manager.Apply(live, config(), "op", false)
			must(true, err)
		},
		"validate": func() {
			if !rules.certain(next.Object) {
				must(len(rules.main.Validate(ctx, next)) == 0, nil)
			}
		},
		"check lists": func() {
			if off {
				must(len(listtype.ValidateListSetsAndMaps(nil, rules.structural, next.Object)) == 0, nil)
				return
			}
			must(rules.lists.Valid(next.Object), nil)
		},
		"prune and default": func() {
			_, err := c.coerceContent(next, coercion{})
			must(true, err)
			must(true, c.applyDefaults(next))
		},
		"prune, default and coerce metadata": func() {
			_, err := codec.complete(next, false)
			must(true, err)
		},
		"prepare a create": func() {
			if errs, done := s.BeforeCreate(ctx, next); done {
				must(len(errs) == 0, nil)
				return
			}
			must(true, upstream.BeforeCreate(s, ctx, next))
		},
		"prepare an update": func() {
			if errs, done := s.BeforeUpdate(ctx, next, live); done {
				must(len(errs) == 0, nil)
				return
			}
			must(true, upstream.BeforeUpdate(s, ctx, next, live))
		},
		"parse": func() {
			_, _, err := codec.parse(stored, "application/json")
			must(true, err)
		},
		"encode": func() {
			_, err := c.encodeTree(live.Object)
			must(true, err)
		},
		"merge a patch": func() {
			if _, ok := codec.MergePatch(stored, patch, "v1"); ok {
				return
			}
			merged, err := jsonpatch.MergePatch(stored, patch)
			must(true, err)
			_, _, err = codec.DecodePatched(merged, "v1")
			must(true, err)
		},
		"parse a configuration": func() {
			if off {
				var config map[string]any
				must(true, yaml.Unmarshal(configured, &config))
				return
			}
			_, ok := trees.Configuration(configured)
			must(ok, nil)
		},
		"compare timestamps": func() {
			if off || !trees.Differ(next, live) {
				_, err := fieldmanager.IgnoreManagedFieldsTimestampsTransformer(ctx, next, live)
				must(true, err)
			}
		},
	}
}

// benchSpec returns a spec of about 700 bytes with every type of list and map.
func benchSpec() map[string]any {
	word := "a text of moderate length, as in specs"
	return map[string]any{
		"count": int64(1), "text": word, "flag": true, "either": "50%",
		"labels": map[string]any{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web-1"},
		"list":   []any{word, word}, "set": []any{"a", "b", "c"},
		"steps": []any{map[string]any{"name": "build", "n": int64(1)}, map[string]any{"name": "deploy", "n": int64(2)}},
		"ports": []any{map[string]any{"name": "http", "port": int64(80), "on": true},
			map[string]any{"name": "https", "port": int64(443), "on": true}},
		"parts": map[string]any{"one": map[string]any{"n": int64(1), "text": word},
			"two": map[string]any{"n": int64(2), "text": word}},
		"deep": map[string]any{"a": map[string]any{"b": word, "c": int64(1)}},
	}
}
