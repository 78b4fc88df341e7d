package reconcile_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/reconcile"
)

// Finalizers are added once and removed completely, without a change to a shared slice.
func TestFinalizers(t *testing.T) {
	shared := []string{"a", "b", "a"}
	pod := &corev1.Pod{}
	pod.Finalizers = shared
	if !reconcile.AddFinalizer(pod, "c") || reconcile.AddFinalizer(pod, "c") || !reconcile.HasFinalizer(pod, "c") {
		t.Errorf("got %v", pod.Finalizers)
	}
	if !reconcile.RemoveFinalizer(pod, "a") || reconcile.RemoveFinalizer(pod, "a") ||
		!slices.Equal(pod.Finalizers, []string{"b", "c"}) {
		t.Errorf("got %v", pod.Finalizers)
	}
	assert.Slicef(t, shared, []string{"a", "b", "a"}, "a shared slice was changed")
}
