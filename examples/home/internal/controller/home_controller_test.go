package controller_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator"
	"kelson.dev/operator/operatortest"
	"kelson.dev/operator/reconcile"

	ajdv1 "kelson.dev/examples/home/api/v1"
	"kelson.dev/examples/home/internal/controller"
)

func TestHomeStatusHasSpec(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := ajdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	env := operatortest.New(t, operatortest.CRDs("../../config/crd/bases"), operatortest.RBAC("../../config/rbac"),
		operatortest.Scheme(scheme), operatortest.Operator(operator.AddToScheme(ajdv1.AddToScheme),
			controller.HomeController()))

	home := &ajdv1.Home{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: ajdv1.HomeSpec{Foo: "bar"}}
	env.Create(t, home)
	waitForStatus := func(foo string) {
		t.Helper()
		env.Eventually(t, time.Minute, func() bool {
			env.Get(t, home)
			return home.Status.Seen == foo && home.Status.ObservedGeneration == home.Generation &&
				reconcile.IsTrue(home, "Ready")
		})
	}
	waitForStatus("bar")
	home.Spec.Foo = "baz"
	if err := env.Client().Update(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	waitForStatus("baz")
}
