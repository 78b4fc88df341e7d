package crd

import (
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/fastpath/managedfields"
	"kelson.dev/apiserver/internal/crdtest"
	"kelson.dev/internal/require"
)

// TestNoFastPaths checks that Config.NoFastPaths reaches every fast path of custom kinds, and that
// a kind with fast paths, compiled from the same stored definition, keeps them.
func TestNoFastPaths(t *testing.T) {
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(t, json.Unmarshal([]byte(crdtest.Definition), &definition))
	stored := &definitionRevision{revision: 1, definition: &definition}
	for _, off := range []bool{true, false} {
		c := stored.compile(&Definitions{noFastPaths: off})
		metadata := func() map[string]any {
			return map[string]any{"name": "w", "namespace": "default", "uid": "u",
				"creationTimestamp": "2026-01-02T03:04:05Z", "generation": int64(1)}
		}
		object := crdtest.Widget(metadata(), map[string]any{"spec": map[string]any{"count": int64(1)}})
		rules, err := c.versions["v1"].rules()
		require.NoError(t, err)
		manager, err := c.models.manager("v1", "")
		require.NoError(t, err)
		_, tracks := manager.(*managedfields.MapManager)
		_, parsed := c.parseTree([]byte(`{"a":1}`))
		_, merged := (&codec{compiled: c, hub: "v1"}).MergePatch([]byte(crdtest.Text(object)),
			[]byte(`{"spec":{"count":2}}`), "v1")
		ctx := request.WithNamespace(t.Context(), "default")
		s := &strategy{compiled: c, hub: "v1"}
		_, created := s.BeforeCreate(ctx, object.DeepCopy())
		_, updated := s.BeforeUpdate(ctx, object.DeepCopy(), object)
		for name, taken := range map[string]bool{
			"field ownership":   tracks,
			"validation":        rules.schema != nil,
			"schema shape":      c.normalized(object),
			"metadata":          c.unchangedMetadata(metadata()),
			"JSON":              parsed == nil,
			"merge patch":       merged,
			"prepare a create":  created,
			"prepare an update": updated,
		} {
			if taken == off {
				t.Errorf("NoFastPaths %t: fast path of %s taken: %t", off, name, taken)
			}
		}
	}
}
