package workloads_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/lab/testenv"
)

// Pods of a node that does not exist fail and are deleted after a quarantine. Pods of a node that
// was created meanwhile are not deleted. Terminating pods are deleted if they have no node, or if
// their node is out of service.
func TestPodsAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Workloads())
		var last []string // the last states of pods
		follow(t, env, &corev1.PodList{}, func(event watch.Event) {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Deleted {
				state := fmt.Sprint(pod.Name, " ", pod.Status.Phase)
				for _, c := range pod.Status.Conditions {
					if c.Type == corev1.DisruptionTarget {
						state += fmt.Sprint(" ", c.Reason, ": ", c.Message)
					}
				}
				last = append(last, state)
			}
		})
		create := func(name, node string, finalizers ...string) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers},
				Spec: template(name, nil).Spec}
			pod.Spec.NodeName = node
			env.Create(t, pod)
		}
		want := func(pods ...string) {
			t.Helper()
			slices.Sort(last)
			if !slices.Equal(last, pods) {
				t.Errorf("deleted %q, want %q", last, pods)
			}
			last = nil
		}
		create("orphan", "gone")
		create("early", "late")
		after(t, env, 30*time.Second)
		want()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
		env.Create(t, node)
		after(t, env, 10*time.Minute)
		want("orphan Failed DeletionByPodGC: PodGC: node no longer exists")

		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "early", Namespace: "default"}}
		if err := env.Client().Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		after(t, env, 10*time.Minute)
		want() // its kubelet must report that it has stopped
		env.Get(t, node)
		node.Spec.Taints = append(node.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule})
		update(t, env, node)
		after(t, env, time.Minute)
		want("early Failed")
	})
}
