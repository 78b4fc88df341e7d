package controller_test

import (
	"testing"
	"testing/synctest"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"

	appsv1 "kelson.dev/examples/rights-test-1824627127/api/v1"
	"kelson.dev/examples/rights-test-1824627127/internal/controller"
)

func newEnv(t *testing.T) *testenv.Env {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return testenv.New(t, testenv.CRDs("../../config/crd/bases"), testenv.RBAC("../../config/rbac"), testenv.Scheme(scheme), testenv.Nodes(controlplane.NodeSimulated),
		testenv.Operator(operator.AddToScheme(appsv1.AddToScheme), controller.SimpleDeploymentController()))
}

func simple(replicas int32) *appsv1.SimpleDeployment {
	return &appsv1.SimpleDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "three", Namespace: "default"},
		Spec:       appsv1.SimpleDeploymentSpec{Replicas: replicas, Image: "busybox", Command: []string{"sleep", "infinity"}},
	}
}

// settle waits until pods have started or ended and the operator has reacted.
func settle(t *testing.T, env *testenv.Env) {
	t.Helper()
	time.Sleep(2 * time.Minute) // virtual
	env.Settle(t)
}

func pods(t *testing.T, env *testenv.Env) map[string]*corev1.Pod {
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

func wantReady(t *testing.T, env *testenv.Env, sd *appsv1.SimpleDeployment, replicas int32) {
	t.Helper()
	env.Get(t, sd)
	if n := int32(len(pods(t, env))); n != replicas || sd.Status.Replicas != replicas || sd.Status.ReadyReplicas != replicas ||
		!reconcile.IsTrue(sd, controller.ConditionReady) {
		t.Fatalf("%d pods, want %d; status is %+v", n, replicas, sd.Status)
	}
}

// EX-04: the replicas can be changed with the subresource scale, as kubectl scale and autoscalers
// do.
func TestScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t)
		sd := simple(3)
		env.Create(t, sd)
		settle(t, env)
		wantReady(t, env, sd, 3)

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
			settle(t, env)
			wantReady(t, env, sd, replicas)
		}
	})
}

// EX-04
func TestPodsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t)
		sd := simple(2)
		env.Create(t, sd)
		settle(t, env)
		before := pods(t, env)

		if err := env.Client().Delete(t.Context(), before["three-1"]); err != nil {
			t.Fatal(err)
		}
		settle(t, env)
		wantReady(t, env, sd, 2)
		after := pods(t, env)
		if after["three-1"].UID == before["three-1"].UID || after["three-0"].UID != before["three-0"].UID {
			t.Error("want only the deleted pod to be replaced")
		}

		sd.Spec.Image = "busybox:2"
		if err := env.Client().Update(t.Context(), sd); err != nil {
			t.Fatal(err)
		}
		settle(t, env)
		wantReady(t, env, sd, 2)
		for name, pod := range pods(t, env) {
			if pod.Spec.Containers[0].Image != "busybox:2" {
				t.Errorf("%s still has the former image", name)
			}
		}
	})
}

// EX-04: the operator ignores pods that it does not own, even if the selector matches them.
func TestForeignPodsAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t)
		env.Create(t, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "stranger", Namespace: "default", Labels: map[string]string{"apps.demo.welcome.domain/simple-deployment": "three"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		})
		env.Create(t, simple(1))
		settle(t, env)
		if got := pods(t, env); got["stranger"] == nil || got["stranger"].DeletionTimestamp != nil || got["three-0"] == nil {
			t.Errorf("pods: %v", got)
		}
	})
}
