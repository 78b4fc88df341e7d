package client_test

import (
	"encoding/json"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
	"kelson.dev/operator/client/strategic"
)

// Only the changed elements of a list are sent.
func TestMergeFrom(t *testing.T) {
	change := func(p *corev1.Pod) {
		delete(p.Labels, "a")
		p.Labels["c"] = "3"
		p.Spec.Containers[1].Image = "z"
		p.ResourceVersion = "9"
	}
	for name, tt := range map[string]struct {
		opts []client.PatchOption
		edit func(*corev1.Pod)
		want string
	}{
		"change": {nil, change,
			`{"metadata":{"labels":{"a":null,"c":"3"}},"spec":{"$setElementOrder/containers":[{"name":"one"},{"name":"two"}],"containers":[{"name":"two","image":"z"}]}}`},
		"nothing": {nil, func(*corev1.Pod) {}, `{}`},
		"locked": {[]client.PatchOption{client.OptimisticLock}, func(*corev1.Pod) {},
			`{"metadata":{"resourceVersion":"7"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: "7",
				Labels: map[string]string{"a": "1", "b": "2"}}}
			obj.Spec.Containers = []corev1.Container{{Name: "one", Image: "x"}, {Name: "two", Image: "y"}}
			patch := strategic.MergeFrom(obj, tt.opts...) // obj itself is changed afterwards
			tt.edit(obj)
			data, err := patch.Data(obj)
			must(t, err)
			var got, want any
			must(t, json.Unmarshal(data, &got))
			must(t, json.Unmarshal([]byte(tt.want), &want))
			if !reflect.DeepEqual(got, want) || patch.Type() != types.StrategicMergePatchType {
				t.Errorf("got %s, want %s", data, tt.want)
			}
		})
	}
	dynamic := &unstructured.Unstructured{Object: map[string]any{}}
	if _, err := strategic.MergeFrom(dynamic).Data(dynamic); err == nil {
		t.Error("no error for an object without a Go type")
	}
}
