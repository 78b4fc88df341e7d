package operatortest_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest"
)

// With RBAC, programs that Run starts have only the rights of the ServiceAccount. The test still
// has administrator rights. A fork keeps the ServiceAccount.
func TestRBAC(t *testing.T) {
	needKelson(t)
	type result struct{ read, write error }
	results := make(chan result, 1)
	run := operatortest.Run(func(ctx context.Context, config *rest.Config) error {
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
	check := func(env *operatortest.Env) {
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
	base := operatortest.New(t, operatortest.RBAC("testdata/rbac"))
	check(base.Fork(t, run))
	check(operatortest.New(t, operatortest.RBAC("testdata/rbac"), run))
}
