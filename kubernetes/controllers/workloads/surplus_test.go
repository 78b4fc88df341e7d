package workloads

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// If there are too many terminated pods, evicted ones are deleted first, then the oldest.
func TestSurplus(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase, reason string, created int64) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(created, 0))},
			Status:     corev1.PodStatus{Phase: phase, Reason: reason},
		}
	}
	pods := []*corev1.Pod{
		pod("new", corev1.PodSucceeded, "", 30), pod("b", corev1.PodFailed, "", 20),
		pod("a", corev1.PodSucceeded, "", 20),
		pod("running", corev1.PodRunning, "", 1), pod("pending", corev1.PodPending, "", 1),
		pod("unknown", corev1.PodUnknown, "", 1),
		pod("evicted", corev1.PodFailed, "Evicted", 40),
	}
	for keep, want := range [][]string{0: {"evicted", "a", "b", "new"}, 1: {"evicted", "a", "b"}, 2: {"evicted", "a"},
		3: {"evicted"}, 4: nil, 5: nil} {
		var got []string
		for _, p := range (&podCollector{keep: keep}).surplus(pods) {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("keep %d: %v, want %v", keep, got, want)
		}
	}
}
