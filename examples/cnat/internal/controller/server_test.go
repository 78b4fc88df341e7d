package controller_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest/manifest"

	cnat "kelson.dev/examples/cnat/api/v1alpha1"
	"kelson.dev/examples/cnat/internal/controller"
)

// The operator on the server of a kubeconfig: go run ./test/against runs it on kube-apiserver.
// There is no scheduler and no kubelet: the test acts as both and reports that the pod ran.
func TestAtOnAServer(t *testing.T) {
	path := os.Getenv("KELSON_TEST_KUBECONFIG")
	if path == "" {
		t.Skip("SKIPPED: needs another API server: set KELSON_TEST_KUBECONFIG to its kubeconfig")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	must(err)
	scheme := runtime.NewScheme()
	must(errors.Join(clientscheme.AddToScheme(scheme), cnat.AddToScheme(scheme)))
	c, err := client.New(client.Config{REST: config, Scheme: scheme})
	must(err)
	ctx := t.Context()
	manifests, err := manifest.Read("../../config/crd/bases")
	must(err)
	for _, m := range manifests {
		if err := c.Create(ctx, m.Object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- operator.Run(running, operator.Config{REST: config}, controller.Parts()...) }()

	eventually := func(check func() error) {
		t.Helper()
		var err error
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if err = check(); err == nil {
				return
			}
		}
		t.Fatal(err)
	}
	object := at(in(6*time.Second), "echo YAY")
	eventually(func() error { return c.Create(ctx, object) }) // until the definition is served
	key := client.KeyOf(object)
	phase := func(want cnat.AtPhase) func() error {
		return func() error {
			now, err := client.Get[cnat.At](ctx, c, key)
			if err == nil && now.Status.Phase != want {
				err = fmt.Errorf("phase is %q, want %q", now.Status.Phase, want)
			}
			object = now
			return err
		}
	}
	eventually(phase(cnat.Pending))
	eventually(phase(cnat.Running))
	if object.Status.StartTime.Time.Before(object.CreationTimestamp.Time) {
		t.Errorf("the start time is %v", object.Status.StartTime)
	}
	pod, err := client.Get[corev1.Pod](ctx, c, client.Key{Namespace: key.Namespace, Name: object.Status.Pod})
	must(err)
	if !metav1.IsControlledBy(pod, object) {
		t.Errorf("the pod belongs to %v", pod.OwnerReferences)
	}
	pod.Status.Phase = corev1.PodSucceeded
	must(c.Subresource("status").Update(ctx, pod, nil))
	eventually(phase(cnat.Done))
	wantComplete(t, object, metav1.ConditionTrue, "Succeeded", "has run")
	stop()
	must(<-ended)
	must(c.Delete(ctx, object))
	grace := int64(0)
	// No garbage collector runs with kube-apiserver alone.
	must(client.IgnoreNotFound(c.Delete(ctx, pod, client.DeleteOptions{GracePeriodSeconds: &grace})))
}
