package workloads_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/lab/testenv"
)

// A HorizontalPodAutoscaler scales a Deployment up, at most to its maximum, as soon as the usage of
// its pods rises, and down when the usage has been low for five minutes. The metrics are objects of
// a custom kind.
func TestHorizontalPodAutoscaler(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		defineMetric(t, env, "metrics.k8s.io", "pods", "PodMetrics")
		web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: selector("web"), Template: template("web", nil),
		}}
		web.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m")}
		env.Create(t, web)
		scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment",
					Name: "web"},
				MinReplicas: new(int32(1)), MaxReplicas: 5,
				Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{
						Name: corev1.ResourceCPU,
						Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType,
							AverageUtilization: new(int32(50))},
					}}},
			}}
		env.Create(t, scaler)
		for _, step := range []struct {
			name     string
			load     int64 // milli-CPU of all pods together
			lasts    time.Duration
			replicas int32
		}{
			{"at the target", 50, 2 * time.Minute, 1},
			{"up", 150, 2 * time.Minute, 3},
			{"to the maximum", 1000, 3 * time.Minute, 5},
			{"not down yet", 50, 4 * time.Minute, 5},
			{"down", 50, 4 * time.Minute, 1},
		} {
			for end := time.Now().Add(step.lasts); time.Now().Before(end); {
				setLoad(t, env, step.load)
				after(t, env, 15*time.Second)
			}
			env.Get(t, web)
			env.Get(t, scaler)
			if *web.Spec.Replicas != step.replicas || web.Status.ReadyReplicas != step.replicas ||
				scaler.Status.CurrentReplicas != step.replicas {
				t.Errorf("%s: %d replicas, %d ready, want %d; status of the autoscaler: %+v", step.name,
					*web.Spec.Replicas, web.Status.ReadyReplicas, step.replicas, scaler.Status)
			}
		}
	})
}

// defineMetric defines a custom kind of a group of metrics, without a schema.
func defineMetric(t *testing.T, env *testenv.Env, group, plural, kind string) {
	t.Helper()
	env.Create(t, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group,
			"annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, a test"}},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{map[string]any{
				"name": "v1beta1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
					"x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}})
}

// setLoad writes the metrics of all pods, between which a load in milli-CPU is divided.
func setLoad(t *testing.T, env *testenv.Env, load int64) {
	t.Helper()
	all := pods(t, env)
	for _, pod := range all {
		m := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
			"metadata":  map[string]any{"name": pod.Name, "namespace": pod.Namespace},
			"timestamp": time.Now().UTC().Format(time.RFC3339), "window": "15s",
			"containers": []any{map[string]any{"name": "c", "usage": map[string]any{
				"cpu": resource.NewMilliQuantity(load/int64(len(all)), resource.DecimalSI).String(), "memory": "1Mi",
			}}},
		}}
		m.SetLabels(pod.Labels)
		if err := env.Client().Delete(t.Context(), m.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if err := env.Client().Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

// A HorizontalPodAutoscaler follows a metric of external.metrics.k8s.io, whose resources are named
// like metrics.
func TestExternalMetric(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		defineMetric(t, env, "external.metrics.k8s.io", "queues", "ExternalMetricValue")
		env.Create(t, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "external.metrics.k8s.io/v1beta1", "kind": "ExternalMetricValue",
			"metadata": map[string]any{"name": "orders", "namespace": "default",
				"labels": map[string]any{"queue": "orders"}},
			"metricName": "queues", "metricLabels": map[string]any{"queue": "orders"},
			"timestamp": time.Now().UTC().Format(time.RFC3339), "value": "40",
		}})
		env.Create(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: selector("web"), Template: template("web", nil),
		}})
		env.Create(t, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment",
					Name: "web"}, MaxReplicas: 9,
				Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType,
					External: &autoscalingv2.ExternalMetricSource{
						Metric: autoscalingv2.MetricIdentifier{Name: "queues",
							Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"queue": "orders"}}},
						Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
							AverageValue: new(resource.MustParse("10"))},
					}}},
			}})
		after(t, env, 2*time.Minute)
		web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}
		env.Get(t, web)
		if *web.Spec.Replicas != 4 || web.Status.ReadyReplicas != 4 {
			scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: web.ObjectMeta}
			env.Get(t, scaler)
			t.Errorf("%d replicas, %d ready, want 4; status of the autoscaler: %+v", *web.Spec.Replicas,
				web.Status.ReadyReplicas, scaler.Status)
		}
	})
}
