package operatortest_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/operatortest"
)

func Example() {
	startOperator := func(ctx context.Context, config *rest.Config) error { <-ctx.Done(); return nil }
	_ = func(t *testing.T) { // a test
		env := operatortest.New(t,
			operatortest.CRDs("config/crd"),
			operatortest.Nodes(operatortest.NodeSimulated),
			operatortest.Run(startOperator))
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
		}
		env.Create(t, pod)
		env.Eventually(t, time.Minute, func() bool {
			env.Get(t, pod)
			return pod.Status.Phase == corev1.PodRunning
		})
	}
}
