package controller_test

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/reconcile"

	ajdv1 "kelson.dev/examples/home/api/v1"
	"kelson.dev/examples/home/internal/controller"
)

// EX-07
func TestHomeStatusHasSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := ajdv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		env := testenv.New(t, testenv.CRDs("../../config/crd/bases"), testenv.RBAC("../../config/rbac"), testenv.Scheme(scheme),
			testenv.Operator(operator.AddToScheme(ajdv1.AddToScheme), controller.HomeController()))

		home := &ajdv1.Home{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: ajdv1.HomeSpec{Foo: "bar"}}
		env.Create(t, home)
		check := func(foo string) {
			t.Helper()
			env.Settle(t)
			env.Get(t, home)
			if home.Status.Seen != foo || home.Status.ObservedGeneration != home.Generation || !reconcile.IsTrue(home, "Ready") {
				t.Errorf("status is %+v", home.Status)
			}
		}
		check("bar")
		home.Spec.Foo = "baz"
		if err := env.Client().Update(t.Context(), home); err != nil {
			t.Fatal(err)
		}
		check("baz")
	})
}
