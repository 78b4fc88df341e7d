package client

import (
	"reflect"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/internal/require"
)

func managedPod() *corev1.Pod {
	fields := func(raw string) *metav1.FieldsV1 { f := &metav1.FieldsV1{}; f.SetRawBytes([]byte(raw)); return f }
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", Labels: map[string]string{"x": "yes"},
		Finalizers: []string{"f"}}}
	p.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "m", Operation: "Apply", APIVersion: "v1", Time: &metav1.Time{Time: time.Unix(1e9, 0)},
			FieldsType: "FieldsV1", FieldsV1: fields(`{"f:a":{}}`)},
		{Manager: "n", Subresource: "status", FieldsV1: fields(`{"f:a":{}}`)},
		{Manager: "o"},
	}
	p.Spec.Containers = []corev1.Container{{Name: "c"}}
	return p
}

// Immutable objects share parts.
func TestSharedManagedFields(t *testing.T) {
	raw, err := managedPod().Marshal()
	require.NoError(t, err)
	data := envelope(raw, corev1.SchemeGroupVersion.WithKind("Pod"))
	read := func(p protobufCodec) *corev1.Pod {
		t.Helper()
		pod := &corev1.Pod{}
		if err := p.decodeNew(data, pod, corev1.SchemeGroupVersion.WithKind("Pod")); err != nil || pod.Kind != "Pod" ||
			len(pod.ManagedFields) != 3 {
			t.Fatalf("%v: %+v", err, pod)
		}
		return pod
	}
	shared, own := protobufCodec{newSharing(true)}, protobufCodec{newSharing(false)}
	read(shared) // a value that occurs only once is not retained
	if a, b := read(shared), read(shared); a.ManagedFields[0].FieldsV1 != b.ManagedFields[1].FieldsV1 ||
		a.ManagedFields[2].FieldsV1 != nil {
		t.Errorf("not shared: %v %v", a.ManagedFields, b.ManagedFields)
	} else if &a.Spec.Containers[0] != &b.Spec.Containers[0] ||
		reflect.ValueOf(a.Labels).Pointer() != reflect.ValueOf(b.Labels).Pointer() {
		t.Error("slices and maps are not shared")
	}
	read(own)
	if a, b := read(own), read(own); a.ManagedFields[0].FieldsV1 == b.ManagedFields[0].FieldsV1 ||
		&a.Spec.Containers[0] == &b.Spec.Containers[0] {
		t.Error("mutable objects share parts")
	} else if unsafe.StringData(a.Labels["x"]) != unsafe.StringData(b.Labels["x"]) {
		t.Error("strings are not shared")
	}
	// Items of a list also share parts.
	list := &corev1.PodList{Items: []corev1.Pod{*managedPod(), *managedPod(), *managedPod()}}
	raw, err = list.Marshal()
	require.NoError(t, err)
	kind := corev1.SchemeGroupVersion.WithKind("PodList")
	items, typed := NewItems(&corev1.Pod{}), &corev1.PodList{}
	for _, into := range []runtime.Object{items, typed} {
		require.NoError(t, (protobufCodec{newSharing(true)}).decode(envelope(raw, kind), into, kind))
	}
	if items.Items[1].GetManagedFields()[0].FieldsV1 != items.Items[2].GetManagedFields()[0].FieldsV1 ||
		typed.Items[1].ManagedFields[0].FieldsV1 != typed.Items[2].ManagedFields[0].FieldsV1 {
		t.Error("items do not share")
	}
}
