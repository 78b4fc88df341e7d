package cluster_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/lab/testenv"

	"kelson.dev/examples/projectconfig/internal/cluster"
)

// EX-05
func TestNameIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Operator(cluster.Naming("harbour")))
		env.Settle(t)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name}}
		wantName := func() {
			t.Helper()
			if env.Get(t, cm); cm.Data[cluster.Key] != "harbour" {
				t.Errorf("%v", cm.Data)
			}
		}
		wantName()
		cm.Data[cluster.Key] = "desert"
		if err := env.Client().Update(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
		env.Settle(t)
		wantName()
		if err := env.Client().Delete(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
		env.Settle(t)
		wantName()
	})
}
