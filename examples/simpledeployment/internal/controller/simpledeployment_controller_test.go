package controller_test

import (
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest"
	"kelson.dev/operator/reconcile"

	appsv1 "kelson.dev/examples/simpledeployment/api/v1"
	"kelson.dev/examples/simpledeployment/internal/controller"
)

func newEnv(t *testing.T) *operatortest.Env {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return operatortest.New(t, operatortest.CRDs("../../config/crd/bases"), operatortest.RBAC("../../config/rbac"),
		operatortest.Scheme(scheme), operatortest.Nodes(operatortest.NodeSimulated),
		operatortest.Operator(operator.AddToScheme(appsv1.AddToScheme), controller.SimpleDeploymentController()))
}

func simple(replicas int32) *appsv1.SimpleDeployment {
	return &appsv1.SimpleDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "three", Namespace: "default"},
		Spec: appsv1.SimpleDeploymentSpec{Replicas: replicas, Image: "busybox",
			Command: []string{"sleep", "infinity"}},
	}
}

func pods(t *testing.T, env *operatortest.Env) map[string]*corev1.Pod {
	t.Helper()
	list, err := client.List[corev1.Pod](t.Context(), env.Client(), client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*corev1.Pod{}
	for _, pod := range list {
		byName[pod.Name] = pod
	}
	return byName
}

// waitUntilReady waits until exactly so many pods are ready.
func waitUntilReady(t *testing.T, env *operatortest.Env, sd *appsv1.SimpleDeployment, replicas int32) {
	t.Helper()
	env.Eventually(t, time.Minute, func() bool {
		env.Get(t, sd)
		return int32(len(pods(t, env))) == replicas && sd.Status.Replicas == replicas &&
			sd.Status.ReadyReplicas == replicas &&
			sd.Status.ObservedGeneration == sd.Generation && reconcile.IsTrue(sd, controller.ConditionReady)
	})
}

// The replicas can be changed with the subresource scale, as kubectl scale and autoscalers
// do.
func TestScale(t *testing.T) {
	env := newEnv(t)
	sd := simple(3)
	env.Create(t, sd)
	waitUntilReady(t, env, sd, 3)

	for _, replicas := range []int32{5, 1, 0} {
		scale := &autoscalingv1.Scale{}
		if err := env.Client().Subresource("scale").Get(t.Context(), sd, scale); err != nil {
			t.Fatal(err)
		}
		if scale.Status.Selector == "" || scale.Status.Replicas != sd.Status.Replicas {
			t.Errorf("scale is %+v", scale)
		}
		scale.Spec.Replicas = replicas
		if err := env.Client().Subresource("scale").Update(t.Context(), sd, scale); err != nil {
			t.Fatal(err)
		}
		waitUntilReady(t, env, sd, replicas)
	}
}

func TestPodsAreReplaced(t *testing.T) {
	env := newEnv(t)
	sd := simple(2)
	env.Create(t, sd)
	waitUntilReady(t, env, sd, 2)
	before := pods(t, env)

	if err := env.Client().Delete(t.Context(), before["three-1"]); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, time.Minute, func() bool {
		replaced := pods(t, env)["three-1"]
		return replaced != nil && replaced.UID != before["three-1"].UID
	})
	waitUntilReady(t, env, sd, 2)
	if after := pods(t, env); after["three-0"].UID != before["three-0"].UID {
		t.Error("want only the deleted pod to be replaced")
	}

	sd.Spec.Image = "busybox:2"
	if err := env.Client().Update(t.Context(), sd); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, time.Minute, func() bool {
		current := pods(t, env)
		for _, pod := range current {
			if pod.Spec.Containers[0].Image != "busybox:2" {
				return false
			}
		}
		return len(current) == 2
	})
	waitUntilReady(t, env, sd, 2)
}

// The operator ignores pods that it does not own, even if the selector matches them.
func TestForeignPodsAreIgnored(t *testing.T) {
	env := newEnv(t)
	env.Create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger", Namespace: "default",
			Labels: map[string]string{"apps.demo.welcome.domain/simple-deployment": "three"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})
	sd := simple(1)
	env.Create(t, sd)
	env.Eventually(t, time.Minute, func() bool {
		env.Get(t, sd)
		return sd.Status.ReadyReplicas == 1 && reconcile.IsTrue(sd, controller.ConditionReady)
	})
	if got := pods(t, env); got["stranger"] == nil || got["stranger"].DeletionTimestamp != nil ||
		got["three-0"] == nil {
		t.Errorf("pods: %v", got)
	}
}
