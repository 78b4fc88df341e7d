package kubernetes_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/follow"
)

// The errors of writes are ignored only if the store confirms them.
func TestIgnoredErrors(t *testing.T) {
	st := storetest.New(t, store.Config{})
	there, absent := store.Key{Resource: "configmaps", Namespace: "n", Name: "there"},
		store.Key{Resource: "configmaps", Namespace: "n", Name: "absent"}
	written, err := st.Commit(t.Context(), store.Op{Key: there,
		Data: []byte(`{"metadata":{"namespace":"n","name":"there","uid":"u","resourceVersion":"1"}}`)})
	require.NoError(t, err)
	resource := schema.GroupResource{Resource: "configmaps"}
	notFound, exists := apierrors.NewNotFound(resource, "x"), apierrors.NewAlreadyExists(resource, "x")
	conflict := apierrors.NewConflict(resource, "x", nil)
	old := &store.Object{Key: there, Head: written[0].Head, Revision: written[0].Revision - 1}
	for name, got := range map[string]struct {
		err     error
		ignored bool
	}{
		"gone":                 {follow.IgnoreGone(st, absent, "u", notFound), true},
		"gone, any uid":        {follow.IgnoreGone(st, absent, "", notFound), true},
		"replaced":             {follow.IgnoreGone(st, there, "other", notFound), true},
		"not gone":             {follow.IgnoreGone(st, there, "u", notFound), false},
		"another error":        {follow.IgnoreGone(st, absent, "u", conflict), false},
		"changed":              {follow.IgnoreChanged(st, old, conflict), true},
		"not changed":          {follow.IgnoreChanged(st, written[0], conflict), false},
		"exists":               {follow.IgnoreExists(st, there, exists), true},
		"does not exist":       {follow.IgnoreExists(st, absent, exists), false},
		"no error":             {follow.IgnoreGone(st, there, "u", nil), true},
		"no error of a create": {follow.IgnoreExists(st, absent, nil), true},
	} {
		assert.Equalf(t, got.err == nil, got.ignored, "%s: %v", name, got.err)
	}
}
