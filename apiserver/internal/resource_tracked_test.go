package internal_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/assert"
)

func TestWide(t *testing.T) {
	members := func(n int) map[string]string {
		out := make(map[string]string, n)
		for i := range n {
			out[fmt.Sprint(i)] = ""
		}
		return out
	}
	list := make([]any, resource.MaxTracked+1)
	owned := func(n int) *corev1.ConfigMap {
		fields := &metav1.FieldsV1{}
		fields.SetRawBytes([]byte(`{"f:data":{` + strings.Repeat(`"f:a":{},`, n-1) + `"f:a":{}}}`))
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: fields}}}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: make([]corev1.EnvVar, resource.MaxTracked+1)}}}}
	for name, test := range map[string]struct {
		obj  runtime.Object
		want bool
	}{
		"nothing":            {&corev1.ConfigMap{}, false},
		"as many as allowed": {&corev1.ConfigMap{Data: members(resource.MaxTracked)}, false},
		"members":            {&corev1.ConfigMap{Data: members(resource.MaxTracked + 1)}, true},
		"bytes": {&corev1.ConfigMap{BinaryData: map[string][]byte{"a": make([]byte, resource.MaxTracked+1)}},
			false},
		"elements": {&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Finalizers: make([]string, resource.MaxTracked+1)}}, true},
		"owned":          {owned(resource.MaxTracked), false},
		"too many owned": {owned(resource.MaxTracked + 1), true},
		"below a list":   {pod, true},
		"tree": {&unstructured.Unstructured{
			Object: map[string]any{"a": map[string]any{"b": []any{map[string]any{"c": list}}}}}, true},
		"small tree": {&unstructured.Unstructured{
			Object: map[string]any{"a": map[string]any{"b": []any{1, "c"}}}}, false},
	} {
		assert.Equalf(t, resource.Wide(test.obj), test.want, "%s", name)
	}
}
