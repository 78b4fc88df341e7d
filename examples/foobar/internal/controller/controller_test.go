package controller_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/operatortest"

	foobarv1 "kelson.dev/examples/foobar/api/v1"
	"kelson.dev/examples/foobar/internal/controller"
	"kelson.dev/examples/foobar/pkg/generated/clientset/versioned"
)

func TestBarsOfAFoo(t *testing.T) {
	env := operatortest.New(t, operatortest.CRDs("../../config/crd/bases"), operatortest.RBAC("../../config/rbac"),
		operatortest.Run(func(ctx context.Context, config *rest.Config) error {
			return controller.Run(ctx, config, 2)
		}))
	clients, err := versioned.NewForConfig(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, foos, bars := t.Context(), clients.FoobarV1().Foos("default"), clients.FoobarV1().Bars("default")

	foo, err := foos.Create(ctx, &foobarv1.Foo{ObjectMeta: metav1.ObjectMeta{Name: "foo"},
		Spec: foobarv1.FooSpec{Bars: 3, Message: "hello"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitForBars := func(n int32, message string) {
		t.Helper()
		env.Eventually(t, time.Minute, func() bool {
			list, err := bars.List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, bar := range list.Items {
				if bar.Spec.Message != message || !metav1.IsControlledBy(&bar, foo) {
					return false
				}
			}
			if foo, err = foos.Get(ctx, "foo", metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
			return len(list.Items) == int(n) && foo.Status.Bars == n && foo.Status.ObservedGeneration == foo.Generation
		})
	}
	waitForBars(3, "hello")

	foo.Spec.Bars, foo.Spec.Message = 1, "bye"
	if foo, err = foos.Update(ctx, foo, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForBars(1, "bye")

	if err := bars.Delete(ctx, "foo-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForBars(1, "bye") // it is created again

	if err := foos.Delete(ctx, "foo", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, time.Minute, func() bool { // the garbage collector deletes the Bars
		list, err := bars.List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}
