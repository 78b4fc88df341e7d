package testenv_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// With RBAC or Role, functions that Run starts have exactly the rights of the ServiceAccount or of
// the roles; the test itself is still an administrator. A fork keeps the user.
func TestRBAC(t *testing.T) {
	type result struct{ read, write error }
	results := make(chan result, 1)
	run := testenv.Run(func(ctx context.Context, config *rest.Config) error {
		c, err := client.New(client.Config{REST: config})
		if err != nil {
			return err
		}
		var r result
		_, r.read = client.Get[corev1.ConfigMap](ctx, c, client.Key{Namespace: "default", Name: "none"})
		r.write = c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}})
		results <- r
		<-ctx.Done()
		return nil
	})
	check := func(env *testenv.Env) {
		t.Helper()
		r := <-results
		if !apierrors.IsNotFound(r.read) {
			t.Errorf("a read that the role allows: %v, want not found", r.read)
		}
		if !apierrors.IsForbidden(r.write) {
			t.Errorf("a write that the role does not allow: %v, want forbidden", r.write)
		}
		env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-the-test"}})
	}
	base := testenv.New(t, testenv.RBAC("testdata/rbac"))
	check(base.Fork(t, run))
	check(testenv.New(t, testenv.RBAC("testdata/rbac"), run))
	base = testenv.New(t, testenv.Role("testdata/rbac")) // skips the ServiceAccount and its binding
	check(base.Fork(t, run))
}
