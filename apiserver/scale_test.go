package apiserver_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// oven has replicas.
type oven struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ovenSpec `json:"spec"`
}

type ovenSpec struct {
	Fires int32 `json:"fires"`
}

func (o *oven) DeepCopyObject() runtime.Object {
	out := *o
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// The subresource scale is read, updated and patched, and validated.
func TestScale(t *testing.T) {
	scale := apiserver.Scale("spec.fires", func(o *oven) apiserver.Replicas {
		return apiserver.Replicas{Desired: &o.Spec.Fires, Current: o.Spec.Fires, Selector: "oven=" + o.Name}
	})
	s, client := newServer(t, apiserver.Group(group, apiserver.Kind(&oven{TypeMeta: typeMeta("v1", "Oven")}, scale)))
	in := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "ovens"}).
		Namespace("default")
	ctx := t.Context()
	_, err := in.Create(ctx, object(t, `{"apiVersion":"`+group+
		`/v1","kind":"Oven","metadata":{"name":"a"},"spec":{"fires":1}}`), metav1.CreateOptions{})
	require.NoError(t, err)
	shown, err := in.Get(ctx, "a", metav1.GetOptions{}, "scale")
	require.NoError(t, err)
	check(t, "kind", shown.GroupVersionKind().String(), "autoscaling/v1, Kind=Scale")
	check(t, "status", text(t, shown, "status"), `{"replicas":1,"selector":"oven=a"}`)
	shown.Object["spec"] = map[string]any{"replicas": int64(2)}
	_, err = in.Update(ctx, shown, metav1.UpdateOptions{}, "scale")
	require.NoError(t, err)
	_, err = in.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`),
		metav1.PatchOptions{FieldManager: "scaler"}, "scale")
	require.NoError(t, err)
	if _, err = in.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"replicas":-5}}`), metav1.PatchOptions{},
		"scale"); !apierrors.IsInvalid(err) {
		t.Errorf("negative: %v", err)
	}
	now, err := in.Get(ctx, "a", metav1.GetOptions{})
	require.NoError(t, err)
	check(t, "fires", text(t, now, "spec", "fires"), "5")
	check(t, "generation", text(t, now, "metadata", "generation"), "3")
	fields := text(t, now, "metadata", "managedFields")
	assert.Containsf(t, fields, `{"f:spec":{"f:fires":{}}},"manager":"scaler"`, "managedFields")
	table := body(t, s, "/apis/"+group+"/v1/namespaces/default/ovens/a/scale",
		"application/json;as=Table;v=v1;g=meta.k8s.io")
	assert.Containsf(t, table, `"cells":["a",5,5,`, "table")
}
