package controlplane_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// A Deployment creates a ReplicaSet, which creates pods, which run. The Deployment is scaled, and
// its dependents are deleted with it. The test uses virtual time, and the control plane leaves no
// goroutine behind.
func TestDeployment(t *testing.T) {
	// Upstream's error handler waits relative to the last error in the process. A bubble's clock is
	// decades behind that time, so the controllers would wait for decades.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	defer func() { utilruntime.ErrorHandlers = handlers }()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		plane, err := controlplane.Start(context.Background(),
			controlplane.Config{Node: controlplane.Simulated{}, Controllers: controlplane.AllControllers{}})
		require.NoError(t, err)
		defer plane.Stop()
		client, err := kubernetes.NewForConfig(plane.RESTConfig())
		require.NoError(t, err)
		deployments, labels := client.AppsV1().Deployments("default"), map[string]string{"app": "web"}
		replicas := int32(3)
		_, err = deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas,
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				},
			}}, metav1.CreateOptions{})
		require.NoError(t, err)
		running := func() (n int) {
			pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			for _, pod := range pods.Items {
				if pod.Status.Phase == corev1.PodRunning {
					n++
				}
			}
			return n
		}
		scheduled := func() float64 {
			return value(scrape(t, plane.Transport())["scheduler_schedule_attempts_total"], "result=scheduled")
		}
		before := scheduled()
		time.Sleep(time.Minute)
		if n := running(); n != 3 {
			t.Errorf("%d pods run, want 3", n)
		}
		if n := scheduled() - before; n != 3 {
			t.Errorf("/metrics: %v pods scheduled, want 3", n)
		}
		web, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err != nil || web.Status.AvailableReplicas != 3 {
			t.Errorf("status %+v, %v", web.Status, err)
		}
		one := int32(1)
		web.Spec.Replicas = &one
		_, err = deployments.Update(ctx, web, metav1.UpdateOptions{})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		if n := running(); n != 1 {
			t.Errorf("%d pods run, want 1", n)
		}
		require.NoError(t, deployments.Delete(ctx, "web", metav1.DeleteOptions{}))
		time.Sleep(2 * time.Minute)
		sets, err := client.AppsV1().ReplicaSets("default").List(ctx, metav1.ListOptions{})
		if err != nil || len(sets.Items) != 0 || running() != 0 {
			t.Errorf("%d sets, %d pods are left, %v", len(sets.Items), running(), err)
		}
	})
}
