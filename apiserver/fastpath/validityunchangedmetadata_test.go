package fastpath_test

import (
	"reflect"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/fastpath/managedfields"
	"kelson.dev/apiserver/fastpath/validity"
	"kelson.dev/apiserver/internal/crdtest"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

// TestUnchangedMetadataMatchesLibrary checks that metadata which UnchangedMetadata accepts passes
// through the library's conversion to ObjectMeta and back unchanged.
func TestUnchangedMetadataMatchesLibrary(t *testing.T) {
	seed := randomtest.Seed(t)
	a := crdtest.NewGenerator(seed, 11)
	fields := &managedfields.Cache{}
	exact := 0
	for range 20000 {
		metadata := a.AnyMetadata()
		switch a.IntN(20) {
		case 0:
			metadata[a.One("name", "uid", "labels", "creationTimestamp", "finalizers", "generation", "odd")] = nil
		case 1:
			metadata[a.One("name", "uid", "labels", "creationTimestamp", "finalizers", "generation", "ownerReferences",
				"managedFields", "deletionGracePeriodSeconds")] =
				[]any{"", int64(0), map[string]any{}, []any{}, 1.5, true, []any{"x"}, map[string]any{"a": "b"},
					"2026-01-02T03:04:05+01:00", "0001-01-01T00:00:00Z"}[a.IntN(10)]
		case 2:
			metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "",
				"uid": "1", a.One("controller", "odd"): a.IntN(2) == 0}}
		case 3:
			metadata["ownerReferences"] = []any{map[string]any{"kind": "Pod", "name": "p"}}
		}
		if !validity.UnchangedMetadata(metadata, fields) {
			continue
		}
		exact++
		object := map[string]any{"metadata": runtime.DeepCopyJSON(metadata)}
		typed, _, unknown, err := objectmeta.GetObjectMetaWithOptions(object,
			objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
		if err != nil || len(unknown) > 0 {
			t.Fatalf("%v: %v %v", metadata, unknown, err)
		}
		require.NoError(t, objectmeta.SetObjectMeta(object, typed))
		if !reflect.DeepEqual(object["metadata"], metadata) {
			t.Fatalf("%v\nbecame\n%v", metadata, object["metadata"])
		}
	}
	t.Logf("%d were exact", exact)
	if exact < 5000 {
		t.Errorf("only %d were exact", exact)
	}
}
