package controller_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest"
	"kelson.dev/operator/reconcile"

	webappv1 "kelson.dev/examples/welcome/api/v1"
	"kelson.dev/examples/welcome/internal/controller"
)

// newEnv returns a control plane with the operator, Kubernetes' Deployment controller and a
// simulated node.
func newEnv(t *testing.T) *operatortest.Env {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, webappv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return operatortest.New(t, operatortest.CRDs("../../config/crd/bases"), operatortest.RBAC("../../config/rbac"),
		operatortest.Scheme(scheme),
		operatortest.Workloads(), operatortest.Nodes(operatortest.NodeSimulated),
		operatortest.Operator(operator.AddToScheme(webappv1.AddToScheme), controller.WelcomeController()))
}

func welcome(name string, replicas int32) *webappv1.Welcome {
	return &webappv1.Welcome{
		ObjectMeta: metav1.ObjectMeta{Name: "front", Namespace: "default"},
		Spec:       webappv1.WelcomeSpec{Name: name, Replicas: replicas},
	}
}

// waitUntilReady waits until the pods of a Welcome serve its page.
func waitUntilReady(t *testing.T, env *operatortest.Env, w *webappv1.Welcome) {
	t.Helper()
	env.Eventually(t, time.Minute, func() bool {
		env.Get(t, w)
		return reconcile.IsTrue(w, controller.ConditionReady) && w.Status.AvailableReplicas == w.Spec.Replicas
	})
}

func TestFrontEnd(t *testing.T) {
	env := newEnv(t)
	w := welcome("$(reboot) & friends", 2)
	env.Create(t, w)
	waitUntilReady(t, env, w)
	if w.Status.URL != "http://front.default.svc" {
		t.Errorf("status is %+v", w.Status)
	}
	pods, err := client.List[corev1.Pod](t.Context(), env.Client(), client.InNamespace("default"))
	if err != nil || len(pods) != 2 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	page := pods[0].Spec.Containers[0]
	if strings.Contains(strings.Join(page.Command, " "), "reboot") || page.Env[0].Value != w.Spec.Name {
		t.Errorf("the name is a part of the command: %+v", page)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "front", Namespace: "default"}}
	env.Get(t, service)
	for k, v := range service.Spec.Selector {
		if pods[0].Labels[k] != v {
			t.Errorf("the service does not select the pods: %v, %v", service.Spec.Selector, pods[0].Labels)
		}
	}
}

func TestFrontEndFollowsWelcome(t *testing.T) {
	env := newEnv(t)
	w := welcome("everybody", 1)
	env.Create(t, w)
	waitUntilReady(t, env, w)

	// Changes of the Deployment by other clients are reverted.
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "front", Namespace: "default"}}
	env.Eventually(t, time.Minute, func() bool {
		env.Get(t, deployment)
		deployment.Spec.Template.Spec.Containers[0].Env[0].Value = "nobody"
		err := env.Client().Update(t.Context(), deployment)
		if err != nil && !apierrors.IsConflict(err) { // the Deployment controller writes its status
			t.Fatal(err)
		}
		return err == nil
	})
	env.Eventually(t, time.Minute, func() bool {
		env.Get(t, deployment)
		return deployment.Spec.Template.Spec.Containers[0].Env[0].Value == "everybody"
	})

	env.Eventually(t, time.Minute, func() bool {
		env.Get(t, w)
		w.Spec.Replicas = 3
		err := env.Client().Update(t.Context(), w)
		if err != nil && !apierrors.IsConflict(err) { // the operator writes the status
			t.Fatal(err)
		}
		return err == nil
	})
	waitUntilReady(t, env, w)

	if err := env.Client().Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, time.Minute, func() bool { // the garbage collector deletes the Deployment
		return apierrors.IsNotFound(env.Client().Get(t.Context(), client.KeyOf(deployment), deployment))
	})
}

func TestInvalidWelcomes(t *testing.T) {
	env := newEnv(t)
	for _, w := range []*webappv1.Welcome{welcome("", 1), welcome("x", -1), welcome(strings.Repeat("x", 101), 1)} {
		if err := env.Client().Create(t.Context(), w); !apierrors.IsInvalid(err) {
			t.Errorf("%+v: %v", w.Spec, err)
		}
	}
}
