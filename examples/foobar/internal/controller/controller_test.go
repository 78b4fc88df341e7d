package controller_test

import (
	"context"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/lab/testenv"

	foobarv1 "kelson.dev/examples/foobar/api/v1"
	"kelson.dev/examples/foobar/internal/controller"
	"kelson.dev/examples/foobar/pkg/generated/clientset/versioned"
)

// EX-10
func TestBarsOfAFoo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.CRDs("../../config/crd/bases"), testenv.RBAC("../../config/rbac"),
			testenv.Run(func(ctx context.Context, config *rest.Config) error { return controller.Run(ctx, config, 2) }))
		clients, err := versioned.NewForConfig(env.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		ctx, foos, bars := t.Context(), clients.FoobarV1().Foos("default"), clients.FoobarV1().Bars("default")

		foo, err := foos.Create(ctx, &foobarv1.Foo{ObjectMeta: metav1.ObjectMeta{Name: "foo"}, Spec: foobarv1.FooSpec{Bars: 3, Message: "hello"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wantBars := func(n int32, message string) {
			t.Helper()
			env.Settle(t)
			list, err := bars.List(ctx, metav1.ListOptions{})
			if err != nil || len(list.Items) != int(n) {
				t.Fatalf("%d bars, %v; want %d", len(list.Items), err, n)
			}
			for _, bar := range list.Items {
				if bar.Spec.Message != message || !metav1.IsControlledBy(&bar, foo) {
					t.Errorf("%+v", bar)
				}
			}
			if foo, err = foos.Get(ctx, "foo", metav1.GetOptions{}); err != nil || foo.Status.Bars != n || foo.Status.ObservedGeneration != foo.Generation {
				t.Errorf("status is %+v, %v", foo.Status, err)
			}
		}
		wantBars(3, "hello")

		foo.Spec.Bars, foo.Spec.Message = 1, "bye"
		if foo, err = foos.Update(ctx, foo, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		wantBars(1, "bye")

		if err := bars.Delete(ctx, "foo-0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		wantBars(1, "bye") // it is created again

		if err := foos.Delete(ctx, "foo", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		env.Settle(t)
		if list, err := bars.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
			t.Errorf("%d bars stay, %v", len(list.Items), err)
		}
	})
}
