package cluster_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest"

	"kelson.dev/examples/projectconfig/internal/cluster"
)

func TestNameIsPublished(t *testing.T) {
	env := operatortest.New(t, operatortest.Operator(cluster.Naming("harbour")))
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name}}
	waitForName := func() {
		t.Helper()
		env.Eventually(t, time.Minute, func() bool {
			return env.Client().Get(t.Context(), client.KeyOf(cm), cm) == nil && cm.Data[cluster.Key] == "harbour"
		})
	}
	waitForName()
	cm.Data[cluster.Key] = "desert"
	if err := env.Client().Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	waitForName() // the operator reverts the change
	if err := env.Client().Delete(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	waitForName() // and creates the ConfigMap again
}
