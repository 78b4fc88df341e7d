package diagnosis

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Itself returns the problems of an object that the object alone shows at a time: its conditions,
// the states of its containers and its deletion. It reads nothing else, so that it also works for
// versions of a history. Findings that report no problem are not among them.
func Itself(obj *unstructured.Unstructured, now time.Time) []Finding {
	d := &diagnosing{Cluster: Cluster{Now: func() time.Time { return now }}, ctx: context.Background(),
		denied: map[string]bool{}, pods: map[string][]*corev1.Pod{}, warnings: map[types.UID][]*corev1.Event{}}
	_ = d.deletion(obj) // reads nothing
	if obj.GetKind() == "Pod" && obj.GroupVersionKind().Group == "" {
		if pod, err := convert[corev1.Pod](obj); err == nil {
			d.podItself(pod)
		}
	}
	if len(d.findings) == 0 {
		d.conditions(obj)
	}
	return slices.DeleteFunc(group(d.findings), func(f Finding) bool { return f.Severity == Note })
}

// podItself adds what the status of a pod says about its containers.
func (d *diagnosing) podItself(pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodFailed {
		d.failedPod(pod)
		return
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			d.container(pod, &list[i])
		}
	}
}
