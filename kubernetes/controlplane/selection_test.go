package controlplane_test

import (
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/workloads"
	"kelson.dev/kubernetes/controlplane"
)

// The selection follows kube-controller-manager's rules.
func TestSelection(t *testing.T) {
	for _, test := range []struct {
		selected workloads.Selection
		runs     map[string]bool
	}{
		{nil, map[string]bool{"job-controller": true}},
		{workloads.Selection{"*"}, map[string]bool{"job-controller": true}},
		{workloads.Selection{"-*"}, map[string]bool{"job-controller": false}},
		{workloads.Selection{"*", "-job-controller"},
			map[string]bool{"job-controller": false, "cronjob-controller": true}},
		{workloads.Selection{"job-controller"}, map[string]bool{"job-controller": true, "cronjob-controller": false}},
		{workloads.Selection{"-job-controller", "job-controller", "*"}, map[string]bool{"job-controller": false}},
	} {
		for name, want := range test.runs {
			if got := test.selected.Runs(name); got != want {
				t.Errorf("%v runs %s: %v", test.selected, name, got)
			}
		}
	}
	for _, name := range controlplane.ControllerNames() {
		if _, err := controlplane.ParseControllers([]string{name, "*"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Controllers that are not selected do not run, and the others do. The selected Deployment
// controller creates a ReplicaSet, for which nothing creates pods; a Job's pod is not scheduled;
// and a deleted owner keeps its dependents.
func TestSelectedControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		selected, err := controlplane.ParseControllers([]string{"deployment-controller", "job-controller",
			"serviceaccount-controller", "root-ca-certificate-publisher-controller"})
		require.NoError(t, err)
		plane := start(t, controlplane.Config{
			Node: controlplane.Simulated{}, Controllers: controlplane.AllControllers{Selection: selected},
		})
		client, err := kubernetes.NewForConfig(plane.RESTConfig())
		require.NoError(t, err)
		ctx, labels := t.Context(), map[string]string{"app": "web"}
		spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		_, err = client.AppsV1().Deployments("default").Create(ctx,
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
			}}, metav1.CreateOptions{})
		require.NoError(t, err)
		spec.RestartPolicy = corev1.RestartPolicyNever
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}
		_, err = client.BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		sets, err := client.AppsV1().ReplicaSets("default").List(ctx, metav1.ListOptions{})
		if err != nil || len(sets.Items) != 1 {
			t.Errorf("%d ReplicaSets, %v", len(sets.Items), err)
		}
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) != 1 || pods.Items[0].Spec.NodeName != "" {
			t.Errorf("pods %+v, %v", pods.Items, err)
		}
		require.NoError(t, client.AppsV1().Deployments("default").Delete(ctx, "web", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if sets, err = client.AppsV1().ReplicaSets("default").List(ctx, metav1.ListOptions{}); err != nil ||
			len(sets.Items) != 1 {
			t.Errorf("without the garbage collector: %d ReplicaSets, %v", len(sets.Items), err)
		}
	})
}
