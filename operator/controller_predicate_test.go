package operator_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/trace"
)

// Each predicate decides by the annotations, the labels or the type of the event.
func TestPredicatesOnMetadata(t *testing.T) {
	object := func(label, annotation string) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": label},
			Annotations: map[string]string{"a": annotation}}}
	}
	update := func(old, now client.Object) controller.Event {
		return controller.Event{Type: trace.Update, Old: old, Object: now}
	}
	selected := controller.Selected(labels.SelectorFromSet(labels.Set{"l": "x"}))
	for _, tt := range []struct {
		name  string
		p     controller.Predicate
		event controller.Event
		want  bool
	}{
		{"annotations changed", controller.AnnotationsChanged, update(object("", "1"), object("", "2")), true},
		{"annotations the same", controller.AnnotationsChanged, update(object("1", "1"), object("2", "1")), false},
		{"annotations of a new object", controller.AnnotationsChanged,
			controller.Event{Type: trace.Add, Object: object("", "")}, true},
		{"labels changed", controller.LabelsChanged, update(object("1", ""), object("2", "")), true},
		{"labels the same", controller.LabelsChanged, update(object("1", "1"), object("1", "2")), false},
		{"selected", selected, controller.Event{Type: trace.Add, Object: object("x", "")}, true},
		{"not selected", selected, controller.Event{Type: trace.Add, Object: object("y", "")}, false},
		{"no longer selected", selected, update(object("x", ""), object("y", "")), true},
		{"on", controller.On(trace.Delete), controller.Event{Type: trace.Delete, Object: object("", "")}, true},
		{"not on", controller.On(trace.Delete), controller.Event{Type: trace.Add, Object: object("", "")}, false},
	} {
		assert.Equalf(t, tt.p(tt.event), tt.want, "%s", tt.name)
	}
}
